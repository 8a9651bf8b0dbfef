package server

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/rpcconv"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// scope names this package in what it measures.
const scope = "github.com/easel-grpc/easel/internal/server"

// tracing makes a span and a measurement of each call of the contract, by the names of
// OpenTelemetry's conventions. The stock handler would make one span of a watch that is open
// for an hour, with an event for each message; here a watch has a short span when it opens
// and one when it ends. All that is the same for every call of a method is made once.
type tracing struct {
	tracer   trace.Tracer
	duration rpcconv.ServerCallDuration
	methods  map[string]*tracedMethod
}

// tracedMethod is what the spans of a method have in common.
type tracedMethod struct {
	name     string // "easel.v1.GenerationService/GetGeneration"
	watches  bool   // its calls last, and their spans must not
	about    trace.SpanStartEventOption
	outcomes [codes.Unauthenticated + 1]metric.MeasurementOption
}

func newTracing() (*tracing, error) {
	duration, err := rpcconv.NewServerCallDuration(otel.Meter(scope), metric.WithExplicitBucketBoundaries(
		0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 600))
	if err != nil {
		return nil, fmt.Errorf("measure calls: %w", err)
	}
	t := &tracing{tracer: otel.Tracer(scope), duration: duration, methods: map[string]*tracedMethod{}}
	for full := range fullMethods() {
		m := &tracedMethod{name: full[1:], watches: strings.Contains(full, "/Watch")}
		m.about = trace.WithAttributes(semconv.RPCSystemNameGRPC, semconv.RPCMethod(m.name))
		for code := range m.outcomes {
			m.outcomes[code] = metric.WithAttributeSet(attribute.NewSet(
				semconv.RPCMethod(m.name), semconv.RPCResponseStatusCode(codeName(codes.Code(code)))))
		}
		t.methods[full] = m
	}
	return t, nil
}

// callSpan is the tracing of one call.
type callSpan struct {
	*tracing
	*tracedMethod
	ctx    context.Context
	span   trace.Span
	began  time.Time
	opened atomic.Bool // the span of a watch that has sent something has ended
	sent   atomic.Int64
}

// begin begins the span of a call in the trace of the caller. A method that is not of the
// contract has none: names that callers make up would be spans and series without end.
func (t *tracing) begin(ctx context.Context, method string, from origin) (context.Context, *callSpan) {
	m := t.methods[method]
	if m == nil {
		return ctx, nil
	}
	md, _ := metadata.FromIncomingContext(ctx)
	ctx = otel.GetTextMapPropagator().Extract(ctx, metadataCarrier(md))
	ctx, span := t.tracer.Start(ctx, m.name, trace.WithSpanKind(trace.SpanKindServer), m.about)
	if span.IsRecording() {
		span.SetAttributes(semconv.ClientAddress(from.peer))
	}
	return ctx, &callSpan{tracing: t, tracedMethod: m, ctx: ctx, span: span, began: time.Now()}
}

// message notes that a message is on its way to the caller. The first one ends the span of
// the opening of a watch.
func (c *callSpan) message() {
	if c == nil {
		return
	}
	c.sent.Add(1)
	if c.watches && c.opened.CompareAndSwap(false, true) {
		c.span.End()
	}
}

// end ends the tracing of a call as its status says.
func (c *callSpan) end(st *status.Status) {
	if c == nil {
		return
	}
	took := time.Since(c.began)
	c.duration.Inst().Record(c.ctx, took.Seconds(), c.outcomes[min(st.Code(), codes.Unauthenticated)])
	span := c.span
	if c.opened.Load() {
		_, span = c.tracer.Start(c.ctx, c.name+" end", trace.WithSpanKind(trace.SpanKindInternal), c.about)
	}
	if span.IsRecording() {
		span.SetAttributes(semconv.RPCResponseStatusCode(codeName(st.Code())))
		if c.watches {
			span.SetAttributes(attribute.Float64("easel.watch.duration", took.Seconds()), attribute.Int64("easel.watch.messages", c.sent.Load()))
		}
		if serverFault(st.Code()) {
			span.SetStatus(otelcodes.Error, st.Message())
		}
	}
	span.End()
}

// codeName writes a code as the conventions do: "DEADLINE_EXCEEDED".
func codeName(code codes.Code) string {
	if code > codes.Unauthenticated {
		code = codes.Unknown
	}
	return codeNames[code]
}

var codeNames = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
	"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

// serverFault reports whether a code says that the server failed, and not the caller.
func serverFault(code codes.Code) bool {
	switch code {
	case codes.Unknown, codes.DeadlineExceeded, codes.Unimplemented, codes.Internal, codes.Unavailable, codes.DataLoss:
		return true
	}
	return false
}
