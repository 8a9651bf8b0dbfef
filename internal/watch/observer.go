package watch

import (
	"context"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// Observer traces and measures the hub. Many goroutines call its methods at once, and never with a lock of
// the hub held, so that an observer delays one request or one delivery and nobody else.
type Observer interface {
	// TraceRef gives a reference to the trace of ctx, for links in other spans. It is nil where
	// that trace is not recorded.
	TraceRef(ctx context.Context) TraceRef
	// PollBegins begins a poll. The hub makes the request with the returned context; found is the
	// reference of the poll; the hub calls ended once, after it has taken in the answer.
	PollBegins(ctx context.Context, poll Poll) (_ context.Context, found TraceRef, ended func(Outcome))
	// Delivery begins the delivery of an event to a watcher whose context is ctx. watching is the
	// reference of that context, and found the reference of the poll or the call that found the change;
	// each is nil where its trace is not recorded. The hub calls delivered, which may be nil, after the
	// watcher has taken the event.
	Delivery(ctx context.Context, watching TraceRef, event Event, found TraceRef) (delivered func())
}

// noObserver does nothing.
type noObserver struct{}

func (noObserver) TraceRef(context.Context) TraceRef { return nil }

func (noObserver) PollBegins(ctx context.Context, _ Poll) (context.Context, TraceRef, func(Outcome)) {
	return ctx, nil, func(Outcome) {}
}

func (noObserver) Delivery(context.Context, TraceRef, Event, TraceRef) func() { return nil }

// TraceRef is an observer's reference to a trace. The hub passes it on and never reads it.
type TraceRef any

// Poll is one request of a poller.
type Poll struct {
	Tenant      catalog.Tenant
	ID          string     // "" is a sweep, or a read of the account
	Account     bool       // a read of the account
	Generations int        // polled by it
	Watches     int        // of these; a watch of several generations counts for each
	Orders      []TraceRef // of the calls that placed the generations, at most 16
	Open        []TraceRef // of the watches, at most 16
}

// Kind says what a poll asks for: "read", "sweep" or "account".
func (p Poll) Kind() string {
	switch {
	case p.Account:
		return "account"
	case p.ID == "":
		return "sweep"
	}
	return "read"
}

// Outcome is the result of a poll.
type Outcome struct {
	Err     error
	State   catalog.State // found by a read of one generation; 0: none
	Changes []Change
}

// Change is a new state of a generation that was polled before.
type Change struct {
	State catalog.State
	// Delay is how long the state went undetected, as the schedule expects from the history of the
	// model and the time of the last poll.
	Delay time.Duration
}

// maxRefs is how many trace references of a kind one poll carries. A reader gets from each of them to the
// others by a link or two.
const maxRefs = 16

// Sighting is a state of a generation that this process has seen.
type Sighting struct {
	Credential catalog.Credential
	catalog.Version
	// NotFound means that reads alone say that the generation is gone, and have said so for long enough.
	NotFound bool
}
