package watch

import (
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// forget is how long a settled render that the list no longer carries stays in the watches
// of everything.
const forget = 5 * time.Minute

// list is what was learned of the catalog's list.
type list struct {
	rests time.Time // it does not stand for reads before
	retry time.Time // it is not asked before, after it failed
	down  bool      // it failed, and no read has shown yet whether only the list does
	fails int       // sweeps in a row that failed
	poor  int       // sweeps in a row that carried too little, or failed by themselves
	whole bool      // its records are as full as a read's, as far as seen
	hints bool      // there may be some of it that wait for a read
}

// usable reports whether a sweep may stand for reads.
func (l *list) usable(now time.Time) bool {
	return !l.down && !now.Before(l.rests) && !now.Before(l.retry)
}

// judge notes whether a sweep was worth its call. A list that is not, twice in a row, is
// left alone for a while.
func (l *list) judge(good bool, now time.Time) {
	if good {
		l.poor = 0
		return
	}
	if l.poor++; l.poor >= 2 {
		l.poor, l.rests = 0, now.Add(listRest)
	}
}

// unique takes out of a list what names a render again.
func unique(list []catalog.Listed) []catalog.Listed {
	seen := make(map[string]bool, len(list))
	return slices.DeleteFunc(list, func(r catalog.Listed) bool {
		again := seen[r.ID]
		seen[r.ID] = true
		return again
	})
}

// divide says whether one list call is made now, and leaves the rest to reads. A sweep is
// worth it for a watch of everything, and for as many renders as a few reads serve.
func (p *poller) divide(d *demand, now time.Time) (sweep bool) {
	p.sweepAt = time.Time{}
	until, spared := p.listSpared(now)
	if len(p.all) > 0 && !p.unintroduced() && spared {
		d.soonest = earliest(d.soonest, until)
	}
	if (len(p.all) == 0 || spared && !p.unintroduced()) && len(d.listable) < sweepFrom {
		for _, e := range d.listable {
			d.alone(e, now)
		}
		return false
	}
	at, first := p.nextSweep(d.listable, now)
	slow := p.sweptAt.Add(p.hub.cfg.MinInterval) // a list call that takes longer holds nobody up
	switch {
	case p.sweeping && now.Before(slow):
		d.soonest = earliest(d.soonest, slow)
	case p.sweeping, len(first) < sweepFrom && !p.unintroduced():
		for _, e := range first {
			d.read(e) // a few are not worth a sweep out of turn
		}
	default:
		at = earlier(at, p.sweptAt.Add(p.hub.cfg.MinInterval/2))
	}
	if p.sweeping {
		return false // its answer plans again
	}
	p.sweepAt = latest(at, p.list.retry)
	return !p.sweepAt.After(now)
}

// nextSweep is when the density of all that it serves asks for a sweep. Those that were
// never looked at, and are due, it gives back: they have no density.
func (p *poller) nextSweep(listable []*entry, now time.Time) (at time.Time, first []*entry) {
	var squares float64
	for _, e := range listable {
		switch {
		case e.fresh && !e.worded():
			squares += square(e.gap)
		case !e.due.After(now):
			first = append(first, e)
		}
	}
	every := sweepGap(squares, p.bounds())
	if _, spared := p.listSpared(now); len(p.all) > 0 && !spared { // what was started elsewhere has to be found
		every = min(every, max(p.hub.cfg.MaxInterval/2, p.hub.cfg.MinInterval))
	}
	return p.sweptAt.Add(spread(every, p.sweepU)), first
}

// unintroduced reports whether a watch of everything waits for its first list.
func (p *poller) unintroduced() bool {
	return slices.ContainsFunc(p.all, func(s *subscription) bool { return !s.listed })
}

// sweep makes the job of one list call. It stands for a poll of every entry that the list can
// serve.
func (p *poller) sweep(d *demand, now time.Time) *job {
	p.hub.stats.Sweeps++
	p.hub.stats.Unshared += float64(len(p.all))
	j := p.job("")
	for _, e := range d.listable {
		e.busy, e.swept = true, true
		p.serve(j, e, now)
	}
	p.asked, d.listable, d.divided, p.sweepAt = d.listable, nil, false, time.Time{}
	p.sweeping, p.sweptAt, p.sweepU = true, now, p.dice.draw()
	p.lookedAt(nil, now)
	return j
}

// swept takes in the answer to a sweep.
func (p *poller) swept(records []catalog.Listed, err error, l *look) {
	h := p.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	defer p.wakeBy(now)
	p.sweeping = false
	asked := p.release()
	if err != nil {
		p.unswept(asked, err, now)
		return
	}
	p.succeeded(now)
	if p.list.down {
		p.stir()
	}
	p.list.down, p.list.fails = false, 0
	p.discover(records, now)
	p.takeIn(records, now, l)
	found := 0
	for _, e := range asked {
		if e.listed.Equal(now) {
			found++
			continue
		}
		e.alone, e.due = now.Add(listRest), earlier(e.due, now)
	}
	p.list.judge(found >= min(sweepFrom, len(asked)), now)
	p.resort(asked, records, now)
}

// release gives back the entries that the sweep stood for.
func (p *poller) release() []*entry {
	asked := p.asked
	p.asked = nil
	for _, e := range asked {
		e.busy, e.swept = false, false
	}
	return asked
}

// unswept takes in a failed sweep. The entries are read one by one, which shows whether it
// is the list alone that fails.
func (p *poller) unswept(asked []*entry, err error, now time.Time) {
	p.failed(err, now)
	p.stir()
	switch catalog.KindOf(err) {
	case catalog.KindRateLimited, catalog.KindCredentialRejected:
	default:
		p.list.down = len(asked) > 0
	}
	p.list.fails++
	p.list.retry = now.Add(spread(backoff(p.list.fails, p.hub.cfg.MinInterval, listRest), p.dice.draw()))
	for _, e := range asked {
		e.failures++
		e.lastErr = err.Error()
		p.lookAfter(e, p.hub.cfg.MinInterval, now)
	}
}

// discover adds what the list shows to the watches of everything, and drops what can't
// change any more and is no longer shown.
func (p *poller) discover(records []catalog.Listed, now time.Time) {
	for i := range records {
		r := &records[i]
		if e := p.entries[r.ID]; e != nil {
			p.show(e, now)
		} else if len(p.all) > 0 {
			p.show(p.watchable(r.ID, now), now)
		}
	}
	for _, s := range p.all {
		if s.listed {
			continue
		}
		for _, e := range p.order {
			if e.listed.Equal(now) || e.unseen(now) {
				p.attach(s, e, now)
			}
		}
		s.listed = true
		s.wake()
	}
	if len(p.all) == 0 {
		return
	}
	for _, e := range p.order {
		if now.Sub(e.listed) > forget && !e.listed.IsZero() && e.reached(Settled, now, p.hub.cfg.RefundWindow) {
			p.hide(e, now)
		}
	}
}

// show notes that the list carries an entry, or that this process placed it. The watches of
// everything cover it from now on; mu is held.
func (p *poller) show(e *entry, now time.Time) {
	if e.listed.IsZero() {
		for _, s := range p.all {
			if s.listed {
				p.attach(s, e, now)
			}
		}
	}
	e.listed = now
}

// hide takes an entry out of the watches of everything.
func (p *poller) hide(e *entry, now time.Time) {
	e.listed = time.Time{}
	for _, r := range slices.Clone(e.subs) {
		if r.sub.everything {
			p.detach(r.sub, r.at, now)
		}
	}
}

// takeIn takes in the records of a list. A record that may say less than a read is only a
// hint to read.
func (p *poller) takeIn(records []catalog.Listed, now time.Time, l *look) {
	for i := range records {
		r := &records[i]
		e := p.entries[r.ID]
		if e == nil {
			continue
		}
		known := e.fresh && e.state.State == r.State
		switch {
		case e.denied() && r.State != catalog.StateDeleted:
			p.doubt(e, now)
		case known && (e.listEtag == "" || e.listEtag == r.Etag):
			e.state.ObserveTime = latest(e.state.ObserveTime, r.ObserveTime)
			e.renew()
			p.again(e, now)
		case whole(r.Generation) && (!e.fresh || p.list.whole):
			p.applyAs(e, r.Generation, r.Etag, l)
			p.again(e, now)
		case known: // a detail has changed, as it may do all the time: its own pace will do
			p.hint(e, r)
			p.again(e, now)
		default:
			p.hint(e, r)
			e.due = now
		}
		e.listEtag = r.Etag
		if e.worded() && !e.state.State.Terminal() { // the list may be behind
			e.due, e.alone = now, now.Add(listRest)
			continue
		}
		p.looked(e, now)
	}
}

// hint keeps a record until a read confirms it: a copy, not to keep the whole list alive.
func (p *poller) hint(e *entry, r *catalog.Listed) {
	g := r.Generation
	e.hint, p.list.hints = &g, true
}

// doubt has a render read again that was not there when it was read, and that the list carries:
// once a minute, as it may be the list that is wrong.
func (p *poller) doubt(e *entry, now time.Time) {
	if now.Before(e.alone) {
		return
	}
	e.fresh, e.due, e.alone = false, now, now.Add(listRest)
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
