package watch

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

const defaultHeartbeat = 15 * time.Second

// subscription is one open watch. All but req and signal is guarded by the hub's
// mutex.
type subscription struct {
	hub    *Hub
	poller *poller
	req    Request
	signal chan struct{} // of capacity 1: there is something to take

	dirty    map[string]struct{} // changed since they were told
	told     map[string]string   // etag that was told last, by id
	pending  map[string]struct{} // of the first set, not introduced yet
	open     map[string]struct{} // goal not reached
	settling map[string]struct{} // told as failed, and the refund may still come
	listed   bool                // the first list has come; always true with named ids
	caughtUp bool
	err      error
}

// subscribe joins before anything is read, so that no change falls between.
func (h *Hub) subscribe(req Request) *subscription {
	if req.Heartbeat == 0 {
		req.Heartbeat = defaultHeartbeat
	}
	if len(req.IDs) == 0 {
		req.Goal = Settled // a watch of everything has no goal, but money is followed to its end
	}
	s := &subscription{
		hub: h, req: req, signal: make(chan struct{}, 1),
		dirty: map[string]struct{}{}, told: map[string]string{}, pending: map[string]struct{}{},
		open: map[string]struct{}{}, settling: map[string]struct{}{}, listed: len(req.IDs) > 0,
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s.poller = h.poller(req.Credential)
	s.poller.join(s, time.Now())
	return s
}

func (s *subscription) close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.poller.leave(s, time.Now())
}

// mark notes a change of id and wakes the watch; mu is held.
func (s *subscription) mark(id string) {
	s.dirty[id] = struct{}{}
	s.wake()
}

// fail ends the watch with err; mu is held.
func (s *subscription) fail(err error) {
	s.err = err
	s.wake()
}

func (s *subscription) wake() {
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

// run yields events until the goal is reached, the watch fails, or ctx ends.
func (s *subscription) run(ctx context.Context, yield func(Event, error) bool) {
	beat := time.NewTimer(s.req.Heartbeat)
	defer beat.Stop()
	settle := time.NewTimer(0)
	defer settle.Stop()
	for {
		batch := s.take(time.Now())
		for _, event := range batch.events {
			if !yield(event, nil) {
				return
			}
			beat.Reset(s.req.Heartbeat)
		}
		if batch.err != nil {
			yield(Event{}, batch.err)
			return
		}
		if batch.done {
			return
		}
		settle.Stop()
		if !batch.settles.IsZero() {
			settle.Reset(time.Until(batch.settles))
		}
		select {
		case <-s.signal:
		case <-settle.C:
		case <-beat.C:
			heartbeat := s.heartbeat(time.Now())
			if !yield(Event{Heartbeat: &heartbeat}, nil) {
				return
			}
			beat.Reset(s.req.Heartbeat)
		case <-ctx.Done():
			yield(Event{}, context.Cause(ctx))
			return
		}
	}
}

// batch is what there is to tell.
type batch struct {
	events  []Event
	settles time.Time // when to look again although nothing changes; zero: never
	done    bool
	err     error
}

// take collects what changed since the last time. Only the newest state of each
// generation is in it.
func (s *subscription) take(now time.Time) batch {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	var b batch
	// In order of ids, so that a run can be repeated.
	for _, id := range slices.Sorted(maps.Keys(s.dirty)) {
		if e := s.poller.entries[id]; e != nil && e.fresh {
			b.add(s.tell(e, now))
		}
	}
	clear(s.dirty)
	if !s.caughtUp && s.listed && len(s.pending) == 0 {
		s.caughtUp = true
		b.add(Event{CaughtUp: &CaughtUp{Count: len(s.told)}}, true)
	}
	b.settles = s.settle(now)
	b.done = len(s.req.IDs) > 0 && len(s.open) == 0
	b.err = s.err
	return b
}

func (b *batch) add(event Event, ok bool) {
	if ok {
		b.events = append(b.events, event)
	}
}

// tell makes the event of one entry, and notes what the watcher knows then.
func (s *subscription) tell(e *entry, now time.Time) (Event, bool) {
	known, introduced := s.told[e.id]
	_, initial := s.pending[e.id]
	delete(s.pending, e.id)
	s.told[e.id] = e.etag
	s.conclude(e, now)
	switch {
	case introduced && known == e.etag && initial:
		heartbeat, known := s.poller.heartbeat(e, now), e.update()
		return Event{Heartbeat: &heartbeat, Known: &known}, true
	case introduced && known == e.etag:
		return Event{}, false
	}
	update := e.update()
	update.Initial = initial
	return Event{Update: &update}, true
}

// conclude notes whether the goal of one entry is reached. An entry whose goal is
// reached is no longer watched by this watch.
func (s *subscription) conclude(e *entry, now time.Time) {
	switch {
	case len(s.req.IDs) == 0: // it goes on, and hears of refunds and deletions
	case e.reached(s.req.Goal, now, s.hub.cfg.RefundWindow):
		delete(s.open, e.id)
		delete(s.settling, e.id)
		s.poller.detach(s, e, now)
	case e.state.State == catalog.StateFailed:
		s.settling[e.id] = struct{}{}
	}
}

// settle closes the entries whose refund window is over, and says when the next one is.
func (s *subscription) settle(now time.Time) (next time.Time) {
	for id := range s.settling {
		e := s.poller.entries[id]
		if e == nil {
			continue
		}
		s.conclude(e, now)
		if _, still := s.settling[id]; !still {
			continue
		}
		if at := e.settles(s.hub.cfg.RefundWindow); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// heartbeat says why the watch is quiet.
func (s *subscription) heartbeat(now time.Time) Heartbeat {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if len(s.req.IDs) == 1 {
		if e := s.poller.entries[s.req.IDs[0]]; e != nil {
			return s.poller.heartbeat(e, now)
		}
	}
	return s.poller.overview(s, now)
}
