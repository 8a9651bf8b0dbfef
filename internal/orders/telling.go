package orders

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
)

// about returns the log attributes of an order. Under a forwarded API key they lack the owner, which is that API key.
func about(order ledger.Order, cred catalog.Credential) []any {
	all := []any{"order", order.ID, "model", order.ModelID, "idempotency_key", order.IdempotencyKey}
	if cred.IsShared() {
		all = append(all, "owner", order.Owner, "caller", order.Caller)
	}
	return all
}

// about returns the log attributes of the order.
func (s *submission) about(more ...any) []any { return append(about(s.order, s.cred), more...) }

// debug logs progress of the order.
func (s *submission) debug(ctx context.Context, message string, more ...any) {
	if s.orders.Logger.Enabled(ctx, slog.LevelDebug) {
		s.orders.Logger.DebugContext(ctx, message, s.about(more...)...)
	}
}

// logAttempt logs the result of an attempt.
func (s *submission) logAttempt(ctx context.Context, attempt int, g catalog.Generation, err error) {
	if err != nil {
		s.debug(ctx, "an attempt of an order has failed", "attempt", attempt, "kind", catalog.KindOf(err).String(), "error", err)
		return
	}
	s.debug(ctx, "an attempt of an order has placed it", "attempt", attempt, "generation", g.ID)
}

// traced starts the span of background work, which is the root of a trace.
func traced(ctx context.Context, name string, about ...attribute.KeyValue) (context.Context, trace.Span) {
	return otel.Tracer("github.com/easel-grpc/easel/internal/orders").Start(ctx, name, trace.WithNewRoot(), trace.WithAttributes(about...))
}
