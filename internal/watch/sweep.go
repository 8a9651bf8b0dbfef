package watch

import (
	"cmp"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// join adds a watch; mu is held.
func (p *poller) join(s *subscription, now time.Time) {
	for _, id := range s.req.IDs {
		p.attach(s, p.watchable(id, now), now)
		if s.req.KnownEtag != "" {
			s.told[id] = s.req.KnownEtag
		}
	}
	if len(s.req.IDs) == 0 {
		p.all[s] = struct{}{}
		p.nextSweep = now
	}
	p.nudge()
}

// watchable finds or makes the entry of id; mu is held.
func (p *poller) watchable(id string, now time.Time) *entry {
	e := p.entries[id]
	if e == nil {
		e = newEntry(id, now)
		p.entries[id] = e
	}
	return e
}

// attach adds one entry to a watch; mu is held.
func (p *poller) attach(s *subscription, e *entry, now time.Time) {
	if len(e.subs) == 0 && p.stale(e, now) {
		e.fresh, e.due = false, now
	}
	e.subs[s] = struct{}{}
	s.pending[e.id] = struct{}{}
	s.open[e.id] = struct{}{}
	if e.fresh {
		s.mark(e.id)
	}
}

// stale reports whether a state that nobody has kept up to date must be read again
// before it is told. One that can't change any more need not.
func (p *poller) stale(e *entry, now time.Time) bool {
	if e.state.State == catalog.StateDeleted {
		return !e.deleted
	}
	return now.Sub(e.state.ObserveTime) >= p.hub.cfg.MinInterval && !e.reached(Settled, now, p.hub.cfg.RefundWindow)
}

// detach takes one entry out of a watch; mu is held.
func (p *poller) detach(s *subscription, e *entry, now time.Time) {
	delete(e.subs, s)
	if len(e.subs) == 0 {
		e.idle = now
	}
}

// leave takes a watch out; mu is held.
func (p *poller) leave(s *subscription, now time.Time) {
	delete(p.all, s)
	for id := range s.open {
		if e := p.entries[id]; e != nil {
			p.detach(s, e, now)
		}
	}
	p.nudge()
}

// swept takes in the answer to a sweep.
func (p *poller) swept(list []catalog.Generation, err error) {
	h := p.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	defer p.nudge()
	now := time.Now()
	p.sweeping = false
	p.nextSweep = now.Add(p.jitter(p.pace(now)))
	asked := p.release()
	if err != nil {
		p.unlisted(asked, err, now)
		return
	}
	p.succeeded(now)
	p.discover(list, now)
	carried := p.takeIn(list, now)
	found := 0
	for _, e := range asked {
		if carried[e.id] {
			found++
			continue
		}
		e.alone, e.due = true, now
	}
	p.judge(found, len(asked), now)
}

// pace is the time between two sweeps for a watch of everything: shorter while there
// is something to wait for.
func (p *poller) pace(now time.Time) time.Duration {
	pace := max(p.hub.cfg.MaxInterval/2, p.hub.cfg.MinInterval)
	for _, e := range p.entries {
		if e.wanted(now, p.hub.cfg.RefundWindow) {
			pace = min(pace, interval(now.Sub(e.birth()), p.hub.cfg.MinInterval, p.hub.cfg.MaxInterval))
		}
	}
	return pace
}

// release gives back the entries that the sweep stood for.
func (p *poller) release() []*entry {
	var asked []*entry
	for _, e := range p.entries {
		if e.swept {
			e.busy, e.swept = false, false
			asked = append(asked, e)
		}
	}
	slices.SortFunc(asked, func(a, b *entry) int { return cmp.Compare(a.id, b.id) })
	return asked
}

// unlisted takes in a failed sweep. A list that fails by itself is left alone, and the
// entries are read one by one.
func (p *poller) unlisted(asked []*entry, err error, now time.Time) {
	p.failed(err, now)
	p.nextSweep = now.Add(p.jitter(backoff(p.failures, p.hub.cfg.MinInterval, calm)))
	p.judge(0, 1, now)
	for _, e := range asked {
		e.failures++
		e.lastErr = err.Error()
		e.due = now.Add(p.jitter(p.hub.cfg.MinInterval))
	}
}

// discover adds what the list shows to the watches of everything.
func (p *poller) discover(list []catalog.Generation, now time.Time) {
	for s := range p.all {
		for _, g := range list {
			p.include(s, p.watchable(g.ID, now), now)
		}
		s.listed = true
		s.wake()
	}
}

// include adds an entry to a watch of everything, unless it has been told already.
func (p *poller) include(s *subscription, e *entry, now time.Time) {
	_, open := s.open[e.id]
	if _, told := s.told[e.id]; told || open {
		return
	}
	p.attach(s, e, now)
	if s.listed {
		delete(s.pending, e.id) // it came later: not an initial state
	}
}

// takeIn takes in the records of a list, and says which ids it carried. A record that
// may say less than a read is only a hint to read.
func (p *poller) takeIn(list []catalog.Generation, now time.Time) map[string]bool {
	carried := make(map[string]bool, len(list))
	for _, g := range list {
		e := p.entries[g.ID]
		if e == nil || carried[g.ID] {
			continue
		}
		carried[g.ID] = true
		etag := g.Etag()
		same := e.fresh && e.state.State == g.State && (e.listEtag == "" || e.listEtag == etag)
		switch {
		case same:
			e.state.ObserveTime = g.ObserveTime
			p.again(e, now)
		case whole(g) && (!e.fresh || p.listWhole):
			p.apply(e, g)
			p.again(e, now)
		default:
			e.alone, e.due, e.hint = true, now, &g
		}
		e.listEtag = etag
	}
	return carried
}

// whole reports whether a list's record has what a caller waits for.
func whole(g catalog.Generation) bool {
	switch g.State {
	case catalog.StateSucceeded:
		return g.File != nil || g.Text != nil
	case catalog.StateFailed, catalog.StateRefunded:
		return g.FailureMessage != ""
	}
	return true
}

// judge learns whether the list is worth its call: one that carries less than half of
// what is asked for, twice in a row, is left alone for a while.
func (p *poller) judge(found, asked int, now time.Time) {
	if found*2 >= asked {
		p.listBad = 0
		return
	}
	if p.listBad++; p.listBad >= 2 {
		p.listBad, p.listRests = 0, now.Add(listRest)
	}
}
