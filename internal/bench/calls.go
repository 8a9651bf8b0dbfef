package main

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

const (
	callerCount = 16
	callTime    = 3 * time.Second
	warmUp      = time.Second
)

// calls measures unary calls that read a generation from the catalog.
var calls = &measurement{measure: func(ctx context.Context, s *scene) (figures, error) {
	s.catalog.addActive(1)
	return s.measureCalls(ctx)
}}

// measureCalls measures calls that read g0.
func (s *scene) measureCalls(ctx context.Context) (figures, error) {
	call := func(ctx context.Context) error {
		_, err := s.client.GetGeneration(ctx, &easelv1.GetGenerationRequest{GenerationId: "g0", MaxStaleness: &durationpb.Duration{}})
		return err
	}
	if _, err := callFor(ctx, s.duration(warmUp), call); err != nil {
		return nil, err
	}
	var n, cpu float64
	var took time.Duration
	allocations, err := growth(ctx, s.server.allocations, func() (err error) {
		cpu, err = growth(ctx, s.server.cpu, func() (err error) {
			begin := time.Now()
			n, err = callFor(ctx, s.duration(callTime), call)
			took = time.Since(begin)
			return err
		})
		return err
	})
	return figures{"call-cpu": cpu * 1e6 / n, "call-allocs": allocations / n, "call-rate": n / took.Seconds()}, err
}

// callFor has all callers call for a while, and gives the number of calls.
func callFor(ctx context.Context, length time.Duration, call func(context.Context) error) (calls float64, err error) {
	var done atomic.Int64
	callers, ctx := errgroup.WithContext(ctx)
	until := time.Now().Add(length)
	for range callerCount {
		callers.Go(func() error {
			for time.Now().Before(until) {
				if err := call(ctx); err != nil {
					return err
				}
				done.Add(1)
			}
			return nil
		})
	}
	err = callers.Wait()
	return float64(done.Load()), err
}
