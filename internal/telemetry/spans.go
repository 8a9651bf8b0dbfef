package telemetry

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	oteltrace "go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
)

// spans is a tracer provider whose spans are exported as they are. The stock one copies each when it
// ends, and looks in a map for attributes that were set twice: a traced call costs 1.11 instead of
// 1.19 times what a bare one does (make bench-P9). What limits the environment can set it does not
// know: newTracerProvider takes the stock one where it sets any.
//
// To take it out, let newTracerProvider always do so.
type spans struct {
	embedded.TracerProvider
	about   *resource.Resource
	sampler trace.Sampler
	ended   trace.SpanProcessor
}

// Tracer implements oteltrace.TracerProvider.
func (s *spans) Tracer(name string, options ...oteltrace.TracerOption) oteltrace.Tracer {
	config := oteltrace.NewTracerConfig(options...)
	return &tracer{spans: s, scope: instrumentation.Scope{
		Name: name, Version: config.InstrumentationVersion(), SchemaURL: config.SchemaURL(), Attributes: config.InstrumentationAttributes(),
	}}
}

// Shutdown exports what has ended.
func (s *spans) Shutdown(ctx context.Context) error { return s.ended.Shutdown(ctx) }

type tracer struct {
	embedded.Tracer
	*spans
	scope instrumentation.Scope
}

// Start implements oteltrace.Tracer.
func (t *tracer) Start(ctx context.Context, name string, options ...oteltrace.SpanStartOption) (context.Context, oteltrace.Span) {
	config := oteltrace.NewSpanStartConfig(options...)
	if config.NewRoot() {
		ctx = oteltrace.ContextWithSpanContext(ctx, oteltrace.SpanContext{})
	}
	parent := oteltrace.SpanContextFromContext(ctx)
	own := oteltrace.SpanContextConfig{TraceID: parent.TraceID(), SpanID: randomSpanID()}
	if !own.TraceID.IsValid() {
		own.TraceID = randomTraceID()
	}
	decided := t.sampler.ShouldSample(trace.SamplingParameters{
		ParentContext: ctx, TraceID: own.TraceID, Name: name, Kind: config.SpanKind(), Attributes: config.Attributes(), Links: config.Links(),
	})
	own.TraceState = decided.Tracestate
	if decided.Decision != trace.RecordAndSample {
		own.TraceFlags = parent.TraceFlags() &^ oteltrace.FlagsSampled
		ctx = oteltrace.ContextWithSpanContext(ctx, oteltrace.NewSpanContext(own))
		return ctx, oteltrace.SpanFromContext(ctx)
	}
	own.TraceFlags = parent.TraceFlags() | oteltrace.FlagsSampled
	s := &span{tracer: t, own: oteltrace.NewSpanContext(own), parent: parent, name: name, kind: oteltrace.ValidateSpanKind(config.SpanKind()), start: config.Timestamp()}
	if s.start.IsZero() {
		s.start = time.Now()
	}
	s.SetAttributes(decided.Attributes...)
	s.SetAttributes(config.Attributes()...)
	for _, link := range config.Links() {
		s.AddLink(link)
	}
	return oteltrace.ContextWithSpan(ctx, s), s
}

func randomSpanID() (id oteltrace.SpanID) {
	binary.NativeEndian.PutUint64(id[:], max(1, rand.Uint64()))
	return id
}

func randomTraceID() (id oteltrace.TraceID) {
	binary.NativeEndian.PutUint64(id[:8], max(1, rand.Uint64()))
	binary.NativeEndian.PutUint64(id[8:], rand.Uint64())
	return id
}

// span is one that is recorded. When it has ended nobody writes to it, and the exporter reads it.
type span struct {
	embedded.Span
	trace.ReadOnlySpan // nil: for the one method that the SDK keeps to itself, and calls never
	tracer             *tracer
	own, parent        oteltrace.SpanContext
	kind               oteltrace.SpanKind
	start              time.Time

	mu         sync.Mutex
	name       string
	end        time.Time // zero while it is recorded
	status     trace.Status
	attributes []attribute.KeyValue
	events     []trace.Event
	links      []trace.Link
	// How many were dropped.
	fewerAttributes, fewerEvents, fewerLinks int
}

// write changes a span that has not ended.
func (s *span) write(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end.IsZero() {
		change()
	}
}

// End implements oteltrace.Span.
func (s *span) End(options ...oteltrace.SpanEndOption) {
	now := s.start.Add(time.Since(s.start)) // whatever becomes of the clock meanwhile
	config := oteltrace.NewSpanEndConfig(options...)
	if at := config.Timestamp(); !at.IsZero() {
		now = at
	}
	first := false
	s.write(func() { s.end, first = now, true })
	if first {
		s.tracer.ended.OnEnd(s)
	}
}

// SetAttributes implements oteltrace.Span. Of one that is set twice the last value counts.
func (s *span) SetAttributes(all ...attribute.KeyValue) {
	s.write(func() {
		s.attributes = slices.Grow(s.attributes, len(all))
		for _, one := range all {
			same := func(other attribute.KeyValue) bool { return other.Key == one.Key }
			if i := slices.IndexFunc(s.attributes, same); i >= 0 {
				s.attributes[i] = one
			} else if one.Valid() && len(s.attributes) < usualLimits.AttributeCountLimit {
				s.attributes = append(s.attributes, one)
			} else {
				s.fewerAttributes++
			}
		}
	})
}

// AddEvent implements oteltrace.Span.
func (s *span) AddEvent(name string, options ...oteltrace.EventOption) {
	config := oteltrace.NewEventConfig(options...)
	s.write(func() {
		one := trace.Event{Name: name, Attributes: config.Attributes(), Time: config.Timestamp()}
		s.events = latest(s.events, one, usualLimits.EventCountLimit, &s.fewerEvents)
	})
}

// RecordError implements oteltrace.Span.
func (s *span) RecordError(err error, options ...oteltrace.EventOption) {
	if err == nil {
		return
	}
	kind := reflect.TypeOf(err)
	name := kind.String()
	if kind.Name() != "" {
		name = fmt.Sprintf("%s.%s", kind.PkgPath(), kind.Name())
	}
	s.AddEvent(semconv.ExceptionEventName, append(options, oteltrace.WithAttributes(semconv.ExceptionType(name), semconv.ExceptionMessage(err.Error())))...)
}

// AddLink implements oteltrace.Span.
func (s *span) AddLink(link oteltrace.Link) {
	if !link.SpanContext.IsValid() && len(link.Attributes) == 0 && link.SpanContext.TraceState().Len() == 0 {
		return // it says nothing
	}
	s.write(func() {
		one := trace.Link{SpanContext: link.SpanContext, Attributes: link.Attributes}
		s.links = latest(s.links, one, usualLimits.LinkCountLimit, &s.fewerLinks)
	})
}

// latest adds one to a list, in place of the first where the list is full.
func latest[T any](list []T, one T, limit int, dropped *int) []T {
	if len(list) == limit {
		list = list[1:]
		*dropped++
	}
	return append(list, one)
}

// SetStatus implements oteltrace.Span. An error counts more than nothing, and success more than that.
func (s *span) SetStatus(code codes.Code, text string) {
	s.write(func() {
		if code < s.status.Code {
			return
		}
		s.status = trace.Status{Code: code}
		if code == codes.Error {
			s.status.Description = text
		}
	})
}

// SetName implements oteltrace.Span.
func (s *span) SetName(name string) { s.write(func() { s.name = name }) }

// IsRecording implements oteltrace.Span.
func (s *span) IsRecording() (is bool) {
	s.write(func() { is = true })
	return is
}

// SpanContext, TracerProvider and what follows are what oteltrace.Span and trace.ReadOnlySpan tell.
func (s *span) SpanContext() oteltrace.SpanContext          { return s.own }
func (s *span) TracerProvider() oteltrace.TracerProvider    { return s.tracer.spans }
func (s *span) Name() string                                { return s.name }
func (s *span) Parent() oteltrace.SpanContext               { return s.parent }
func (s *span) SpanKind() oteltrace.SpanKind                { return s.kind }
func (s *span) StartTime() time.Time                        { return s.start }
func (s *span) EndTime() time.Time                          { return s.end }
func (s *span) Attributes() []attribute.KeyValue            { return s.attributes }
func (s *span) Links() []trace.Link                         { return s.links }
func (s *span) Events() []trace.Event                       { return s.events }
func (s *span) Status() trace.Status                        { return s.status }
func (s *span) InstrumentationScope() instrumentation.Scope { return s.tracer.scope }
func (s *span) Resource() *resource.Resource                { return s.tracer.about }
func (s *span) DroppedAttributes() int                      { return s.fewerAttributes }
func (s *span) DroppedLinks() int                           { return s.fewerLinks }
func (s *span) DroppedEvents() int                          { return s.fewerEvents }
func (s *span) ChildSpanCount() int                         { return 0 }

// InstrumentationLibrary is an older name of the scope.
func (s *span) InstrumentationLibrary() instrumentation.Library { //nolint:staticcheck // the interface has it
	return s.tracer.scope
}
