package watch

import (
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch/schedule"
)

const (
	listPause   = time.Minute     // how long a poor list is not used
	forgetAfter = 5 * time.Minute // how long a settled generation that is no longer listed stays in watches of everything
)

// list holds the experience with the catalog's list, and the sweep in flight.
type list struct {
	unusableUntil time.Time // no sweep replaces reads before
	retryAt       time.Time // no sweep before, after one failed
	failing       bool      // a sweep failed, and no read has shown yet whether reads fail too
	failures      int       // sweeps in a row that failed
	poorSweeps    int       // sweeps in a row that carried too little, or failed while reads did not
	fullRecords   bool      // its records are as full as a read's, as far as compared

	sweeping bool
	swept    []*entry  // the entries that the sweep polls
	sweptAt  time.Time // when the last sweep began
	sweepAt  time.Time // when the next one is due; zero: it is not known
	jitter   float64   // of the next one: a random number in [0, 1)
}

// describe adds the list to a situation.
func (l *list) describe(t *tenant, s *situation) {
	watched := len(t.everything) > 0
	s.firstList = slices.ContainsFunc(t.everything, func(w *watcher) bool { return !w.initialKnown })
	s.sweeping, s.sweptAt, s.sweepAfter, s.listFailing = l.sweeping, l.sweptAt, l.retryAt, l.failing
	if t.sharing != nil {
		s.sweepAfter = latest(s.sweepAfter, t.sharing.holds)
	}
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

// serves reports whether a sweep polls an entry that somebody waits for.
func (l *list) serves(e *entry, now time.Time) bool {
	return l.usable(now) && e.listing.hint == nil && !now.Before(e.listing.readSinglyUntil)
}

// usable reports whether a sweep may replace reads.
func (l *list) usable(now time.Time) bool {
	return !l.failing && !now.Before(l.unusableUntil) && !now.Before(l.retryAt)
}

// served gives the entries that a sweep would poll now, at most so many.
func (l *list) served(t *tenant, most int, now time.Time) (served []*entry) {
	if !l.usable(now) {
		return nil
	}
	for _, e := range t.order {
		if len(served) == most {
			break
		}
		if (!e.polling.inFlight || l.sweeping) && l.serves(e, now) && t.wanted(e, now) {
			served = append(served, e)
		}
	}
	return served
}

// nextSweep is when the density of all served entries asks for a sweep. An entry that was never read has no
// density. A watcher of everything needs sweeps also to find generations that were ordered elsewhere.
func (l *list) nextSweep(t *tenant, watched bool, now time.Time) time.Time {
	var squares float64
	for _, e := range l.served(t, len(t.order), now) {
		if e.fresh && e.polling.gap > 0 {
			squares += schedule.SquaredDensity(e.polling.gap)
		}
	}
	every := schedule.SweepGap(squares, t.cfg.bounds())
	if watched {
		every = min(every, max(t.cfg.MaxInterval/2, t.cfg.MinInterval))
	}
	return l.sweptAt.Add(schedule.Jitter(every, l.jitter))
}

// sweep begins a sweep, and gives the entries that it polls.
func (l *list) sweep(t *tenant, jitter float64, now time.Time) []*entry {
	l.swept = l.served(t, len(t.order), now)
	l.sweeping, l.sweptAt, l.sweepAt, l.jitter = true, now, time.Time{}, jitter
	return l.swept
}

// begun notes when the last sweep began, here or elsewhere.
func (l *list) begun(at time.Time, jitter float64) {
	l.sweptAt, l.sweepAt, l.jitter = at, time.Time{}, jitter
}

// endSweep ends a sweep, and gives the entries that it polled.
func (l *list) endSweep() []*entry {
	swept := l.swept
	l.swept, l.sweeping = nil, false
	for _, e := range swept {
		e.polling.inFlight = false
	}
	return swept
}

// failed takes in the failure of a sweep of so many entries.
func (l *list) failed(err error, swept int, least time.Duration, jitter float64, now time.Time) {
	switch catalog.KindOf(err) {
	case catalog.KindRateLimited, catalog.KindCredentialRejected:
	default:
		l.failing = swept > 0
	}
	l.failures++
	l.retryAt = now.Add(schedule.Jitter(schedule.Backoff(l.failures, least, listPause), jitter))
}

// readAnswered notes that a read was answered. Where a sweep failed just before, the list alone is broken,
// or the catalog has recovered: the next sweep shows which.
func (l *list) readAnswered(now time.Time) {
	if l.failing {
		l.failing = false
		l.rateSweep(false, now)
	}
}

// rateSweep notes whether a sweep was worth its call. After two poor sweeps in a row the list is not used
// for a while.
func (l *list) rateSweep(good bool, now time.Time) {
	if good {
		l.poorSweeps = 0
		return
	}
	if l.poorSweeps++; l.poorSweeps >= 2 {
		l.poorSweeps, l.unusableUntil = 0, now.Add(listPause)
	}
}

// merge takes in the answer to a sweep of these entries.
func (l *list) merge(t *tenant, swept []*entry, records []catalog.Version, result *pollResult, now time.Time) {
	l.failing, l.failures = false, 0
	records, carried := unique(records)
	l.discover(t, records, now)
	for i := range records {
		if e := t.entries[records[i].ID]; e != nil {
			l.mergeRecord(t, e, &records[i], result, now)
		}
	}
	found := 0
	for _, e := range swept {
		if carried[e.id] {
			found++
			continue
		}
		e.listing.readSinglyUntil = now.Add(listPause)
		t.pollAt(e, earliest(e.polling.due, now))
	}
	l.rateSweep(found >= min(sweepFrom, len(swept)), now)
}

// unique removes repeated generations from a list, and gives the ids.
func unique(list []catalog.Version) (records []catalog.Version, ids map[string]bool) {
	ids = make(map[string]bool, len(list))
	records = slices.DeleteFunc(list, func(r catalog.Version) bool {
		again := ids[r.ID]
		ids[r.ID] = true
		return again
	})
	return records, ids
}

// discover adds the listed generations to the watches of everything, and removes those that are settled
// and no longer listed.
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

// mergeRecord takes in one record of a list. A record that may say less than a read is only a hint to read.
func (l *list) mergeRecord(t *tenant, e *entry, r *catalog.Version, result *pollResult, now time.Time) {
	known := e.fresh && e.state.State == r.State
	switch {
	case e.goneByNotFound() && r.State != catalog.StateDeleted:
		l.recheck(t, e, now)
	case known && (e.listing.etag == "" || e.listing.etag == r.Etag):
		e.confirm(r.ObserveTime)
		t.scheduleNext(e, now)
	case complete(r.Generation) && (l.fullRecords || !e.fresh && !e.knownOtherwise(r.Etag)):
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
}

// recheck has a generation read again that the list carries, though a read found none. It does so once a
// minute, as the list may be wrong.
func (l *list) recheck(t *tenant, e *entry, now time.Time) {
	if now.Before(e.listing.readSinglyUntil) {
		return
	}
	e.fresh, e.listing.readSinglyUntil = false, now.Add(listPause)
	t.pollAt(e, now)
}

// compareRecord learns whether the list says as much of a generation as a read does.
func (l *list) compareRecord(e *entry, etag string) {
	if e.listing.hint != nil {
		l.fullRecords = e.listing.etag == etag
		e.listing.hint = nil
	}
}

// applyHints applies the hints of other generations, once the list is known to have full records.
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

// complete reports whether a list's record has the result or the reason of a failure.
func complete(g catalog.Generation) bool {
	switch g.State {
	case catalog.StateSucceeded:
		return g.File != nil || g.Text != nil
	case catalog.StateFailed, catalog.StateRefunded:
		return g.FailureMessage != ""
	}
	return true
}
