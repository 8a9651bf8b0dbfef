package service

import "context"

type admissionKey struct{}

// WithAdmission lets the handler of a call hold its place among those that are served beyond its own
// end, for work that goes on without the caller: hold keeps the place until release is called.
func WithAdmission(ctx context.Context, hold func() (release func())) context.Context {
	return context.WithValue(ctx, admissionKey{}, hold)
}

// admission gives what holds the place of a call, nil where it has none.
func admission(ctx context.Context) (hold func() (release func())) {
	hold, _ = ctx.Value(admissionKey{}).(func() func())
	return hold
}
