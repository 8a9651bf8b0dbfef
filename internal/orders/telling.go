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

// about is what a line of the log names of an order. The owner of an order under a forwarded API key is that API key.
func about(order ledger.Order, cred catalog.Credential) []any {
	all := []any{"order", order.ID, "model", order.ModelID, "idempotency_key", order.IdempotencyKey}
	if cred.IsShared() {
		all = append(all, "owner", order.Owner, "caller", order.Caller)
	}
	return all
}

// about is what a line of the log names of the order.
func (s *submission) about(more ...any) []any { return append(about(s.order, s.cred), more...) }

// debug logs what has become of the order in between.
func (s *submission) debug(ctx context.Context, message string, more ...any) {
	if s.orders.Logger.Enabled(ctx, slog.LevelDebug) {
		s.orders.Logger.DebugContext(ctx, message, s.about(more...)...)
	}
}

// logAttempt logs how an attempt has ended.
func (s *submission) logAttempt(ctx context.Context, attempt int, g catalog.Generation, err error) {
	if err != nil {
		s.debug(ctx, "an attempt of an order has failed", "attempt", attempt, "kind", catalog.KindOf(err).String(), "error", err)
		return
	}
	s.debug(ctx, "an attempt of an order has placed it", "attempt", attempt, "generation", g.ID)
}

// traced begins the span of work that no call has asked for, which is the root of a trace.
func traced(ctx context.Context, name string, about ...attribute.KeyValue) (context.Context, trace.Span) {
	return otel.Tracer("github.com/easel-grpc/easel/internal/orders").Start(ctx, name, trace.WithNewRoot(), trace.WithAttributes(about...))
}
