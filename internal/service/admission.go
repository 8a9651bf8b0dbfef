package service

import "context"

type admissionKey struct{}

// WithAdmission lets the handler of a call count in the limits beyond its own end, for work that goes on
// without the caller: the call counts from hold until release.
func WithAdmission(ctx context.Context, hold func() (release func())) context.Context {
	return context.WithValue(ctx, admissionKey{}, hold)
}

// admission gives the hold of WithAdmission, nil where a call counts in no limit.
func admission(ctx context.Context) (hold func() (release func())) {
	hold, _ = ctx.Value(admissionKey{}).(func() func())
	return hold
}
