package telemetry

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

// Tracer records traces and metrics of the hub's polls and pushes. A push delivers a hub event to a watch. Tracer also
// records metrics of orders, and of events for teams. Create a tracer after Start, because Start sets the providers that the
// tracer uses.
//
// A poll is a root span. It is linked to the watches that it serves, and to the calls that placed the orders. A push is a
// span in the trace of its watch. It is linked to the poll or the call that found the change. If spans are not recorded, the
// only cost is a context lookup.
type Tracer struct {
	tracer   trace.Tracer
	pushes   *rate.Limiter // limits the number of spans per second for pushes; a push delivers an event to a watch
	failures *Failures     // nil if failed polls are not logged

	delivered, pollsMade, changed, orders, spent, notified metric.Int64Counter
	heartbeatAge, delay                                    metric.Float64Histogram
}

var _ watch.Tracer = (*Tracer)(nil)

// Metric labels for deliveries to watches, by kind of event. They are created only once, because there may be ten thousand
// concurrent deliveries.
var (
	updateEvent    = labelled(pushed.is("update"))
	heartbeatEvent = labelled(pushed.is("heartbeat"))
	caughtUpEvent  = labelled(pushed.is("caught_up"))
)

// maxPushSpans is the maximum number of pushes per second that have a span. The exporter's queue holds 2,048 spans and drops
// all further spans. Without a limit, pushing one change to ten thousand watches would displace the spans of calls and polls.
const maxPushSpans = 1000

// NewTracer creates a tracer that uses OpenTelemetry's global providers.
func NewTracer() (*Tracer, error) {
	var faults [8]error
	meter := otel.Meter(scope)
	t := &Tracer{
		tracer: otel.Tracer(scope),
		pushes: rate.NewLimiter(maxPushSpans, maxPushSpans),
	}
	t.delivered, faults[0] = meter.Int64Counter("easel.pushes")
	t.pollsMade, faults[1] = meter.Int64Counter("easel.polls")
	t.changed, faults[2] = meter.Int64Counter("easel.changes")
	t.orders, faults[3] = meter.Int64Counter("easel.orders")
	t.spent, faults[4] = meter.Int64Counter("easel.order.charged")
	t.heartbeatAge, faults[5] = meter.Float64Histogram("easel.heartbeat.age")
	t.delay, faults[6] = meter.Float64Histogram("easel.detection.delay")
	t.notified, faults[7] = meter.Int64Counter("easel.events")
	return t, errors.Join(faults[:]...)
}

func labelled(labels ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(labels...))
}

// TraceRef implements watch.Tracer. It returns nil for a span that is not sampled, because a link to such a span is
// useless.
func (t *Tracer) TraceRef(ctx context.Context) watch.TraceRef {
	if span := trace.SpanContextFromContext(ctx); span.IsSampled() {
		return span
	}
	return nil
}

// PollBegins implements watch.Tracer.
func (t *Tracer) PollBegins(ctx context.Context, p watch.Poll) (context.Context, watch.TraceRef, func(watch.Outcome)) {
	ctx, span := t.tracer.Start(ctx, pollNames[p.Kind()], trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindInternal),
		trace.WithLinks(linksOf(p)...), trace.WithAttributes(attribute.Int("easel.watches", p.Watches)))
	switch p.Kind() {
	case "read":
		span.SetAttributes(attribute.String("easel.generation.id", p.ID))
	case "sweep":
		span.SetAttributes(attribute.Int("easel.sweep.size", p.Generations))
	}
	return ctx, t.TraceRef(ctx), func(out watch.Outcome) { t.recordPoll(ctx, span, p, out) }
}

// pollNames maps kinds of polls to the names of their spans.
var pollNames = map[string]string{"read": "poll", "sweep": "sweep", "account": "poll account"}

// Attributes of a link between spans. The linked span belongs to a call that placed an order, to a watch, or to the poll or
// call that found a change.
var (
	linkOrder = attribute.String("easel.link", "order")
	linkWatch = attribute.String("easel.link", "watch")
	linkFound = attribute.String("easel.link", "found_by")
)

func linksOf(p watch.Poll) []trace.Link {
	links := make([]trace.Link, 0, len(p.Orders)+len(p.Open))
	for _, ref := range p.Orders {
		links = append(links, link(ref, linkOrder))
	}
	for _, ref := range p.Open {
		links = append(links, link(ref, linkWatch))
	}
	return links
}

func link(ref watch.TraceRef, about attribute.KeyValue) trace.Link {
	span, _ := ref.(trace.SpanContext)
	return trace.Link{SpanContext: span, Attributes: []attribute.KeyValue{about}}
}

// recordPoll records the end of a poll.
func (t *Tracer) recordPoll(ctx context.Context, span trace.Span, p watch.Poll, out watch.Outcome) {
	if t.failures != nil {
		t.failures.Polled(ctx, p, out)
	}
	t.pollsMade.Add(ctx, 1, labelled(pollKind.is(p.Kind()), polled.is(pollOutcome(out.Err))))
	for _, change := range out.Changes {
		t.changed.Add(ctx, 1, labelled(generationState.is(change.State.String())))
		t.delay.Record(ctx, change.Delay.Seconds())
	}
	if span.IsRecording() {
		span.SetAttributes(attribute.Int("easel.changes", len(out.Changes)))
		if out.State != 0 {
			span.SetAttributes(generationState.is(out.State.String()))
		}
		if out.Err != nil && catalog.KindOf(out.Err) != catalog.KindNotFound {
			span.SetStatus(codes.Error, pollOutcome(out.Err))
		}
	}
	span.End()
}

var pollOutcomes = map[catalog.Kind]string{
	catalog.KindNotFound:           "not_found",
	catalog.KindRateLimited:        "throttled",
	catalog.KindBusy:               "busy",
	catalog.KindUnavailable:        "unreachable",
	catalog.KindCredentialRejected: "credential_rejected",
}

// pollOutcome returns the name of a poll's outcome. The set of possible names is fixed.
func pollOutcome(err error) string {
	if err == nil {
		return "ok"
	}
	return cmp.Or(pollOutcomes[catalog.KindOf(err)], "failed")
}

// Delivery implements watch.Tracer.
func (t *Tracer) Delivery(ctx context.Context, watching watch.TraceRef, event watch.Event, found watch.TraceRef) (delivered func()) {
	switch {
	case event.Heartbeat != nil:
		t.delivered.Add(ctx, 1, heartbeatEvent)
		if at := event.Heartbeat.ObserveTime; !at.IsZero() {
			t.heartbeatAge.Record(ctx, time.Since(at).Seconds())
		}
		return nil
	case event.CaughtUp:
		t.delivered.Add(ctx, 1, caughtUpEvent)
		return nil
	}
	t.delivered.Add(ctx, 1, updateEvent)
	if watching == nil || !t.pushes.Allow() {
		return nil
	}
	return t.startPush(ctx, event, found)
}

// startPush starts the span of a push, which delivers an event to a watch. It returns a function that ends the span.
func (t *Tracer) startPush(ctx context.Context, event watch.Event, found watch.TraceRef) (delivered func()) {
	var options []trace.SpanStartOption
	if event.Update != nil {
		options = append(options, trace.WithAttributes(
			attribute.String("easel.generation.id", event.Update.ID),
			generationState.is(event.Update.State.String()),
		))
	}
	if found != nil {
		options = append(options, trace.WithLinks(link(found, linkFound)))
	}
	_, span := t.tracer.Start(ctx, "push", options...)
	return func() { span.End() }
}

// Notified counts attempts to send events to a team, by outcome. If attempts is 0, it only creates the metric's series.
func (t *Tracer) Notified(team, outcome string, attempts int64) {
	t.notified.Add(context.Background(), attempts, labelled(owner.is(team), eventOutcome.is(outcome)))
}

// Ordered records an order's outcome and cost. callerName is empty for a caller with its own API key.
func (t *Tracer) Ordered(ctx context.Context, callerName, modelID string, g catalog.Generation, err error) {
	t.orders.Add(ctx, 1, labelled(ordered.is(orderOutcome(g, err))))
	if err == nil && g.CostCents != nil {
		if callerName == "" {
			callerName = "forwarded"
		}
		t.spent.Add(ctx, max(0, *g.CostCents), labelled(model.is(modelID), caller.is(callerName)))
	}
}

// orderOutcome returns the name of an order's outcome. The set of possible names is fixed.
func orderOutcome(g catalog.Generation, err error) string {
	name := strings.ReplaceAll(catalog.KindOf(err).String(), " ", "_")
	switch {
	case err == nil && g.CostCents == nil:
		return "placed_unpriced"
	case err == nil:
		return "placed"
	case catalog.KindOf(err) == catalog.KindDailyCap:
		return "daily_cap"
	case slices.Contains(ordered.Values, name):
		return name
	}
	return "failed"
}
