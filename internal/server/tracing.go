package server

import (
	"errors"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// scope is the name of this package in traces and metrics.
const scope = "github.com/easel-grpc/easel/internal/server"

// tracing contains OpenTelemetry's stats handlers and the metrics for streams. The table in package telemetry has the units and
// descriptions of the metrics.
type tracing struct {
	calls, refusals stats.Handler // refusals handles the calls that [chain.admit] rejects, and creates no spans; calls handles all other calls

	open     metric.Int64UpDownCounter
	closures metric.Int64Counter
	sent     metric.Int64Counter // counts the sent bytes of results
	// streams contains the metric labels of the long-lived methods. The labels are created in advance. Creating them during a
	// call would enlarge the stack of the call's goroutine until the call ends.
	streams map[string]metric.MeasurementOption
}

func newTracing() (*tracing, error) {
	known, meter := otelgrpc.WithFilter(func(info *stats.RPCTagInfo) bool { return !isPublic(info.FullMethodName) }), otel.Meter(scope)
	t := &tracing{
		calls:    otelgrpc.NewServerHandler(known),
		refusals: otelgrpc.NewServerHandler(known, otelgrpc.WithTracerProvider(noop.NewTracerProvider())),
		streams:  map[string]metric.MeasurementOption{},
	}
	for method := range longLived {
		t.streams[method] = metric.WithAttributeSet(attribute.NewSet(semconv.RPCMethod(method[1:])))
	}
	var errs [3]error
	t.open, errs[0] = meter.Int64UpDownCounter("easel.stream.open")
	t.closures, errs[1] = meter.Int64Counter("easel.stream.closures")
	t.sent, errs[2] = meter.Int64Counter("easel.content.sent")
	return t, errors.Join(errs[:]...)
}

// enter records that the request has passed all checks. If the method is long-lived, enter counts the call as an open stream.
func (c *call) enter() {
	c.entered = true
	if labels := c.tracing.streams[c.method]; labels != nil {
		c.tracing.open.Add(c.ctx, 1, labels)
	}
	if span := trace.SpanFromContext(c.ctx); span.IsRecording() {
		span.SetAttributes(c.names.attributes()...)
	}
}

// countMessage counts a sent message and the result bytes in it.
func (c *call) countMessage(bytes int) {
	c.messages.Add(1)
	if bytes > 0 {
		c.bytes.Add(int64(bytes))
		c.tracing.sent.Add(c.ctx, int64(bytes), c.tracing.streams[c.method])
	}
}

// conclude records the end of a call in the call's span and in the metrics for streams.
func (c *call) conclude(st *status.Status) {
	labels := c.tracing.streams[c.method]
	if c.entered && labels != nil {
		c.tracing.open.Add(c.ctx, -1, labels)
		c.tracing.closures.Add(c.ctx, 1, metric.WithAttributes(semconv.RPCMethod(c.method[1:]), attribute.String("easel.stream.reason", closureOf(st))))
	}
	span := trace.SpanFromContext(c.ctx)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(append(namesOf(c.answer).attributes(), semconv.ClientAddress(c.origin.peer))...)
	if c.order != "" {
		span.SetAttributes(attribute.String("easel.order.id", c.order))
	}
	if labels != nil {
		span.SetAttributes(attribute.String("easel.stream.reason", closureOf(st)), attribute.Int64("easel.stream.messages", c.messages.Load()))
	}
	if bytes := c.bytes.Load(); bytes > 0 {
		span.SetAttributes(attribute.Int64("easel.content.bytes", bytes))
	}
}

// closureOf returns the metric label for the reason why a stream ended. The table in package telemetry lists all reasons.
func closureOf(st *status.Status) string {
	switch st.Code() {
	case codes.OK:
		return "done"
	case codes.Canceled:
		return "caller_left"
	case codes.DeadlineExceeded:
		return "deadline"
	case codes.Unauthenticated:
		return "credential_rejected"
	case codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition, codes.OutOfRange, codes.PermissionDenied:
		return "refused"
	}
	switch service.Reason(st) {
	case easelv1.ErrorReason_SERVER_DRAINING:
		return "draining"
	case easelv1.ErrorReason_STREAM_MAX_AGE:
		return "max_age"
	case easelv1.ErrorReason_READER_TOO_SLOW:
		return "reader_too_slow"
	case easelv1.ErrorReason_UPSTREAM_CREDENTIAL_REJECTED:
		return "credential_rejected"
	}
	return "failed"
}
