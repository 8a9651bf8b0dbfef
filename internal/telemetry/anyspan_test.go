package telemetry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"
)

func TestAnySpanIsSentAsTheSDKAndTheStockExporterSendIt(t *testing.T) {
	for seed := range uint64(300) {
		var want wire
		stock, err := otlptrace.New(t.Context(), &want)
		if err != nil {
			t.Fatal(err)
		}
		anySpans(seed, trace.NewTracerProvider(trace.WithResource(shop), trace.WithSampler(trace.AlwaysSample()), trace.WithSyncer(stock)))
		provider, got := ours(t, trace.AlwaysSample())
		anySpans(seed, provider)
		if len(want.sent) != len(got.sent) || len(got.sent) == 0 {
			t.Fatalf("seed %d: %d are sent, not %d", seed, len(got.sent), len(want.sent))
		}
		for i := range want.sent {
			for _, w := range []*wire{&want, got} { // they are drawn
				w.sent[i].GetResourceSpans()[0].GetScopeSpans()[0].GetSpans()[0].SpanId = nil
			}
			if !proto.Equal(want.sent[i], got.sent[i]) {
				t.Fatalf("seed %d: it is sent as\n%v, and by the stock exporter as\n%v", seed, got.sent[i], want.sent[i])
			}
		}
	}
}

// dice draw what a span may have.
type dice struct{ *rand.Rand }

// anySpans makes spans, the same from one seed on every provider, but for their ids.
func anySpans(seed uint64, provider oteltrace.TracerProvider) {
	d := dice{rand.New(rand.NewPCG(seed, 0))}
	for range 3 {
		tracer := provider.Tracer("calls", oteltrace.WithSchemaURL(d.text()), oteltrace.WithInstrumentationVersion(d.text()),
			oteltrace.WithInstrumentationAttributes(d.attributes()...))
		options := []oteltrace.SpanStartOption{d.at(), oteltrace.WithSpanKind(oteltrace.SpanKind(d.IntN(8))), oteltrace.WithAttributes(d.attributes()...)}
		for range d.IntN(4) {
			options = append(options, oteltrace.WithLinks(d.link()))
		}
		parent := d.ids().WithTraceID(oteltrace.TraceID{9})
		_, span := tracer.Start(oteltrace.ContextWithSpanContext(context.Background(), parent), d.text(), options...)
		for range d.IntN(12) {
			d.change(span)
		}
		span.End(d.at())
	}
}

// change does one thing to a span.
func (d dice) change(span oteltrace.Span) {
	switch d.IntN(12) {
	case 0:
		span.AddEvent(d.text(), d.at(), oteltrace.WithAttributes(d.attributes()...))
	case 1:
		all := []error{nil, errors.New("plain"), ownError("own"), context.DeadlineExceeded, fmt.Errorf("wrapped: %w", context.Canceled)}
		span.RecordError(all[d.IntN(len(all))], d.at())
	case 2, 3:
		span.SetStatus(codes.Code(d.IntN(3)), d.text())
	case 4:
		span.SetName(d.text())
	case 5, 6:
		span.AddLink(d.link())
	case 7:
		span.End(d.at())
	default:
		span.SetAttributes(d.attributes()...)
	}
}

func (d dice) text() string { return []string{"", "text", "ä", "two\nlines"}[d.IntN(4)] }

// at is a time, some of them before all that can be said.
func (d dice) at() oteltrace.SpanEventOption {
	return oteltrace.WithTimestamp(time.Unix(d.Int64N(4e9)-1e9, d.Int64N(1e9)))
}

func (d dice) ids() oteltrace.SpanContext {
	state, _ := oteltrace.ParseTraceState([]string{"", "vendor=1,other=2"}[d.IntN(2)])
	return oteltrace.NewSpanContext(oteltrace.SpanContextConfig{
		TraceID: oteltrace.TraceID{byte(d.IntN(3))}, SpanID: oteltrace.SpanID{byte(d.IntN(3))}, TraceFlags: oteltrace.TraceFlags(d.IntN(256)), TraceState: state, Remote: d.IntN(2) == 0,
	})
}

func (d dice) link() oteltrace.Link {
	return oteltrace.Link{SpanContext: d.ids(), Attributes: d.attributes()}
}

// attributes are of every type, some of them twice or without a name.
func (d dice) attributes() []attribute.KeyValue {
	n := d.IntN(5)
	values := []attribute.Value{
		{},
		attribute.BoolValue(true), attribute.BoolValue(false), attribute.IntValue(n), attribute.Int64Value(math.MinInt64), attribute.StringValue(d.text()),
		attribute.Float64Value(0), attribute.Float64Value(math.Inf(-1)), attribute.Float64Value(-1.5), attribute.ByteSliceValue([]byte{0xff, 0}[:n%3]),
		attribute.BoolSliceValue([]bool{true, false}[:n%3]), attribute.Int64SliceValue([]int64{0, -1}[:n%3]), attribute.Float64SliceValue([]float64{0, 0.5}[:n%3]),
		attribute.StringSliceValue([]string{"", "ä"}[:n%3]), attribute.StringValue(string(slices.Repeat([]byte{'x'}, 1<<n<<n))),
		attribute.SliceValue([]attribute.Value{attribute.IntValue(0), {}, attribute.SliceValue(attribute.StringValue("deep"))}[:n%4]...),
		attribute.MapValue([]attribute.KeyValue{attribute.Int("one", 1), attribute.StringSlice("many", []string{"a"})}[:n%3]...),
	}
	all := make([]attribute.KeyValue, n)
	for i := range all {
		all[i] = attribute.KeyValue{Key: attribute.Key([]string{"", "a", "b", "c", "d", "e"}[d.IntN(6)]), Value: values[d.IntN(len(values))]}
	}
	return all
}
