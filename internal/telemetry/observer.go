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

// Observer traces and measures the polls and deliveries of the hub, and the cost of orders. Make
// it after Start, which sets the providers that it uses.
//
// A poll is a root span, linked to the watches that it serves and to the calls that placed
// the orders. A push is a span in the trace of its watch, linked to the poll or the call that
// found the change. A span that nobody records costs one read of a context.
type Observer struct {
	tracer   trace.Tracer
	pushes   *rate.Limiter // of pushes that get a span
	failures *Failures     // nil: polls that fail are not logged

	delivered, pollsMade, changed, orders, spent, notified metric.Int64Counter
	heartbeatAge, delay                                    metric.Float64Histogram
}

var _ watch.Observer = (*Observer)(nil)

// The labels of delivered events, made once: there may be ten thousand deliveries at a time.
var (
	updateEvent    = labelled(pushed.is("update"))
	heartbeatEvent = labelled(pushed.is("heartbeat"))
	caughtUpEvent  = labelled(pushed.is("caught_up"))
)

// mostPushSpans is how many pushes a second have a span. The exporter's queue holds 2,048 spans,
// and drops all further spans: a change for ten thousand watches would drive out the spans of
// calls and of the poll that found it.
const maxPushSpans = 1000

// NewObserver makes an observer over the global providers.
func NewObserver() (*Observer, error) {
	var faults [8]error
	meter := otel.Meter(scope)
	o := &Observer{
		tracer: otel.Tracer(scope),
		pushes: rate.NewLimiter(maxPushSpans, maxPushSpans),
	}
	o.delivered, faults[0] = meter.Int64Counter("easel.pushes")
	o.pollsMade, faults[1] = meter.Int64Counter("easel.polls")
	o.changed, faults[2] = meter.Int64Counter("easel.changes")
	o.orders, faults[3] = meter.Int64Counter("easel.orders")
	o.spent, faults[4] = meter.Int64Counter("easel.order.charged")
	o.heartbeatAge, faults[5] = meter.Float64Histogram("easel.heartbeat.age")
	o.delay, faults[6] = meter.Float64Histogram("easel.detection.delay")
	o.notified, faults[7] = meter.Int64Counter("easel.events")
	return o, errors.Join(faults[:]...)
}

func labelled(labels ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(labels...))
}

// TraceRef implements watch.Observer. A span that is not sampled has none: a link to it would
// lead nowhere.
func (o *Observer) TraceRef(ctx context.Context) watch.TraceRef {
	if span := trace.SpanContextFromContext(ctx); span.IsSampled() {
		return span
	}
	return nil
}

// PollBegins implements watch.Observer.
func (o *Observer) PollBegins(ctx context.Context, p watch.Poll) (context.Context, watch.TraceRef, func(watch.Outcome)) {
	ctx, span := o.tracer.Start(ctx, pollNames[p.Kind()], trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindInternal),
		trace.WithLinks(linksOf(p)...), trace.WithAttributes(attribute.Int("easel.watches", p.Watches)))
	switch p.Kind() {
	case "read":
		span.SetAttributes(attribute.String("easel.generation.id", p.ID))
	case "sweep":
		span.SetAttributes(attribute.Int("easel.sweep.size", p.Generations))
	}
	return ctx, o.TraceRef(ctx), func(out watch.Outcome) { o.polled(ctx, span, p, out) }
}

// pollNames are the names of the spans of polls, by kind.
var pollNames = map[string]string{"read": "poll", "sweep": "sweep", "account": "poll account"}

// The values of the attribute of a link that says what it leads to.
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

// polled ends a poll.
func (o *Observer) polled(ctx context.Context, span trace.Span, p watch.Poll, out watch.Outcome) {
	if o.failures != nil {
		o.failures.Polled(ctx, p, out)
	}
	o.pollsMade.Add(ctx, 1, labelled(pollKind.is(p.Kind()), polled.is(pollOutcome(out.Err))))
	for _, change := range out.Changes {
		o.changed.Add(ctx, 1, labelled(generationState.is(change.State.String())))
		o.delay.Record(ctx, change.Delay.Seconds())
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

// pollOutcome names how a poll ended, out of a closed set.
func pollOutcome(err error) string {
	if err == nil {
		return "ok"
	}
	return cmp.Or(pollOutcomes[catalog.KindOf(err)], "failed")
}

// Delivery implements watch.Observer. It counts without an exemplar of a trace: to choose one costs
// more than to count, and an update has a span of its own.
//
//nolint:contextcheck // see above
func (o *Observer) Delivery(ctx context.Context, watching watch.TraceRef, event watch.Event, found watch.TraceRef) (delivered func()) {
	switch {
	case event.Heartbeat != nil:
		o.delivered.Add(context.Background(), 1, heartbeatEvent)
		if at := event.Heartbeat.ObserveTime; !at.IsZero() {
			o.heartbeatAge.Record(ctx, time.Since(at).Seconds())
		}
		return nil
	case event.CaughtUp:
		o.delivered.Add(context.Background(), 1, caughtUpEvent)
		return nil
	}
	o.delivered.Add(context.Background(), 1, updateEvent)
	if watching == nil || !o.pushes.Allow() {
		return nil
	}
	return o.pushing(ctx, event, found)
}

// pushing begins the span of a push.
func (o *Observer) pushing(ctx context.Context, event watch.Event, found watch.TraceRef) (delivered func()) {
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
	_, span := o.tracer.Start(ctx, "push", options...)
	return func() { span.End() }
}

// Notified counts attempts to notify a team of events, by outcome. A count of 0 creates the series.
func (o *Observer) Notified(team, outcome string, attempts int64) {
	o.notified.Add(context.Background(), attempts, labelled(owner.is(team), eventOutcome.is(outcome)))
}

// Ordered measures the outcome and the cost of an order. by is the name of the caller, "" for a caller
// with an API key of its own.
func (o *Observer) Ordered(ctx context.Context, by, modelID string, g catalog.Generation, err error) {
	o.orders.Add(ctx, 1, labelled(ordered.is(orderOutcome(g, err))))
	if err == nil && g.CostCents != nil {
		if by == "" {
			by = "forwarded"
		}
		o.spent.Add(ctx, max(0, *g.CostCents), labelled(model.is(modelID), caller.is(by)))
	}
}

// orderOutcome names how an order ended, out of the closed set.
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
