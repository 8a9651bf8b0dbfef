package server

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// scope names this package in what it traces and measures.
const scope = "github.com/easel-grpc/easel/internal/server"

// tracing adds to OpenTelemetry's handlers the attributes of generations and models, the spans of calls
// whose span is split, and the metrics of streams.
type tracing struct {
	tracer trace.Tracer
	// Handlers of the calls of the contract, and of those whose span is split, of which it makes none: the door refuses
	// calls whose names callers make up.
	whole, split stats.Handler

	// The metrics of streams. Their units and descriptions stand in the one table of package telemetry.
	open     metric.Int64UpDownCounter
	closures metric.Int64Counter
	sent     metric.Int64Counter // bytes of results
	// streams are the labels of each method whose calls are streams, by its full name. They are made
	// once: made for each watch, they would grow its stack for as long as it is open.
	streams map[string]metric.MeasurementOption
}

func newTracing() (*tracing, error) {
	known, meter := otelgrpc.WithFilter(func(info *stats.RPCTagInfo) bool { return !public(info.FullMethodName) }), otel.Meter(scope)
	t := &tracing{
		tracer: otel.Tracer(scope), whole: otelgrpc.NewServerHandler(known),
		split: otelgrpc.NewServerHandler(known, otelgrpc.WithTracerProvider(noop.NewTracerProvider())), streams: map[string]metric.MeasurementOption{},
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

// handler is OpenTelemetry's for the calls of a method.
func (t *tracing) handler(method string) stats.Handler {
	if splitSpan(method) {
		return t.split
	}
	return t.whole
}

// callSpan is the tracing of one call.
type callSpan struct {
	*tracing
	ctx       context.Context
	name      string                     // "easel.v1.GenerationService/WatchGeneration"
	peer      string                     // who calls, by address
	span      atomic.Pointer[trace.Span] // nil once a call whose span is split is open
	splitSpan bool
	stream    metric.MeasurementOption // its labels; nil where the call is none
	entered   bool                     // it was admitted
	answer    any                      // nil for a stream
	order     string                   // as the ledger names it
	messages  atomic.Int64
	bytes     atomic.Int64 // of results
}

// begin begins the tracing of a call from an address.
func (t *tracing) begin(ctx context.Context, method, peer string) (context.Context, *callSpan) {
	c := &callSpan{tracing: t, name: strings.TrimPrefix(method, "/"), peer: peer, splitSpan: splitSpan(method), stream: t.streams[method]}
	span := trace.SpanFromContext(ctx)
	if c.splitSpan {
		_, span = t.tracer.Start(ctx, c.name, trace.WithSpanKind(trace.SpanKindServer), c.about(), trace.WithAttributes(semconv.ClientAddress(peer)))
		ctx = trace.ContextWithSpanContext(ctx, span.SpanContext()) // the span is not kept
	}
	c.ctx = ctx
	c.span.Store(&span)
	return ctx, c
}

// enter notes that a call was admitted, with its request. A call of one answer is open then.
func (c *callSpan) enter(request names, streams bool) {
	if c.stream != nil {
		c.entered = true
		c.open.Add(c.ctx, 1, c.stream)
	}
	if span := *c.span.Load(); span.IsRecording() {
		span.SetAttributes(request.attributes()...)
	}
	if !streams {
		c.opened()
	}
}

// message notes that a message was sent, with so many bytes of a result. A watch is open then.
func (c *callSpan) message(bytes int) {
	if c.messages.Add(1) == 1 {
		c.opened()
	}
	if bytes > 0 {
		c.bytes.Add(int64(bytes))
		c.sent.Add(c.ctx, int64(bytes), c.stream)
	}
}

// opened ends the span of the opening of a call whose span is split.
func (c *callSpan) opened() {
	if !c.splitSpan {
		return
	}
	if span := c.span.Swap(nil); span != nil {
		(*span).End()
	}
}

// end notes how a call has ended, and after how long.
func (c *callSpan) end(st *status.Status, took time.Duration) {
	if c.entered {
		c.open.Add(c.ctx, -1, c.stream)
		c.closures.Add(c.ctx, 1, metric.WithAttributes(semconv.RPCMethod(c.name), attribute.String("easel.stream.reason", closureOf(st))))
	}
	span := c.last()
	if span.IsRecording() {
		c.conclude(span, st, took)
	}
	if c.splitSpan {
		span.End()
	}
}

// last is the span of a call, or of the end of one that was open.
func (c *callSpan) last() trace.Span {
	if span := c.span.Swap(nil); span != nil {
		return *span
	}
	_, span := c.tracer.Start(c.ctx, c.name+" end", c.about())
	return span
}

// about is what the two spans of a call begin with.
func (c *callSpan) about() trace.SpanStartOption {
	return trace.WithAttributes(semconv.RPCSystemNameGRPC, semconv.RPCMethod(c.name))
}

// conclude writes on the last span of a call how it has ended.
func (c *callSpan) conclude(span trace.Span, st *status.Status, took time.Duration) {
	span.SetAttributes(append(namesOf(c.answer).attributes(), semconv.ClientAddress(c.peer))...)
	if c.order != "" {
		span.SetAttributes(attribute.String("easel.order.id", c.order))
	}
	if c.stream != nil {
		span.SetAttributes(attribute.String("easel.stream.reason", closureOf(st)), attribute.Int64("easel.stream.messages", c.messages.Load()))
	}
	if bytes := c.bytes.Load(); bytes > 0 {
		span.SetAttributes(attribute.Int64("easel.content.bytes", bytes))
	}
	if !c.splitSpan {
		return // OpenTelemetry's handler writes the status
	}
	span.SetAttributes(semconv.RPCResponseStatusCode(code.Code(st.Code()).String()), attribute.Float64("easel.stream.duration", took.Seconds()))
	if serverFault(st.Code()) {
		span.SetStatus(otelcodes.Error, st.Message())
	}
}

// serverFault reports whether a code says that the server failed, and not the caller.
func serverFault(code codes.Code) bool {
	switch code {
	case codes.Unknown, codes.DeadlineExceeded, codes.Unimplemented, codes.Internal, codes.Unavailable, codes.DataLoss:
		return true
	}
	return false
}

// bytesOf returns the number of bytes of a result in a message.
func bytesOf(message any) int {
	if chunk, ok := message.(*easelv1.DownloadGenerationResponse); ok {
		return len(chunk.GetChunk().GetData())
	}
	return 0
}

// closureOf is why a stream ended. The set is closed, as each is a series: the table of package
// telemetry lists it.
func closureOf(st *status.Status) string {
	switch st.Code() {
	case codes.OK:
		return "done" // the goal was reached, or all bytes were sent
	case codes.Canceled:
		return "caller_left"
	case codes.DeadlineExceeded:
		return "deadline"
	case codes.Unauthenticated:
		return "credential_rejected"
	case codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition, codes.OutOfRange, codes.PermissionDenied:
		return "refused" // the request asks for what there is not, or not yet
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
