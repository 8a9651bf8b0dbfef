package service

import "context"

type orderIDKey struct{}

// WithOrderID returns a context for a CreateGeneration call. The call stores its order's ID in *id if the order is in
// the ledger.
func WithOrderID(ctx context.Context, id *string) context.Context {
	return context.WithValue(ctx, orderIDKey{}, id)
}

// orderID returns the pointer set by WithOrderID, or nil.
func orderID(ctx context.Context) *string {
	id, _ := ctx.Value(orderIDKey{}).(*string)
	return id
}
