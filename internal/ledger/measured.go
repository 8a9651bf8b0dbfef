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

// operation is what a session asks of its database at once. It has a span, and its time is measured.
type operation struct {
	name       string
	attributes attribute.Set
	duration   metric.Float64Histogram
}

// operation is one of the databases of a dialect.
func (d dialect) operation(name string) operation {
	duration, _ := otel.Meter(scope).Float64Histogram("db.client.operation.duration", metric.WithUnit("s")) // its name is one
	return operation{name, attribute.NewSet(d.system, semconv.DBOperationName(name)), duration}
}

// measure carries an operation out. What nobody has called for has no span: it would be one without a parent.
func (o operation) measure(ctx context.Context, do func(context.Context) error) error {
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
