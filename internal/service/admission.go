package service

import "context"

type orderIDKey struct{}

// WithOrderID returns a context in which the handler of a call that places an order stores the order's ID in the ledger.
func WithOrderID(ctx context.Context, id *string) context.Context {
	return context.WithValue(ctx, orderIDKey{}, id)
}

// orderID returns the pointer set by WithOrderID, or nil.
func orderID(ctx context.Context) *string {
	id, _ := ctx.Value(orderIDKey{}).(*string)
	return id
}
