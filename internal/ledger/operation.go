package ledger

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// scope is that of the spans and of the metric.
const scope = "github.com/easel-grpc/easel/internal/ledger"

// operation is an operation of the database. It has a span, and its duration is measured. The zero value measures nothing.
type operation struct {
	name       string
	attributes attribute.Set
	duration   metric.Float64Histogram
}

// operation returns an operation of the databases of a dialect.
func (d dialect) operation(name string) operation {
	duration, _ := otel.Meter(scope).Float64Histogram("db.client.operation.duration", metric.WithUnit("s")) // its name is one
	return operation{name, attribute.NewSet(d.system, semconv.DBOperationName(name)), duration}
}

// measure runs an operation. Without a caller it has no span, which would have no parent.
func (o operation) measure(ctx context.Context, do func(context.Context) error) error {
	if o.duration == nil { // a command that works on a ledger offline
		return do(ctx)
	}
	began, span := time.Now(), trace.SpanFromContext(ctx)
	within := ctx
	if span.SpanContext().IsValid() {
		within, span = span.TracerProvider().Tracer(scope).Start(ctx, "sql."+o.name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(o.attributes.ToSlice()...))
		defer span.End()
	}
	err := do(within)
	attributes := o.attributes
	if err != nil {
		kind := semconv.ErrorTypeKey.String(fmt.Sprintf("%T", err)) // its text may be that of a row
		span.SetAttributes(kind)
		span.SetStatus(codes.Error, "")
		attributes = attribute.NewSet(append(attributes.ToSlice(), kind)...)
	}
	o.duration.Record(ctx, time.Since(began).Seconds(), metric.WithAttributeSet(attributes))
	return err
}
