package watch

import (
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch/schedule"
)

const (
	listPause   = time.Minute     // how long a list that did not help is left alone
	forgetAfter = 5 * time.Minute // how long a settled generation that is no longer listed stays in watches of everything
)

// list is what was learned of the catalog's list, and the sweep that is on its way.
type list struct {
	unusableUntil time.Time // it does not stand for reads before
	retryAt       time.Time // it is not asked before, after it failed
	failing       bool      // it failed, and no read has shown yet whether only the list does
	failures      int       // sweeps in a row that failed
	poorSweeps    int       // sweeps in a row that carried too little, or failed by themselves
	fullRecords   bool      // its records are as full as a read's, as far as seen

	sweeping bool
	swept    []*entry  // that the sweep stands for
	sweptAt  time.Time // when the last sweep began
	sweepAt  time.Time // when the next one is due; zero: it is not known
	jitter   float64   // of its jitter
}

// describe adds to a situation what concerns the list.
func (l *list) describe(t *tenant, s *situation) {
	spared := t.peers.defersList(s.now)
	watched := len(t.everything) > 0 && !spared
	s.firstList = slices.ContainsFunc(t.everything, func(w *watcher) bool { return !w.initialKnown })
	s.sweeping, s.sweptAt, s.sweepAfter, s.listFailing = l.sweeping, l.sweptAt, l.retryAt, l.failing
	s.sweeps = watched || s.firstList || len(l.served(t, sweepFrom, s.now)) == sweepFrom
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
	return l.usable(now) && e.listing.hint == nil && !now.Before(e.listing.readSinglyUntil)
}

// usable reports whether a sweep may stand for reads.
func (l *list) usable(now time.Time) bool {
	return !l.failing && !now.Before(l.unusableUntil) && !now.Before(l.retryAt)
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
		if (!e.polling.inFlight || l.sweeping) && l.serves(e, now) && t.wanted(e, now) && !t.deferred(e, now) {
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
			squares += schedule.SquaredDensity(e.polling.gap)
		}
	}
	every := schedule.SweepGap(squares, t.cfg.bounds())
	if watched {
		every = min(every, max(t.cfg.MaxInterval/2, t.cfg.MinInterval))
	}
	return l.sweptAt.Add(schedule.Jitter(every, l.jitter))
}

// sweep begins a sweep, and gives the entries that it stands for.
func (l *list) sweep(t *tenant, draw float64, now time.Time) []*entry {
	l.swept = l.served(t, len(t.order), now)
	l.sweeping, l.sweptAt, l.sweepAt, l.jitter = true, now, time.Time{}, draw
	return l.swept
}

// release ends a sweep, and gives back the entries that it stood for.
func (l *list) endSweep() []*entry {
	asked := l.swept
	l.swept, l.sweeping = nil, false
	for _, e := range asked {
		e.polling.inFlight = false
	}
	return asked
}

// failed takes in a failed sweep that stood for so many entries.
func (l *list) failed(err error, asked int, least time.Duration, draw float64, now time.Time) {
	switch catalog.KindOf(err) {
	case catalog.KindRateLimited, catalog.KindCredentialRejected:
	default:
		l.failing = asked > 0
	}
	l.failures++
	l.retryAt = now.Add(schedule.Jitter(schedule.Backoff(l.failures, least, listPause), draw))
}

// readable notes that a read was answered. Where the list failed just before, the list alone
// is broken, or all is well again: the next sweep shows which.
func (l *list) readAnswered(now time.Time) {
	if l.failing {
		l.failing = false
		l.rateSweep(false, now)
	}
}

// judge notes whether a sweep was worth its call. A list that is not, twice in a row, is
// left alone for a while.
func (l *list) rateSweep(good bool, now time.Time) {
	if good {
		l.poorSweeps = 0
		return
	}
	if l.poorSweeps++; l.poorSweeps >= 2 {
		l.poorSweeps, l.unusableUntil = 0, now.Add(listPause)
	}
}

// merge takes in the answer to a sweep that stood for the entries asked.
func (l *list) merge(t *tenant, asked []*entry, records []catalog.Version, result *pollResult, now time.Time) {
	l.failing, l.failures = false, 0
	records, carried := unique(records)
	l.discover(t, records, now)
	for i := range records {
		if e := t.entries[records[i].ID]; e != nil {
			l.mergeRecord(t, e, &records[i], result, now)
		}
	}
	found := 0
	for _, e := range asked {
		if carried[e.id] {
			found++
			continue
		}
		e.listing.readSinglyUntil = now.Add(listPause)
		t.pollAt(e, earliest(e.polling.due, now))
	}
	l.rateSweep(found >= min(sweepFrom, len(asked)), now)
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
			t.addListed(t.ensure(records[i].ID, now), now)
		}
	}
	for _, w := range t.everything {
		w.subscribeListed(now)
	}
	if len(t.everything) == 0 {
		return
	}
	for _, e := range t.order {
		if seen := e.listing.seenAt; !seen.IsZero() && now.Sub(seen) > forgetAfter && e.reached(Settled, now, t.cfg.RefundWindow) {
			t.removeListed(e, now)
		}
	}
}

// take takes in one record of a list. A record that may say less than a read is only a hint to
// read.
func (l *list) mergeRecord(t *tenant, e *entry, r *catalog.Version, result *pollResult, now time.Time) {
	known := e.fresh && e.state.State == r.State
	switch {
	case e.goneByNotFound() && r.State != catalog.StateDeleted:
		l.recheck(t, e, now)
	case known && (e.listing.etag == "" || e.listing.etag == r.Etag):
		e.confirm(r.ObserveTime)
		t.scheduleNext(e, now)
	case complete(r.Generation) && (!e.fresh || l.fullRecords):
		t.apply(e, r.Generation, r.Etag, result)
		t.scheduleNext(e, now)
	case known: // a detail has changed, as it may do all the time: its own pace will do
		e.setHint(r.Generation)
		t.scheduleNext(e, now)
	default:
		e.setHint(r.Generation)
		t.pollAt(e, now)
	}
	e.listing.etag = r.Etag
	if e.unconfirmed() && !e.state.State.Terminal() { // the list may be behind
		e.listing.readSinglyUntil = now.Add(listPause)
		t.pollAt(e, now)
		return
	}
	t.ownPollAnswered(e, now)
}

// doubts has a generation read again that was not there when it was read, and that the list carries:
// once a minute, as it may be the list that is wrong.
func (l *list) recheck(t *tenant, e *entry, now time.Time) {
	if now.Before(e.listing.readSinglyUntil) {
		return
	}
	e.fresh, e.listing.readSinglyUntil = false, now.Add(listPause)
	t.pollAt(e, now)
}

// compare learns whether the list says as much of a generation as a read does.
func (l *list) compareRecord(e *entry, etag string) {
	if e.listing.hint != nil {
		l.fullRecords = e.listing.etag == etag
		e.listing.hint = nil
	}
}

// trust takes in what the list said of others, once it is known to say all.
func (l *list) applyHints(t *tenant, result *pollResult, now time.Time) {
	if !l.fullRecords {
		return
	}
	for _, e := range t.order {
		if hint := e.listing.hint; hint != nil && complete(*hint) && !e.polling.inFlight {
			e.listing.hint = nil
			t.apply(e, *hint, hint.Etag(), result)
			t.scheduleNext(e, now)
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
