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

// scope is the instrumentation scope of the spans and the metric.
const scope = "github.com/easel-grpc/easel/internal/ledger"

// operation traces and measures one kind of database operation. The zero value records no spans and no durations.
type operation struct {
	span       string // name of the span; empty if no spans are created
	attributes attribute.Set
	started    []trace.SpanStartOption
	duration   metric.Float64Histogram
	recorded   []metric.RecordOption
}

// newOperation creates an operation for a kind of database.
func newOperation(system attribute.KeyValue, name string) operation {
	duration, _ := otel.Meter(scope).Float64Histogram("db.client.operation.duration", metric.WithUnit("s")) // cannot fail, because the name is valid
	attributes := attribute.NewSet(system, semconv.DBOperationName(name))
	return operation{
		span: "sql." + name, attributes: attributes, duration: duration,
		started:  []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes.ToSlice()...)},
		recorded: []metric.RecordOption{metric.WithAttributeSet(attributes)},
	}
}

func (o operation) untraced() operation {
	o.span = ""
	return o
}

// measure calls fn and records its duration. It creates a span only if the operation has a span name and ctx contains a span,
// because a span without a parent would be useless.
func (o operation) measure(ctx context.Context, fn func(context.Context) error) error {
	if o.duration == nil { // offline commands use the zero value of operation, which measures nothing
		return fn(ctx)
	}
	began, span := time.Now(), trace.SpanFromContext(ctx)
	within := ctx
	if o.span != "" && span.SpanContext().IsValid() {
		within, span = span.TracerProvider().Tracer(scope).Start(ctx, o.span, o.started...)
		defer span.End()
	}
	err := fn(within)
	recorded := o.recorded
	if err != nil {
		kind := semconv.ErrorTypeKey.String(fmt.Sprintf("%T", err)) // only the type of the error, because its message may contain data from a row
		span.SetAttributes(kind)
		span.SetStatus(codes.Error, "")
		recorded = []metric.RecordOption{metric.WithAttributes(append(o.attributes.ToSlice(), kind)...)}
	}
	o.duration.Record(ctx, time.Since(began).Seconds(), recorded...)
	return err
}
