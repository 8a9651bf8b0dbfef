package main

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	firstDelay = 250 * time.Millisecond
	maxDelay   = 15 * time.Second
)

// delayAfter is how long to wait before the next try: what the server asked for, else
// longer from try to try. Both are spread, so that many clients do not come at once.
func delayAfter(err error, failures int) time.Duration {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok && info.RetryDelay.AsDuration() > 0 {
			return spread(info.RetryDelay.AsDuration(), 0.2)
		}
	}
	delay := maxDelay
	if failures < 7 {
		delay = min(firstDelay<<failures, maxDelay)
	}
	return spread(delay/2, 1)
}

// spread lengthens a delay by a random part of the given share of it.
func spread(delay time.Duration, share float64) time.Duration {
	return delay + time.Duration(rand.Float64()*share*float64(delay))
}

// rest waits, or ends with the context.
func rest(ctx context.Context, delay time.Duration) error {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hopeless reports whether an error is the same however often one asks.
func hopeless(err error) bool {
	switch status.Code(err) {
	case codes.NotFound, codes.Unauthenticated, codes.InvalidArgument, codes.PermissionDenied:
		return true
	}
	return false
}
