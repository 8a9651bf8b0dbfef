package service

import "context"

type admissionKey struct{}

// Admission is what a call that places an order has of the server. The zero value is nothing.
type Admission struct {
	// Hold lets the call count in the limits beyond its own end, for work that goes on without the caller: the call counts
	// from hold until release.
	Hold func() (release func())
	// Order takes what the ledger calls the order.
	Order *string
}

// WithAdmission gives the handler of a call its admission.
func WithAdmission(ctx context.Context, a Admission) context.Context {
	return context.WithValue(ctx, admissionKey{}, a)
}

// admission gives that of WithAdmission.
func admission(ctx context.Context) Admission {
	a, _ := ctx.Value(admissionKey{}).(Admission)
	return a
}
