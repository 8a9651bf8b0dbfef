package server

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// scope names this package in what it measures.
const scope = "github.com/easel-grpc/easel/internal/server"

// tracing makes a span and a measurement of each call of the contract, by the names of
// OpenTelemetry's conventions. The stock handler would make one span of a watch that is open
// for an hour, with an event for each message; here a watch or a wait has a short span when
// it opens and one when it ends. All that is the same for every call of a method is made once.
type tracing struct {
	tracer trace.Tracer
	measures
	methods map[string]*tracedMethod
	answers sync.Map // of answerKey to metric.MeasurementOption
}

// tracedMethod is what the spans of a method have in common.
type tracedMethod struct {
	name     string // "easel.v1.GenerationService/GetGeneration"
	lasts    bool   // for longer than a span should
	about    []attribute.KeyValue
	outcomes [codes.Unauthenticated + 1]metric.MeasurementOption
	stream   *streamMeasures // nil where its calls are no streams
}

func newTracing() (*tracing, error) {
	measures, err := newMeasures(otel.Meter(scope))
	if err != nil {
		return nil, fmt.Errorf("measure calls: %w", err)
	}
	t := &tracing{tracer: otel.Tracer(scope), measures: measures, methods: map[string]*tracedMethod{}}
	for full := range fullMethods() {
		m := &tracedMethod{name: full[1:], lasts: lasting[full] && !strings.HasSuffix(full, "/DownloadGeneration")}
		m.about = []attribute.KeyValue{semconv.RPCSystemNameGRPC, semconv.RPCMethod(m.name)}
		for code := range m.outcomes {
			m.outcomes[code] = metric.WithAttributeSet(attribute.NewSet(
				semconv.RPCMethod(m.name), semconv.RPCResponseStatusCode(codeName(codes.Code(code)))))
		}
		if lasting[full] {
			m.stream = newStreamMeasures(m.name)
		}
		t.methods[full] = m
	}
	return t, nil
}

// callSpan is the tracing of one call. What a span says is set at once when it ends: each
// further time would copy what is there.
type callSpan struct {
	*tracing
	*tracedMethod
	ctx     context.Context
	span    trace.Span
	began   time.Time
	peer    string
	asks    any         // the request
	answer  any         // nil for a stream
	entered bool        // it was let in
	opened  atomic.Bool // the span of a call that lasts has ended at its opening
	sent    atomic.Int64
	bytes   atomic.Int64 // of results
}

// begin begins the span of a call in the trace of the caller. A method that is not of the
// contract has none: names that callers make up would be spans and series without end.
func (t *tracing) begin(ctx context.Context, method string, from origin) (context.Context, *callSpan) {
	m := t.methods[method]
	if m == nil {
		return ctx, nil
	}
	ctx = otel.GetTextMapPropagator().Extract(ctx, incoming{ctx})
	below, span := t.tracer.Start(ctx, m.name, serverKind...)
	if m.lasts { // with the span itself a watch would keep all of it, long after its end
		below = trace.ContextWithSpanContext(ctx, span.SpanContext())
	}
	return below, &callSpan{tracing: t, tracedMethod: m, ctx: below, span: span, began: time.Now(), peer: from.peer}
}

// enter notes that a call was let in.
func (c *callSpan) enter() {
	if c == nil || c.stream == nil {
		return
	}
	c.entered = true
	c.measures.open.Add(c.ctx, 1, c.stream.method)
}

// asked notes a request that is well formed. A call of one request that lasts is open then.
func (c *callSpan) asked(request any, streams bool) {
	if c == nil {
		return
	}
	c.asks = request
	if c.lasts && !streams {
		c.open()
	}
}

// answered notes the answer to a call.
func (c *callSpan) answered(response any) {
	if c != nil {
		c.answer = response
	}
}

// open ends the span of the opening of a call that lasts.
func (c *callSpan) open() {
	if c.opened.CompareAndSwap(false, true) {
		if c.span.IsRecording() {
			list := lists.Get().(*[]attribute.KeyValue)
			*list = c.begun((*list)[:0])
			c.span.SetAttributes(*list...)
			giveBack(list)
		}
		c.span.End()
		c.span, c.asks = nil, nil // they are not needed any more, and the call may last for an hour
	}
}

// message notes that a message has left, with so many bytes of a result. The first one ends
// the span of the opening of a watch.
func (c *callSpan) message(bytes int) {
	if c == nil {
		return
	}
	c.sent.Add(1)
	if bytes > 0 {
		c.bytes.Add(int64(bytes))
		c.measures.bytes.Add(c.ctx, int64(bytes), c.stream.method)
	}
	if c.lasts {
		c.open()
	}
}

// end ends the tracing of a call as its status says.
func (c *callSpan) end(st *status.Status) {
	if c == nil {
		return
	}
	took := time.Since(c.began)
	c.calls.Inst().Record(c.ctx, took.Seconds(), c.outcomes[min(st.Code(), codes.Unauthenticated)])
	if c.entered {
		c.measures.open.Add(c.ctx, -1, c.stream.method)
		c.closures.Add(c.ctx, 1, c.stream.closures[closureOf(st)])
	}
	span := c.span // nil once the call that lasts is open
	if c.opened.Load() {
		_, span = c.tracer.Start(c.ctx, c.name+" end")
	}
	if span.IsRecording() {
		c.conclude(span, st, took)
	}
	span.End()
}

// begun is what a call says of itself when it begins.
func (c *callSpan) begun(all []attribute.KeyValue) []attribute.KeyValue {
	all = append(append(all, c.about...), semconv.ClientAddress(c.peer))
	return appendAttributes(all, c.asks)
}

// conclude writes on the last span of a call how it ended.
func (c *callSpan) conclude(span trace.Span, st *status.Status, took time.Duration) {
	list := lists.Get().(*[]attribute.KeyValue)
	defer giveBack(list)
	all := (*list)[:0]
	if c.opened.Load() {
		all = append(all, c.about...)
	} else {
		all = c.begun(all)
	}
	all = append(appendAttributes(all, c.answer), semconv.RPCResponseStatusCode(codeName(st.Code())))
	if c.stream != nil {
		all = append(all, attribute.String("easel.stream.reason", string(closureOf(st))), attribute.Int64("easel.stream.messages", c.sent.Load()))
	}
	if c.lasts {
		all = append(all, attribute.Float64("easel.stream.duration", took.Seconds()))
	}
	if bytes := c.bytes.Load(); bytes > 0 {
		all = append(all, attribute.Int64("easel.content.bytes", bytes))
	}
	*list = all
	span.SetAttributes(all...)
	if serverFault(st.Code()) {
		span.SetStatus(otelcodes.Error, st.Message())
	}
}

// lists are what attributes are gathered in. A span copies them: that each call would make a
// list of its own cost a tenth of what it pays for its tracing.
var lists = sync.Pool{New: func() any { return new([]attribute.KeyValue) }}

func giveBack(list *[]attribute.KeyValue) {
	clear(*list)
	lists.Put(list)
}

// serverKind is what all spans of calls begin with.
var serverKind = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer)}

// incoming lets a propagator read the metadata of a call, without a copy of all of it.
type incoming struct{ ctx context.Context }

var _ propagation.TextMapCarrier = incoming{}

// Get implements propagation.TextMapCarrier.
func (c incoming) Get(key string) string {
	return first(metadata.ValueFromIncomingContext(c.ctx, key))
}

// Set implements propagation.TextMapCarrier. Nobody writes what has come in.
func (incoming) Set(string, string) {}

// Keys implements propagation.TextMapCarrier.
func (c incoming) Keys() []string {
	md, _ := metadata.FromIncomingContext(c.ctx)
	return metadataCarrier(md).Keys()
}

// appendAttributes adds what a message of the contract says of a render or a model.
func appendAttributes(all []attribute.KeyValue, message any) []attribute.KeyValue {
	text := func(key, value string) {
		if value != "" {
			all = append(all, attribute.String(key, value))
		}
	}
	if m, ok := message.(interface{ GetGenerationId() string }); ok {
		text("easel.generation.id", m.GetGenerationId())
	}
	if m, ok := message.(interface{ GetModelId() string }); ok {
		text("easel.model.id", m.GetModelId())
	}
	m, ok := message.(interface{ GetGeneration() *easelv1.Generation })
	if !ok || m.GetGeneration() == nil {
		return all
	}
	g := m.GetGeneration()
	text("easel.generation.id", g.GetGenerationId())
	text("easel.model.id", g.GetModelId())
	text("easel.generation.state", strings.ToLower(strings.TrimPrefix(g.GetState().String(), "STATE_")))
	if g.CostCents != nil {
		all = append(all, attribute.Int64("easel.cost_cents", g.GetCostCents()))
	}
	return all
}

// bytesOf is how many bytes of a result a message carries.
func bytesOf(message any) int {
	if chunk, ok := message.(service.EncodedChunk); ok {
		return chunk.Bytes()
	}
	return 0
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
