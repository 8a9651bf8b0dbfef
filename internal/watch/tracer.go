package watch

import (
	"context"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// Tracer records traces and metrics of the hub. Its methods are called concurrently, but never while a lock of the hub is held.
// So a slow method delays only one request or one delivery.
type Tracer interface {
	// TraceRef returns a reference to the trace of ctx, for links in other spans. It returns nil if that trace is not recorded.
	TraceRef(ctx context.Context) TraceRef
	// PollBegins is called before a poll. It returns the context for the request, a reference to the trace of the poll, and a
	// function. The hub calls this function once, after it has applied the response.
	PollBegins(ctx context.Context, poll Poll) (_ context.Context, found TraceRef, ended func(Outcome))
	// Delivery is called before an event is delivered to a watcher. ctx is the context of the watch. watchTrace refers to the
	// trace of the watch, and changeTrace refers to the trace of the poll or call that found the change. Each is nil if its
	// trace is not recorded. If the returned function is not nil, the hub calls it after the delivery.
	Delivery(ctx context.Context, watchTrace TraceRef, event Event, changeTrace TraceRef) (delivered func())
}

// noTracer does nothing.
type noTracer struct{}

func (noTracer) TraceRef(context.Context) TraceRef { return nil }

func (noTracer) PollBegins(ctx context.Context, _ Poll) (context.Context, TraceRef, func(Outcome)) {
	return ctx, nil, func(Outcome) {}
}

func (noTracer) Delivery(context.Context, TraceRef, Event, TraceRef) func() { return nil }

// TraceRef is a tracer's reference to a trace. The hub does not interpret it.
type TraceRef any

// Poll describes one request of a poller.
type Poll struct {
	Tenant      catalog.Tenant
	ID          string     // ID of the generation that is read; empty if the request reads the list or the account
	Account     bool       // whether the request reads the account
	Generations int        // number of polled generations
	Watches     int        // sum of the watch counts of the polled generations
	Orders      []TraceRef // traces of the calls that ordered the generations, at most 16
	Open        []TraceRef // traces of the watches, at most 16
}

// Kind returns the kind of the request: "read" (of one generation), "sweep" (of the list) or "account".
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
	State   catalog.State // state from a read of one generation; zero for any other poll, and after a failure
	Changes []Change
}

// Change is a change of a generation's state that a poll has detected.
type Change struct {
	State catalog.State
	// Delay is the time between the change and its detection, estimated from the history of the model and the time of the last
	// poll.
	Delay time.Duration
}

// maxRefs is the maximum number of trace references of one kind in a [Poll]. A watch whose reference is left out can still be
// found, because its deliveries refer to the poll: see [Tracer.Delivery].
const maxRefs = 16
