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

// noObserver stands where there is none.
type noObserver struct{}

func (noObserver) TraceRef(context.Context) TraceRef { return nil }

func (noObserver) PollBegins(ctx context.Context, _ Poll) (context.Context, TraceRef, func(Outcome)) {
	return ctx, nil, func(Outcome) {}
}

func (noObserver) Delivery(context.Context, TraceRef, Event, TraceRef) func() { return nil }

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
const maxRefs = 16

// pollResult is an answer that is being taken in, whoever has asked for it.
type pollResult struct {
	found   TraceRef
	changes []Change
}
