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
	// Mark gives what stands for the trace of ctx in the spans of others. It is nil where
	// that trace is not recorded.
	Mark(ctx context.Context) Mark
	// Polling begins a poll. The context that it gives is that of the request; the mark
	// stands for the poll in what it finds; ended is called once, when what came back was
	// taken in.
	Polling(ctx context.Context, poll Poll) (_ context.Context, found Mark, ended func(Outcome))
	// Telling begins a message to a watcher whose context is ctx. watching is the mark of that
	// context, and found stands for the poll or the call that found what is told; each is nil
	// where that is not recorded. told is called when the watcher has taken the message; it
	// may be nil.
	Telling(ctx context.Context, watching Mark, event Event, found Mark) (told func())
}

// Mark is an observer's own token: the hub keeps it, hands it on and never looks into it.
type Mark any

// Poll is one request of a poller.
type Poll struct {
	Tenant      catalog.Tenant
	ID          string // "" is a sweep
	Generations int    // that it stands for
	Watches     int    // of those; one of many counts for each of them
	Orders      []Mark // of calls that placed them, at most 16
	Open        []Mark // of watches, at most 16
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

// mostMarks is how many marks of a kind one poll carries: a click or two lead from any of
// them to the others.
const mostMarks = 16

// look is an answer that is being taken in, whoever has asked for it.
type look struct {
	mark    Mark
	changes []Change
}

// mark gives the mark of a context.
func (h *Hub) mark(ctx context.Context) Mark {
	if h.cfg.Observer == nil {
		return nil
	}
	return h.cfg.Observer.Mark(ctx)
}

// polling begins a poll for the observer.
func (h *Hub) polling(ctx context.Context, poll Poll) (context.Context, *look, func(Outcome)) {
	if h.cfg.Observer == nil {
		return ctx, &look{}, func(Outcome) {}
	}
	ctx, mark, ended := h.cfg.Observer.Polling(ctx, poll)
	return ctx, &look{mark: mark}, ended
}

// serve adds an entry to what a poll stands for; mu is held.
func (p *poller) serve(j *job, e *entry, now time.Time) {
	p.hub.stats.Unshared += e.unshared(now, p.introduced())
	j.Generations++
	j.Watches += len(e.subs)
	if e.order != nil && len(j.Orders) < mostMarks {
		j.Orders = append(j.Orders, e.order)
	}
	for i := 0; p.marked > 0 && i < len(e.subs) && len(j.Open) < mostMarks; i++ {
		s := e.subs[i].sub
		if s.trace != nil && s.polled != j.number {
			s.polled = j.number // a watch of many is named once
			j.Open = append(j.Open, s.trace)
		}
	}
}

// unshared is how many requests the watches of an entry would have made since the last look,
// had each polled for itself by the same schedule. Those of everything would ask the list.
func (e *entry) unshared(now time.Time, everything int) float64 {
	watches := float64(len(e.subs))
	if !e.listed.IsZero() {
		watches = max(0, watches-float64(everything))
	}
	if e.gap <= 0 || !e.fresh {
		return watches
	}
	return watches * min(1, now.Sub(e.state.ObserveTime).Seconds()/e.gap.Seconds())
}

// introduced is how many watches of everything have had their first list.
func (p *poller) introduced() (n int) {
	for _, s := range p.all {
		if s.listed {
			n++
		}
	}
	return n
}

// note notes a state that is new. How long it went unseen is what the schedule expects; where
// the schedule has no opinion, any moment since the last look is as likely.
func (p *poller) note(l *look, e *entry, before, now catalog.Generation) {
	if before.State == 0 || before.State == now.State {
		return
	}
	delay := now.ObserveTime.Sub(before.ObserveTime) / 2
	if !before.State.Terminal() && (now.State == catalog.StateSucceeded || now.State == catalog.StateFailed) {
		birth := e.birth()
		delay = p.hub.history.last(p.historyOf(e)).delay(before.ObserveTime.Sub(birth), now.ObserveTime.Sub(birth))
	}
	l.changes = append(l.changes, Change{State: now.State, Delay: delay})
}
