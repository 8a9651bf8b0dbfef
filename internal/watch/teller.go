package watch

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// teller tells watches, one after the other, on one goroutine. To wake ten thousand goroutines
// for a change costs more than what they say: 21 instead of 14 µs of CPU a watch, where each
// message has a span (the bench's push-cpu). A watch is told by a teller for as long as its Quick
// says that this can't hold up others; then it goes on on its own goroutine.
//
// To take it out, let Watch run every watch by itself.
type teller struct {
	hub   *Hub
	queue []*push       // guarded by the hub's mutex
	wake  chan struct{} // of capacity 1: there is something in the queue
}

// push is a watch that a teller tells.
type push struct {
	*subscription
	ctx    context.Context
	yield  func(Event, error) bool
	teller *teller
	queued bool // guarded by the hub's mutex
	over   chan struct{}

	turns    sync.Mutex  // held while it is told: who leaves waits
	timer    *time.Timer // of the next heartbeat, or the end of a refund window
	armed    time.Time   // when the timer ends
	left     bool        // it is told no more
	slow     bool        // by a teller
	panicked error
}

// teller finds or starts the teller of a lane; mu is held.
func (h *Hub) teller(lane uint64) *teller {
	if h.tellers == nil {
		h.tellers = make([]*teller, runtime.GOMAXPROCS(0))
	}
	at := lane % uint64(len(h.tellers))
	if h.tellers[at] == nil {
		h.tellers[at] = &teller{hub: h, wake: make(chan struct{}, 1)}
		if !h.closed {
			h.work.Go(h.tellers[at].run)
		}
	}
	return h.tellers[at]
}

// endsAtOnce is how many watches a teller ends before it lets others do their work: what is told
// has to be written, too.
const endsAtOnce = 16

// run tells all that are in the queue, and then ends those that have nothing more to be told:
// the end of a render reaches everybody before they make work by leaving.
func (t *teller) run() {
	var over []*push
	for {
		for _, p := range t.collect() {
			if p.take() {
				over = append(over, p)
			}
		}
		if len(over) > 0 {
			runtime.Gosched()
			over = end(over)
			continue
		}
		select {
		case <-t.wake:
		case <-t.hub.ctx.Done():
			return
		}
	}
}

// end ends a few watches, and gives those that are left.
func end(over []*push) []*push {
	some := over[:min(len(over), endsAtOnce)]
	for _, p := range some {
		close(p.over)
	}
	clear(some)
	return over[len(some):]
}

// collect empties the queue.
func (t *teller) collect() []*push {
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	all := t.queue
	t.queue = nil
	for _, p := range all {
		p.queued = false
	}
	return all
}

// pushed has a teller tell the watch until it ends, or until that might hold up others: then
// it reports that the watch has to go on by itself.
func (s *subscription) pushed(ctx context.Context, yield func(Event, error) bool) (slow bool) {
	p := &push{subscription: s, ctx: ctx, yield: yield, over: make(chan struct{}), armed: s.quiet}
	s.begin(p)
	defer p.timer.Stop()
	select {
	case <-p.over:
	case <-ctx.Done():
	}
	p.turns.Lock()
	ended := p.left
	p.left = true
	p.turns.Unlock()
	s.begin(nil)
	switch {
	case p.panicked != nil:
		panic(p.panicked)
	case !ended:
		yield(Event{}, context.Cause(ctx))
	}
	return p.slow
}

// begin gives the watch to a teller, or takes it back.
func (s *subscription) begin(p *push) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.push = p
	if p != nil {
		p.teller = s.hub.teller(s.req.Lane)
		p.timer = time.AfterFunc(s.req.Heartbeat, p.again) // not sooner: it needs the teller
		p.enqueue()
	}
}

// again puts the watch into the queue, as its time has come.
func (p *push) again() {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	p.enqueue()
}

// enqueue puts the watch into the queue; mu is held.
func (p *push) enqueue() {
	if p.queued {
		return
	}
	p.queued = true
	p.teller.queue = append(p.teller.queue, p)
	if len(p.teller.queue) > 1 {
		return // somebody has woken it
	}
	select {
	case p.teller.wake <- struct{}{}:
	default:
	}
}

// arm sees to it that the watch has a turn at next. A timer that ends before is let be: most
// changes come before a heartbeat, and to move the timer for each costs a tenth of telling it.
func (p *push) arm(next time.Time) {
	now := time.Now()
	if p.armed.After(now) && !next.Before(p.armed) {
		return
	}
	p.armed = next
	p.timer.Reset(next.Sub(now))
}

// take takes a turn of the watch. It reports whether that was the last.
func (p *push) take() (last bool) {
	p.turns.Lock()
	defer p.turns.Unlock()
	if p.left {
		return false
	}
	defer func() {
		if value := recover(); value != nil { // it is the call's, not the teller's
			p.left, p.panicked, last = true, fmt.Errorf("%v\n%s", value, debug.Stack()), true
		}
	}()
	next, over := p.turn(p.ctx, p.yield, p.req.Quick)
	switch {
	case over:
		p.left = true
	case next.IsZero():
		p.left, p.slow = true, true
	default:
		p.arm(next)
	}
	return p.left
}
