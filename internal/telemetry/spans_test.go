package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/testing/protocmp"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

var shop = resource.NewSchemaless(attribute.String("service.name", "shop"))

// ours gives a provider of our spans, and what it exports.
func ours(t *testing.T, sampler trace.Sampler) (*spans, *wire) {
	got := &wire{}
	provider := &spans{about: shop, sampler: sampler, ended: trace.NewSimpleSpanProcessor(newOTLP(got))}
	return provider, got
}

// stocks gives a provider of the SDK's spans, and what it exports.
func stocks(t *testing.T, sampler trace.Sampler) (*trace.TracerProvider, *wire) {
	got := &wire{}
	return trace.NewTracerProvider(trace.WithResource(shop), trace.WithSampler(sampler), trace.WithSyncer(newOTLP(got))), got
}

func TestSpansSayWhatThoseOfTheSDKSay(t *testing.T) {
	provider, got := ours(t, trace.AlwaysSample())
	likely, want := stocks(t, trace.AlwaysSample())
	strangeSpans(t, provider)
	strangeSpans(t, likely)
	if len(want.sent) != 4 {
		t.Fatal("the load is not as it was meant:", want.sent)
	}
	if diff := gocmp.Diff(withNames(want), withNames(got), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

// strangeSpans uses all that a span can do, at times that are given.
func strangeSpans(t *testing.T, provider oteltrace.TracerProvider) {
	at := func(second int64) oteltrace.SpanEventOption { return oteltrace.WithTimestamp(time.Unix(second, 0)) }
	tracer := provider.Tracer("calls", oteltrace.WithInstrumentationVersion("1.2"), oteltrace.WithSchemaURL("https://calls"),
		oteltrace.WithInstrumentationAttributes(attribute.Bool("ours", true)))
	ctx, call := tracer.Start(oteltrace.ContextWithSpanContext(t.Context(), elsewhere(t)), "call", at(1), oteltrace.WithSpanKind(oteltrace.SpanKindServer),
		oteltrace.WithAttributes(attribute.String("early", "1")))
	call.SetAttributes(attribute.String("twice", "1"), attribute.Int("once", 1), attribute.String("twice", "2"), attribute.String("early", "2"))
	call.RecordError(nil)
	call.RecordError(errors.New("plain"), at(2))
	call.RecordError(ownError("own"), at(3), oteltrace.WithAttributes(attribute.Bool("more", true)))
	call.AddEvent("it happened", at(4))
	call.SetStatus(codes.Error, "it failed")
	call.SetStatus(codes.Unset, "too late")
	call.SetName("renamed")
	_, poll := tracer.Start(ctx, "poll", at(5), oteltrace.WithSpanKind(oteltrace.SpanKindClient), oteltrace.WithLinks(
		oteltrace.Link{SpanContext: elsewhere(t), Attributes: []attribute.KeyValue{attribute.String("easel.link", "watch")}}, oteltrace.Link{},
	))
	poll.AddLink(oteltrace.Link{SpanContext: call.SpanContext()})
	poll.SetStatus(codes.Error, "no")
	poll.SetStatus(codes.Ok, "never shown")
	_, root := tracer.Start(t.Context(), "root", at(6))
	_, alone := tracer.Start(ctx, "alone", at(7), oteltrace.WithNewRoot())
	for _, span := range []oteltrace.Span{root, alone, poll, call} {
		span.End(at(9))
		span.SetAttributes(attribute.Bool("after the end", true))
		span.SetName("after the end")
		span.End(at(10))
		if span.IsRecording() || span.TracerProvider() != provider {
			t.Error("a span is still recorded, or does not know where it is from")
		}
	}
}

func TestASpanKeepsAsMuchAsOneOfTheSDK(t *testing.T) {
	provider, got := ours(t, trace.AlwaysSample())
	likely, want := stocks(t, trace.AlwaysSample())
	for _, one := range []oteltrace.TracerProvider{provider, likely} {
		at := oteltrace.WithTimestamp(time.Unix(1, 0))
		_, span := one.Tracer("long").Start(t.Context(), "long", at)
		for n := range 300 {
			span.SetAttributes(attribute.Int(fmt.Sprint(n), n))
			span.AddEvent(fmt.Sprint(n), at)
			span.AddLink(oteltrace.Link{SpanContext: elsewhere(t), Attributes: []attribute.KeyValue{attribute.Int("n", n)}})
		}
		span.SetAttributes(attribute.Int("7", 8), attribute.Int("new", 1))
		span.End(at)
	}
	if diff := gocmp.Diff(withNames(want), withNames(got), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

type ownError string

func (e ownError) Error() string { return string(e) }

// elsewhere is a span of a caller.
func elsewhere(t *testing.T) oteltrace.SpanContext {
	state, err := oteltrace.ParseTraceState("vendor=1")
	if err != nil {
		t.Fatal(err)
	}
	return oteltrace.NewSpanContext(oteltrace.SpanContextConfig{
		TraceID: oteltrace.TraceID{1, 2}, SpanID: oteltrace.SpanID{3}, TraceFlags: oteltrace.FlagsSampled, TraceState: state, Remote: true,
	})
}

// withNames are all spans in order, with their names in place of ids that were drawn.
func withNames(w *wire) (all []*tracepb.ResourceSpans) {
	names := map[string]string{}
	rename := func(id *[]byte) {
		if name, ok := names[string(*id)]; ok {
			*id = []byte(name)
		}
	}
	for _, data := range w.sent {
		all = append(all, data.GetResourceSpans()...)
	}
	spanOf := func(one *tracepb.ResourceSpans) *tracepb.Span { return one.GetScopeSpans()[0].GetSpans()[0] }
	for _, one := range all {
		names[string(spanOf(one).GetSpanId())] = spanOf(one).GetName()
		if len(spanOf(one).GetParentSpanId()) == 0 {
			names[string(spanOf(one).GetTraceId())] = "trace of " + spanOf(one).GetName()
		}
	}
	for _, one := range all {
		span := spanOf(one)
		rename(&span.TraceId)
		rename(&span.SpanId)
		rename(&span.ParentSpanId)
		for _, link := range span.Links {
			rename(&link.SpanId)
		}
	}
	slices.SortFunc(all, func(a, b *tracepb.ResourceSpans) int { return cmp.Compare(spanOf(a).GetName(), spanOf(b).GetName()) })
	return all
}

func TestSpansAreRecordedWhereThoseOfTheSDKAre(t *testing.T) {
	unsampled := elsewhere(t).WithTraceFlags(0)
	for name, sampler := range map[string]trace.Sampler{
		"always": trace.AlwaysSample(), "never": trace.NeverSample(), "as the parent": trace.ParentBased(trace.AlwaysSample()),
		"by share": trace.TraceIDRatioBased(0.01), "linked": linked{trace.ParentBased(trace.NeverSample())},
	} {
		provider, _ := ours(t, sampler)
		likely, _ := stocks(t, sampler)
		for parent, ids := range map[string]oteltrace.SpanContext{"sampled": elsewhere(t), "not sampled": unsampled} {
			ctx := oteltrace.ContextWithSpanContext(t.Context(), ids)
			below, got := provider.Tracer("x").Start(ctx, "y")
			_, want := likely.Tracer("x").Start(ctx, "y")
			if got.IsRecording() != want.IsRecording() || !got.SpanContext().WithSpanID(want.SpanContext().SpanID()).Equal(want.SpanContext()) {
				t.Errorf("%s, parent %s: %v %+v, want %v %+v", name, parent, got.IsRecording(), got.SpanContext(), want.IsRecording(), want.SpanContext())
			}
			if !got.SpanContext().SpanID().IsValid() || !oteltrace.SpanContextFromContext(below).Equal(got.SpanContext()) {
				t.Errorf("%s, parent %s: what is below is not below it", name, parent)
			}
		}
	}
}

func TestASpanCanBeWrittenToByManyWhileItEnds(t *testing.T) {
	provider, got := ours(t, trace.AlwaysSample())
	_, span := provider.Tracer("calls").Start(t.Context(), "call")
	var working sync.WaitGroup
	for n := range 8 {
		working.Go(func() {
			span.SetAttributes(attribute.Int(fmt.Sprint("from ", n), n))
			span.AddEvent("it happened")
			span.End()
		})
	}
	working.Wait()
	if len(got.sent) != 1 {
		t.Errorf("it was exported %d times", len(got.sent))
	}
}

func TestWhatHasEndedIsExportedBeforeTheEnd(t *testing.T) {
	got := &stopped{}
	provider := &spans{about: shop, sampler: trace.AlwaysSample(), ended: trace.NewBatchSpanProcessor(newOTLP(got))}
	_, span := provider.Tracer("calls").Start(t.Context(), "call")
	span.End()
	if err := provider.Shutdown(t.Context()); err != nil || len(got.sent) != 1 || !got.stopped {
		t.Errorf("%d batches are sent, %v, and the client has stopped: %v", len(got.sent), err, got.stopped)
	}
}

// stopped is a wire that knows its end.
type stopped struct {
	wire
	stopped bool
}

func (s *stopped) Stop(context.Context) error {
	s.stopped = true
	return nil
}

func TestLimitsOfTheEnvironmentHold(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	for _, setting := range []string{"", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_LINK_COUNT_LIMIT", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"} {
		t.Run(strings.ToLower(setting), func(t *testing.T) {
			if setting != "" {
				t.Setenv(setting, "2")
			}
			provider, err := newTracerProvider(t.Context(), shop)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = provider.Shutdown(t.Context()) }()
			if _, stock := provider.(*trace.TracerProvider); stock != (setting != "") {
				t.Errorf("the provider is %T", provider)
			}
		})
	}
}
