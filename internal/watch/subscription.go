package watch

import (
	"context"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

const defaultHeartbeat = 15 * time.Second

// subscription is what an open watch covers, and what of it was told. There may be a hundred
// thousand of them, so nothing of the request is kept that is not needed any more. All but the
// first lines is guarded by the hub's mutex.
type subscription struct {
	hub        *Hub
	poller     *poller
	heartbeat  time.Duration // longest silence
	goal       Goal
	everything bool // it is of all that the catalog lists
	single     bool // it is of one render

	caller bool          // it is of a caller; else it stands for peers
	signal chan struct{} // of capacity 1: there is something to take
	quiet  time.Time     // there is a heartbeat then, if nothing was told before
	until  time.Time     // it ends then; zero: never

	items    []item
	free     []int32 // places in items that are empty
	dirty    []int32 // places whose entry changed since it was told
	open     int     // goals not reached
	pending  int     // of the first set, not introduced yet
	settling int     // told as failed, and the refund may still come
	shown    int     // introduced
	relays   bool    // it stands for what peers wait for: see Part
	listed   bool    // the first list has come; always true with named ids
	caughtUp bool
	ending   bool // err was seen: it is told what is owed, and no more
	owed     int32
	err      error
	trace    Mark  // of the watch
	polled   int64 // number of the last poll that carries it
}

// item is what a watch remembers of one generation: a few words, as there may be a
// thousand in a watch.
type item struct {
	e     *entry // nil: the goal is reached
	told  string // etag that was told last
	back  int32  // place in e.subs
	flags flags
}

type flags uint8

const (
	dirty    flags = 1 << iota // it stands in subscription.dirty
	pending                    // its first state was not told yet
	known                      // told means something
	settling                   // it was told as failed, and the refund may still come
)

// subscription makes what a watch begins with.
func (h *Hub) subscription(ctx context.Context, req *Request) *subscription {
	if req.Heartbeat <= 0 {
		req.Heartbeat = defaultHeartbeat
	}
	everything := len(req.IDs) == 0
	if everything {
		req.Goal = Settled // a watch of everything has no goal, but money is followed to its end
	}
	return &subscription{
		hub: h, caller: true, signal: make(chan struct{}, 1), heartbeat: req.Heartbeat, goal: req.Goal, everything: everything, single: len(req.IDs) == 1,
		quiet: time.Now().Add(req.Heartbeat), until: req.Until, listed: !everything, trace: h.mark(ctx),
	}
}

// subscribe joins before anything is read, so that no change falls between.
func (s *subscription) subscribe(req *Request) {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	s.poller = h.poller(req.Credential)
	s.poller.join(s, req, time.Now())
	if h.drained {
		s.drain()
	}
}

func (s *subscription) close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.poller.leave(s, time.Now())
}

// mark notes a change of the entry at a place and wakes the watch; mu is held.
func (s *subscription) mark(at int32) {
	it := &s.items[at]
	if it.flags&dirty != 0 {
		s.hub.stats.Conflated++
	} else {
		it.flags |= dirty
		s.dirty = append(s.dirty, at)
	}
	s.wake()
}

// fail ends the watch with err; mu is held.
func (s *subscription) fail(err error) {
	s.err = err
	s.wake()
}

// drain ends a watch of a caller, as nobody is served here any more; mu is held.
func (s *subscription) drain() {
	if s.caller && s.err == nil {
		s.fail(ErrDraining)
	}
}

func (s *subscription) wake() {
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

// run delivers events until the watch is over, and returns why: nil is its goal.
func (s *subscription) run(ctx context.Context, deliver func(Event) error) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next, over, err := s.turn(ctx, deliver)
		if over || err != nil {
			return err
		}
		timer.Reset(time.Until(next))
		select {
		case <-s.signal:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// turn delivers all that there is to tell. It returns the time of the next turn, if no news
// comes before, or that the goal is reached.
func (s *subscription) turn(ctx context.Context, deliver func(Event) error) (next time.Time, over bool, err error) {
	for {
		now := time.Now()
		step := s.next(now)
		switch {
		case step.event != nil:
		case step.err != nil || step.done:
			return next, step.done, step.err
		case now.Before(s.quiet):
			return earliest(earliest(step.settles, s.quiet), s.until), false, nil
		default:
			heartbeat := s.beat(now)
			step.event = &Event{Heartbeat: &heartbeat}
		}
		if err := s.hand(ctx, *step.event, step.found, deliver); err != nil {
			return next, false, err
		}
		s.quiet = time.Now().Add(s.heartbeat)
	}
}

// hand delivers an event, between what the observer does before and after.
func (s *subscription) hand(ctx context.Context, event Event, found Mark, deliver func(Event) error) error {
	if s.hub.cfg.Observer == nil {
		return deliver(event)
	}
	told := s.hub.cfg.Observer.Telling(ctx, s.trace, event, found)
	err := deliver(event)
	if told != nil {
		told()
	}
	return err
}

// step is what a watch does next: tell an event, or end, or wait.
type step struct {
	event   *Event
	found   Mark      // of what has found it
	settles time.Time // when to look again although nothing changes; zero: never
	done    bool
	err     error
}

// next takes the next thing to tell. It is made when it is taken, so that a watch which
// was held up tells the newest state of each generation and skips what came between.
func (s *subscription) next(now time.Time) step {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.age(now)
	for len(s.dirty) > 0 {
		if s.ending && s.owed == 0 {
			return step{err: s.err}
		}
		at := s.dirty[0]
		s.dirty, s.owed = s.dirty[1:], s.owed-1
		s.items[at].flags &^= dirty
		if s.items[at].e == nil {
			s.vacate(at)
			continue
		}
		found := s.items[at].e.found
		if event := s.tell(at, now); event != nil {
			return step{event: event, found: found}
		}
	}
	s.dirty = nil
	if !s.caughtUp && s.listed && s.pending == 0 {
		s.caughtUp = true
		return step{event: &Event{CaughtUp: &CaughtUp{Count: s.shown}}}
	}
	settles := s.settle(now)
	if !s.everything && s.open == 0 {
		return step{done: true}
	}
	return step{settles: settles, err: s.err}
}

// age ends the watch when its time is over. A watch that ends is told what has changed before, and
// not what changes meanwhile: a slow watcher of what always changes would never hear of the end. mu
// is held.
func (s *subscription) age(now time.Time) {
	if s.err == nil && !s.until.IsZero() && !now.Before(s.until) {
		s.err = ErrExpired
	}
	if s.err != nil && !s.ending {
		s.ending, s.owed = true, int32(len(s.dirty)) //nolint:gosec // a place each
	}
}

// tell makes the event of one entry, and notes what the watcher knows then. It gives nil
// where that is nothing new.
func (s *subscription) tell(at int32, now time.Time) *Event {
	it := &s.items[at]
	e := it.e
	if !e.fresh {
		return nil
	}
	initial, same := it.flags&pending != 0, it.flags&known != 0 && it.told == e.etag
	if initial {
		s.pending--
		s.shown++
	}
	it.told, it.flags = e.etag, it.flags&^pending|known
	shared := e.shared(initial)
	s.conclude(at, now)
	switch {
	case same && initial:
		heartbeat := s.poller.heartbeat(e, now)
		return &Event{Heartbeat: &heartbeat, Known: shared}
	case same:
		return nil
	}
	return &Event{Update: shared}
}

// conclude notes whether the goal of one entry is reached. An entry whose goal is
// reached is no longer watched by this watch.
func (s *subscription) conclude(at int32, now time.Time) {
	it := &s.items[at]
	e := it.e
	switch {
	case s.everything: // it goes on, and hears of refunds and deletions
	case e.reached(s.goal, now, s.hub.cfg.RefundWindow):
		s.poller.detach(s, at, now)
	case e.state.State == catalog.StateFailed && it.flags&settling == 0:
		it.flags |= settling
		s.settling++
	}
}

// settled notes that a refund has come, or can't come any more.
func (s *subscription) settled(it *item) {
	if it.flags&settling != 0 {
		it.flags &^= settling
		s.settling--
	}
}

// settle closes the entries whose refund window is over, and says when the next one is.
func (s *subscription) settle(now time.Time) (next time.Time) {
	if s.settling == 0 {
		return next
	}
	for at := range s.items {
		it := &s.items[at]
		if it.flags&settling == 0 {
			continue
		}
		s.conclude(int32(at), now)
		if it.flags&settling != 0 {
			next = earliest(next, it.e.settles(s.hub.cfg.RefundWindow))
		}
	}
	return next
}

// beat says why the watch is quiet.
func (s *subscription) beat(now time.Time) Heartbeat {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if s.single && s.items[0].e != nil {
		return s.poller.heartbeat(s.items[0].e, now)
	}
	return s.poller.overview(s, now)
}
