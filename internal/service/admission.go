package service

import (
	"context"
	"sync/atomic"
)

type admissionKey struct{}

// WithAdmission lets the handler of a call hold its place among those that are served beyond its own
// end, for what goes on without the caller. The place is left once the call and all that holds it have
// ended; left is for the call.
func WithAdmission(ctx context.Context, leave func()) (_ context.Context, left func()) {
	var holders atomic.Int32
	holders.Store(1)
	left = func() {
		if holders.Add(-1) == 0 {
			leave()
		}
	}
	hold := func() (ended func()) {
		holders.Add(1)
		return left
	}
	return context.WithValue(ctx, admissionKey{}, hold), left
}

// admission gives what holds the place of a call, nil where it has none.
func admission(ctx context.Context) (hold func() (ended func())) {
	hold, _ = ctx.Value(admissionKey{}).(func() func())
	return hold
}
