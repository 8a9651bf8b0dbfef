package watch

import (
	"slices"
	"strings"
	"time"
)

// join adds a watch; mu is held.
func (p *poller) join(s *subscription, req *Request, now time.Time) {
	p.enrol(s, 1)
	s.items = make([]item, 0, len(req.IDs))
	for _, id := range req.IDs {
		e := p.watchable(id, now)
		if n := len(e.subs); n > 0 && e.subs[n-1].sub == s {
			continue // named twice
		}
		p.attach(s, e, now)
	}
	switch {
	case s.everything:
		p.all = append(p.all, s)
		p.stir()
		p.wakeBy(now)
	case req.KnownEtag != "" && len(s.items) == 1:
		s.items[0].told = req.KnownEtag
		s.items[0].flags |= known
	}
}

// enrol counts a watch in or out; mu is held.
func (p *poller) enrol(s *subscription, by int) {
	p.open += by
	if s.trace != nil {
		p.marked += by
	}
}

// watchable finds or makes the entry of id; mu is held.
func (p *poller) watchable(id string, now time.Time) *entry {
	e := p.entries[id]
	if e == nil {
		e = newEntry(id, now, p.hub.cfg.Seed)
		p.entries[id] = e
		p.leaveAlone(e, now)
		p.remember(e, now)
		at, _ := slices.BinarySearchFunc(p.order, id, func(e *entry, id string) int { return strings.Compare(e.id, id) })
		p.order = slices.Insert(p.order, at, e)
	}
	return e
}

// attach adds one entry to a watch, and gives its place there; mu is held.
func (p *poller) attach(s *subscription, e *entry, now time.Time) (at int32) {
	p.stir()
	if (len(e.subs) == 0 || e.denied()) && p.stale(e, now) {
		e.fresh, e.due = false, now
	}
	it := item{e: e, back: int32(len(e.subs))} //nolint:gosec // there is memory for fewer watches
	if !s.everything || !s.listed {
		it.flags = pending // not what came later
		s.pending++
	}
	at = s.place(it)
	e.subs = append(e.subs, ref{s, at})
	s.open++
	if e.fresh {
		s.mark(at)
	}
	p.await(e, now)
	p.wakeBy(e.due)
	return at
}

// place puts an item into a watch.
func (s *subscription) place(it item) (at int32) {
	if n := len(s.free); n > 0 {
		at = s.free[n-1]
		s.free = s.free[:n-1]
		s.items[at] = it
		return at
	}
	s.items = append(s.items, it)
	return int32(len(s.items) - 1) //nolint:gosec // there is memory for fewer generations
}

// vacate frees a place. Only a watch whose renders change will need it again.
func (s *subscription) vacate(at int32) {
	if s.relays || s.everything {
		s.free = append(s.free, at)
	}
}

// stale reports whether a state that nobody has kept up to date must be read again
// before it is told. One that can't change any more need not; a 404 is no end of that kind.
func (p *poller) stale(e *entry, now time.Time) bool {
	over := e.reached(Settled, now, p.hub.cfg.RefundWindow) && !e.denied()
	return !over && !p.recalled(e, now) && now.Sub(e.state.ObserveTime) >= p.hub.cfg.MinInterval
}

// detach takes one entry out of a watch; mu is held.
func (p *poller) detach(s *subscription, at int32, now time.Time) {
	it := &s.items[at]
	e := it.e
	last := len(e.subs) - 1
	e.subs[it.back] = e.subs[last]
	moved := e.subs[it.back]
	moved.sub.items[moved.at].back = it.back
	e.subs[last] = ref{}
	e.subs = e.subs[:last]
	it.e = nil
	s.settled(it)
	s.open--
	if s.relays {
		e.sharing.at[s.goal] = -1
	}
	if it.flags&pending != 0 {
		it.flags &^= pending
		s.pending--
	}
	if it.flags&dirty == 0 { // else its place still stands in the queue
		s.vacate(at)
	}
	if len(e.subs) == 0 {
		e.renew() // nobody is told any more
		p.leaveAlone(e, now)
	}
}

// leave takes a watch out; mu is held.
func (p *poller) leave(s *subscription, now time.Time) {
	p.enrol(s, -1)
	p.uncover(s, now)
}

// uncover ends all that a watch covers, of a caller or of peers; mu is held.
func (p *poller) uncover(s *subscription, now time.Time) {
	p.stir()
	p.all = slices.DeleteFunc(p.all, func(one *subscription) bool { return one == s })
	for at := range s.items {
		if s.items[at].e != nil {
			p.detach(s, int32(at), now) //nolint:gosec // see place
		}
	}
	p.wakeBy(now.Add(linger))
}
