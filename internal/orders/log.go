package orders

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
)

// logAttributes returns the log attributes of an order. With a forwarded API key, it omits the owner, because the owner is
// derived from that API key.
func logAttributes(order ledger.Order, cred catalog.Credential) []any {
	all := []any{"order", order.ID, "model", order.ModelID, "idempotency_key", order.IdempotencyKey}
	if cred.IsShared() {
		all = append(all, "owner", order.Owner, "caller", order.Caller)
	}
	return all
}

// startSpan starts a span for background work, as the root of a new trace.
func startSpan(ctx context.Context, name string, about ...attribute.KeyValue) (context.Context, trace.Span) {
	return otel.Tracer("github.com/easel-grpc/easel/internal/orders").Start(ctx, name, trace.WithNewRoot(), trace.WithAttributes(about...))
}
