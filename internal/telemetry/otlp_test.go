package telemetry

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// wire is a client that keeps what it would send, as whoever receives it reads it.
type wire struct {
	otlptrace.Client
	sent []*tracepb.TracesData
}

func (w *wire) Start(context.Context) error { return nil }

func (w *wire) UploadTraces(_ context.Context, spans []*tracepb.ResourceSpans) error {
	bytes, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	var read tracepb.TracesData
	if err := proto.Unmarshal(bytes, &read); err != nil {
		return err
	}
	for _, all := range read.GetResourceSpans() { // scopes have no order
		slices.SortFunc(all.ScopeSpans, func(a, b *tracepb.ScopeSpans) int { return cmp.Compare(a.GetScope().GetName(), b.GetScope().GetName()) })
	}
	w.sent = append(w.sent, &read)
	return nil
}

// both hands spans to the stock exporter and to ours.
type both struct{ stock, ours trace.SpanExporter }

func (b both) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	return errors.Join(b.stock.ExportSpans(ctx, spans), b.ours.ExportSpans(ctx, spans))
}

func (b both) Shutdown(context.Context) error { return nil }

func TestSpansAreSentAsTheStockExporterSendsThem(t *testing.T) {
	var want, got wire
	stock, err := otlptrace.New(t.Context(), &want)
	if err != nil {
		t.Fatal(err)
	}
	provider := trace.NewTracerProvider(
		trace.WithBatcher(both{stock, newOTLP(&got)}),
		trace.WithResource(resource.NewWithAttributes("https://schema", attribute.String("service.name", "shop"))),
		trace.WithRawSpanLimits(trace.SpanLimits{
			AttributeCountLimit: 20, EventCountLimit: 2, LinkCountLimit: 2, AttributePerEventCountLimit: 1, AttributePerLinkCountLimit: 1, AttributeValueLengthLimit: -1,
		}),
	)
	const batches = 2 // the second finds what the first has left
	for range batches {
		variousSpans(t, provider)
		if err := provider.ForceFlush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(want.sent) != batches || len(want.sent[0].GetResourceSpans()[0].GetScopeSpans()) != 2 {
		t.Fatal("the load is not as it was meant:", want.sent)
	}
	if diff := gocmp.Diff(want.sent, got.sent, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

// variousSpans makes spans with all that one can have.
func variousSpans(t *testing.T, provider *trace.TracerProvider) {
	state, err := oteltrace.ParseTraceState("vendor=1")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := oteltrace.NewSpanContext(oteltrace.SpanContextConfig{
		TraceID: oteltrace.TraceID{1, 2}, SpanID: oteltrace.SpanID{3}, TraceFlags: oteltrace.FlagsSampled, TraceState: state, Remote: true,
	})
	calls := provider.Tracer("calls", oteltrace.WithInstrumentationVersion("1.2"), oteltrace.WithSchemaURL("https://calls"),
		oteltrace.WithInstrumentationAttributes(attribute.Bool("ours", true)))
	ctx, call := calls.Start(oteltrace.ContextWithSpanContext(t.Context(), elsewhere), "call", oteltrace.WithSpanKind(oteltrace.SpanKindServer))
	call.SetAttributes(
		attribute.String("text", "ä"), attribute.String("none", ""), attribute.String("long", strings.Repeat("x", 200)), attribute.String("longer", strings.Repeat("y", 20_000)),
		attribute.Int64("number", 7), attribute.Int64("zero", 0), attribute.Int64("debt", -7), attribute.Float64("share", 0.5), attribute.Bool("yes", true), attribute.Bool("no", false),
	)
	call.RecordError(errors.New("first"))
	call.RecordError(errors.New("second"), oteltrace.WithAttributes(attribute.Int("dropped", 1)))
	call.RecordError(errors.New("third"))
	call.SetStatus(codes.Error, "it failed")
	_, poll := provider.Tracer("polls").Start(ctx, "poll", oteltrace.WithSpanKind(oteltrace.SpanKindClient), oteltrace.WithLinks(
		oteltrace.Link{SpanContext: elsewhere, Attributes: []attribute.KeyValue{attribute.String("easel.link", "watch"), attribute.Int("dropped", 1)}},
		oteltrace.Link{SpanContext: call.SpanContext()}, oteltrace.Link{SpanContext: elsewhere},
	))
	for n := range 30 {
		poll.SetAttributes(attribute.Int(strings.Repeat("k", n+1), n))
	}
	poll.SetStatus(codes.Ok, "")
	_, root := calls.Start(t.Context(), "root")
	for _, span := range []oteltrace.Span{poll, root, call} {
		span.End()
	}
}

func TestATextThatIsNotValidCostsNoOtherSpan(t *testing.T) {
	var got wire
	provider := trace.NewTracerProvider(trace.WithSyncer(newOTLP(&got)))
	_, span := provider.Tracer("calls").Start(t.Context(), "call")
	span.SetStatus(codes.Error, "caf\xe9")
	span.End()
	if len(got.sent) != 1 || got.sent[0].GetResourceSpans()[0].GetScopeSpans()[0].GetSpans()[0].GetStatus().GetMessage() != "caf\uFFFD" {
		t.Error("it was sent as", got.sent)
	}
}
