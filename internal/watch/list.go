package watch

import (
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch/schedule"
)

const (
	listRest = time.Minute     // how long a list that did not help is left alone
	forget   = 5 * time.Minute // how long a settled generation that is no longer listed stays in watches of everything
)

// list is what was learned of the catalog's list, and the sweep that is on its way.
type list struct {
	rests time.Time // it does not stand for reads before
	retry time.Time // it is not asked before, after it failed
	down  bool      // it failed, and no read has shown yet whether only the list does
	fails int       // sweeps in a row that failed
	poor  int       // sweeps in a row that carried too little, or failed by themselves
	whole bool      // its records are as full as a read's, as far as seen

	sweeping bool
	asked    []*entry  // that the sweep stands for
	sweptAt  time.Time // when the last sweep began
	sweepAt  time.Time // when the next one is due; zero: it is not known
	draw     float64   // of its jitter
}

// describe adds to a situation what concerns the list.
func (l *list) describe(t *tenant, s *situation) {
	spared := t.peers.sparesList(s.now)
	watched := len(t.everything) > 0 && !spared
	s.introduces = slices.ContainsFunc(t.everything, func(w *watcher) bool { return !w.listed })
	s.sweeping, s.sweptAt, s.sweepAfter, s.doubt = l.sweeping, l.sweptAt, l.retry, l.down
	s.sweeps = watched || s.introduces || len(l.served(t, sweepFrom, s.now)) == sweepFrom
	if !s.sweeps {
		l.sweepAt = time.Time{}
		return
	}
	if l.sweepAt.IsZero() && !l.sweeping {
		l.sweepAt = l.nextSweep(t, watched, s.now)
	}
	s.sweepAt = l.sweepAt
}

// serves reports whether a sweep serves an entry that somebody waits for.
func (l *list) serves(e *entry, now time.Time) bool {
	return l.usable(now) && e.listing.hint == nil && !now.Before(e.listing.singly)
}

// usable reports whether a sweep may stand for reads.
func (l *list) usable(now time.Time) bool {
	return !l.down && !now.Before(l.rests) && !now.Before(l.retry)
}

// served gives the entries that a sweep would serve now, at most so many.
func (l *list) served(t *tenant, most int, now time.Time) (served []*entry) {
	if !l.usable(now) {
		return nil
	}
	for _, e := range t.order {
		if len(served) == most {
			break
		}
		if (!e.polling.busy || l.sweeping) && l.serves(e, now) && t.wanted(e, now) && !t.spared(e, now) {
			served = append(served, e)
		}
	}
	return served
}

// nextSweep is when the density of all that a sweep serves asks for one. What was never read has no
// density. What was started elsewhere has to be found where somebody watches everything.
func (l *list) nextSweep(t *tenant, watched bool, now time.Time) time.Time {
	var squares float64
	for _, e := range l.served(t, len(t.order), now) {
		if e.fresh && !e.unconfirmed() && e.polling.gap > 0 {
			squares += schedule.Square(e.polling.gap)
		}
	}
	every := schedule.SweepGap(squares, t.cfg.bounds())
	if watched {
		every = min(every, max(t.cfg.MaxInterval/2, t.cfg.MinInterval))
	}
	return l.sweptAt.Add(schedule.Jitter(every, l.draw))
}

// sweep begins a sweep, and gives the entries that it stands for.
func (l *list) sweep(t *tenant, draw float64, now time.Time) []*entry {
	l.asked = l.served(t, len(t.order), now)
	l.sweeping, l.sweptAt, l.sweepAt, l.draw = true, now, time.Time{}, draw
	return l.asked
}

// release ends a sweep, and gives back the entries that it stood for.
func (l *list) release() []*entry {
	asked := l.asked
	l.asked, l.sweeping = nil, false
	for _, e := range asked {
		e.polling.busy = false
	}
	return asked
}

// failed takes in a failed sweep that stood for so many entries.
func (l *list) failed(err error, asked int, least time.Duration, draw float64, now time.Time) {
	switch catalog.KindOf(err) {
	case catalog.KindRateLimited, catalog.KindCredentialRejected:
	default:
		l.down = asked > 0
	}
	l.fails++
	l.retry = now.Add(schedule.Jitter(schedule.Backoff(l.fails, least, listRest), draw))
}

// readable notes that a read was answered. Where the list failed just before, the list alone
// is broken, or all is well again: the next sweep shows which.
func (l *list) readable(now time.Time) {
	if l.down {
		l.down = false
		l.judge(false, now)
	}
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

// merge takes in the answer to a sweep that stood for the entries asked.
func (l *list) merge(t *tenant, asked []*entry, records []catalog.Version, result *pollResult, now time.Time) {
	l.down, l.fails = false, 0
	records, carried := unique(records)
	l.discover(t, records, now)
	for i := range records {
		if e := t.entries[records[i].ID]; e != nil {
			l.take(t, e, &records[i], result, now)
		}
	}
	found := 0
	for _, e := range asked {
		if carried[e.id] {
			found++
			continue
		}
		e.listing.singly = now.Add(listRest)
		t.pollAt(e, earliest(e.polling.due, now))
	}
	l.judge(found >= min(sweepFrom, len(asked)), now)
}

// unique takes out of a list what names a generation again, and gives the ids.
func unique(list []catalog.Version) (records []catalog.Version, ids map[string]bool) {
	ids = make(map[string]bool, len(list))
	records = slices.DeleteFunc(list, func(r catalog.Version) bool {
		again := ids[r.ID]
		ids[r.ID] = true
		return again
	})
	return records, ids
}

// discover adds what the list shows to the watches of everything, and drops what can't
// change any more and is no longer shown.
func (l *list) discover(t *tenant, records []catalog.Version, now time.Time) {
	for i := range records {
		if e := t.entries[records[i].ID]; e != nil || len(t.everything) > 0 {
			t.show(t.ensure(records[i].ID, now), now)
		}
	}
	for _, w := range t.everything {
		w.introduce(now)
	}
	if len(t.everything) == 0 {
		return
	}
	for _, e := range t.order {
		if seen := e.listing.seen; !seen.IsZero() && now.Sub(seen) > forget && e.reached(Settled, now, t.cfg.RefundWindow) {
			t.hide(e, now)
		}
	}
}

// take takes in one record of a list. A record that may say less than a read is only a hint to
// read.
func (l *list) take(t *tenant, e *entry, r *catalog.Version, result *pollResult, now time.Time) {
	known := e.fresh && e.state.State == r.State
	switch {
	case e.denied() && r.State != catalog.StateDeleted:
		l.doubts(t, e, now)
	case known && (e.listing.etag == "" || e.listing.etag == r.Etag):
		e.confirm(r.ObserveTime)
		t.again(e, now)
	case complete(r.Generation) && (!e.fresh || l.whole):
		t.apply(e, r.Generation, r.Etag, result)
		t.again(e, now)
	case known: // a detail has changed, as it may do all the time: its own pace will do
		e.keep(r.Generation)
		t.again(e, now)
	default:
		e.keep(r.Generation)
		t.pollAt(e, now)
	}
	e.listing.etag = r.Etag
	if e.unconfirmed() && !e.state.State.Terminal() { // the list may be behind
		e.listing.singly = now.Add(listRest)
		t.pollAt(e, now)
		return
	}
	t.confirmed(e, now)
}

// doubts has a generation read again that was not there when it was read, and that the list carries:
// once a minute, as it may be the list that is wrong.
func (l *list) doubts(t *tenant, e *entry, now time.Time) {
	if now.Before(e.listing.singly) {
		return
	}
	e.fresh, e.listing.singly = false, now.Add(listRest)
	t.pollAt(e, now)
}

// compare learns whether the list says as much of a generation as a read does.
func (l *list) compare(e *entry, etag string) {
	if e.listing.hint != nil {
		l.whole = e.listing.etag == etag
		e.listing.hint = nil
	}
}

// trust takes in what the list said of others, once it is known to say all.
func (l *list) trust(t *tenant, result *pollResult, now time.Time) {
	if !l.whole {
		return
	}
	for _, e := range t.order {
		if hint := e.listing.hint; hint != nil && complete(*hint) && !e.polling.busy {
			e.listing.hint = nil
			t.apply(e, *hint, hint.Etag(), result)
			t.again(e, now)
		}
	}
}

// complete reports whether a list's record has what a caller waits for.
func complete(g catalog.Generation) bool {
	switch g.State {
	case catalog.StateSucceeded:
		return g.File != nil || g.Text != nil
	case catalog.StateFailed, catalog.StateRefunded:
		return g.FailureMessage != ""
	}
	return true
}
