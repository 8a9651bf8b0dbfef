package watch

import (
	"context"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// Observer hears what the hub does, so that it can be traced and measured. Its methods are
// called by many at once, and never with the hub's lock held, so that what an observer does
// delays one request or one message and nobody else.
type Observer interface {
	// TraceRef gives what stands for the trace of ctx in the spans of others. It is nil where
	// that trace is not recorded.
	TraceRef(ctx context.Context) TraceRef
	// PollBegins begins a poll. The context that it gives is that of the request; found stands
	// for the poll in what it finds; ended is called once, when what came back was taken in.
	PollBegins(ctx context.Context, poll Poll) (_ context.Context, found TraceRef, ended func(Outcome))
	// Delivery begins a message to a watcher whose context is ctx. watching is the reference of that
	// context, and found stands for the poll or the call that found what is delivered; each is nil
	// where that is not recorded. delivered is called when the watcher has taken the message; it
	// may be nil.
	Delivery(ctx context.Context, watching TraceRef, event Event, found TraceRef) (delivered func())
}

// TraceRef is an observer's own token: the hub keeps it, hands it on and never looks into it.
type TraceRef any

// Poll is one request of a poller.
type Poll struct {
	Tenant      catalog.Tenant
	ID          string     // "" is a sweep
	Generations int        // that it stands for
	Watches     int        // of those; one of many counts for each of them
	Orders      []TraceRef // of calls that placed them, at most 16
	Open        []TraceRef // of watches, at most 16
}

// Outcome is what came of a poll.
type Outcome struct {
	Err     error
	State   catalog.State // that a read of one found; 0 where it found none
	Changes []Change
}

// Change is a new state of a generation that was polled before.
type Change struct {
	State catalog.State
	// Delay is how long it went unseen, as the schedule expects from what it knows of the
	// model's renders, and from when the last look was.
	Delay time.Duration
}

// mostRefs is how many trace references of a kind one poll carries: a click or two lead from any of
// them to the others.
const mostRefs = 16

// pollResult is an answer that is being taken in, whoever has asked for it.
type pollResult struct {
	found   TraceRef
	changes []Change
}

// traceRef gives the trace reference of a context.
func (h *Hub) traceRef(ctx context.Context) TraceRef {
	if h.cfg.Observer == nil {
		return nil
	}
	return h.cfg.Observer.TraceRef(ctx)
}

// pollBegins begins a poll for the observer.
func (h *Hub) pollBegins(ctx context.Context, poll Poll) (context.Context, *pollResult, func(Outcome)) {
	if h.cfg.Observer == nil {
		return ctx, &pollResult{}, func(Outcome) {}
	}
	ctx, found, ended := h.cfg.Observer.PollBegins(ctx, poll)
	return ctx, &pollResult{found: found}, ended
}

// delivery begins a delivery for the observer, and gives what ends it.
func (h *Hub) delivery(ctx context.Context, watching TraceRef, s step) (delivered func()) {
	if h.cfg.Observer != nil {
		delivered = h.cfg.Observer.Delivery(ctx, watching, *s.event, s.found)
	}
	if delivered == nil {
		return func() {}
	}
	return delivered
}

// account adds an entry to what a poll stands for.
func (j *job) account(t *tenant, e *entry, now time.Time) {
	t.stats.Unshared += e.unshared(t.introduced(), now)
	j.Generations++
	j.Watches += len(e.watchers)
	if e.order != nil && len(j.Orders) < mostRefs {
		j.Orders = append(j.Orders, e.order)
	}
	for i := 0; t.traced > 0 && i < len(e.watchers) && len(j.Open) < mostRefs; i++ {
		w := e.watchers[i].watcher
		if w.trace != nil && w.polled != j.number {
			w.polled = j.number // a watch of many is named once
			j.Open = append(j.Open, w.trace)
		}
	}
}

// unshared is how many requests the watches of an entry would have made since the last poll,
// had each polled for itself by the same schedule. Those of everything would ask the list.
func (e *entry) unshared(everything int, now time.Time) float64 {
	watches := float64(len(e.watchers))
	if !e.listing.seen.IsZero() {
		watches = max(0, watches-float64(everything))
	}
	if e.polling.gap <= 0 || !e.fresh {
		return watches
	}
	return watches * min(1, now.Sub(e.state.ObserveTime).Seconds()/e.polling.gap.Seconds())
}

// introduced is how many watches of everything have had their first list.
func (t *tenant) introduced() (n int) {
	for _, w := range t.everything {
		if w.listed {
			n++
		}
	}
	return n
}
