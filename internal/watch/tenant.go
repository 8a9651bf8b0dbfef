package watch

import (
	"maps"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/watch/schedule"
)

// forgetAfter is how long a settled generation that is no longer listed stays in watches of everything.
const forgetAfter = 5 * time.Minute

// pollResult is the answer to a poll or a call while it is taken in.
type pollResult struct {
	Outcome
	found   TraceRef
	sighted []Sighting // new states of a poll
}

// tenant is all that is known of one credential: what is polled, and who watches it. The mutex of its agenda guards it.
type tenant struct {
	*agenda

	gone       bool       // it has ended: the hub makes another
	everything []*watcher // watchers of all that the catalog lists

	inFlight    int // reads on their way
	accountRead accountRead
}

// begin subscribes a watcher to the generations that its request names. It does so before anything is read, so that no
// change is missed in between.
func (t *tenant) begin(w *watcher, req *Request, now time.Time) {
	w.agenda = t.agenda
	t.watches++
	w.subscribe(req.IDs, now)
	if w.everything {
		t.everything = append(t.everything, w)
		if w.orders != nil && t.list.carried != nil && now.Sub(t.list.answeredAt) <= t.cfg.MaxInterval {
			w.subscribeListed(now)
		}
		t.queue.wakeBy(now)
	} else if w.initialKnown {
		w.known, w.ordered = nil, nil
	}
}

// end ends a watcher.
func (t *tenant) end(w *watcher, now time.Time) {
	t.watches--
	t.everything = slices.DeleteFunc(t.everything, func(one *watcher) bool { return one == w })
	w.unsubscribe(now)
	t.queue.wakeBy(now.Add(linger))
}

// observe applies a record that a call has read. Where no poll came before, the record counts as the first
// poll. A generation that was gone by a 404, and so was not polled, is polled again.
func (t *tenant) observe(e *entry, read catalog.Version, found TraceRef, now time.Time) {
	t.apply(e, read.Generation, read.Etag, &pollResult{found: found})
	if e.polling.gap == 0 || e.polling.queueIndex == notQueued {
		t.scheduleNext(e, now)
	}
}

// apply applies a record, which had the given etag when it was read, to an entry, and publishes what its
// watchers can see of it.
func (t *tenant) apply(e *entry, g catalog.Generation, etag string, result *pollResult) {
	before := e.state
	changed, regressed := e.advance(g, etag)
	switch {
	case regressed && g.State == catalog.StateRefunded: // its watchers keep the success, and the money counts
		result.sighted = append(result.sighted, Sighting{t.cred, catalog.Version{Generation: g, Etag: etag}, false})
	case regressed:
		t.regressed(e, g)
	}
	if changed {
		t.noteChange(e, before, result)
	}
	if duration := e.duration(g, before.State); duration > 0 {
		e.learned = true
		t.history.Add(t.historyOf(e), schedule.Fingerprint(e.id), duration)
	}
}

// noteChange records a new state, and publishes it.
func (t *tenant) noteChange(e *entry, before catalog.Generation, result *pollResult) {
	e.foundBy = result.found
	if gone := e.goneByNotFound(); !gone || e.absence.Lasting {
		result.sighted = append(result.sighted, Sighting{t.cred, e.version(), gone})
	}
	if before.State != 0 && before.State != e.state.State {
		result.Changes = append(result.Changes, Change{State: e.state.State, Delay: t.detectionDelay(e, before)})
	}
	t.publish(e)
}

// publish marks an entry as changed in each of its subscribers.
func (t *tenant) publish(e *entry) {
	for _, c := range e.subscribers {
		c.mark(c.at)
	}
}

// detectionDelay is how long a new state went undetected, as the schedule expects. Where the schedule does
// not know, each moment since the last poll is equally likely.
func (t *tenant) detectionDelay(e *entry, before catalog.Generation) time.Duration {
	ended := e.state.State == catalog.StateSucceeded || e.state.State == catalog.StateFailed
	if before.State.Terminal() || !ended {
		return e.state.ObserveTime.Sub(before.ObserveTime) / 2
	}
	birth := e.startTime()
	return t.history.LastCurve(t.historyOf(e)).Delay(before.ObserveTime.Sub(birth), e.state.ObserveTime.Sub(birth))
}

// regressed counts a record that was dropped, and logs the first of many equal ones.
func (t *tenant) regressed(e *entry, g catalog.Generation) {
	t.stats.Regressions++
	if e.dropped == g.State {
		return
	}
	e.dropped = g.State
	t.cfg.Logger.Warn("dropped a state that would have gone backwards",
		"generation", e.id, "have", e.state.State.String(), "got", g.State.String())
}

// notFound takes in a 404 in the catalog's own words. A generation that there is or was counts as gone when they last:
// until then it is read again, as after a failure. What the list has carried since is there.
func (t *tenant) notFound(e *entry, err error, result *pollResult, now time.Time) {
	hint := e.listing.hint
	e.listing.hint = nil
	switch {
	case hint != nil && e.exists():
		t.apply(e, *hint, hint.Etag(), result)
	case e.justCreated(now):
		if !e.fresh && e.state.State != 0 {
			e.fresh = true
			t.publish(e)
		}
	case e.exists() && !t.lasts(e, now):
		t.retry(e, err, t.cfg.MaxInterval, now)
		return
	default:
		t.noteGone(e, result, now, e.exists())
	}
	t.scheduleNext(e, now)
}

// lasts notes that a read has not found a generation, and reports whether it counts as gone. Where no other read was
// answered since the first that has not found it, one is to be made.
func (t *tenant) lasts(e *entry, now time.Time) bool {
	witnessed := t.health.read.After(e.absence.Since)
	e.absence = e.absence.NotFound(now, witnessed)
	if !witnessed && now.Sub(e.absence.Since) >= lifecycle.AbsentFor {
		t.accountRead.wanted = true
	}
	return e.absence.Lasting
}

// noteGone notes that the catalog has a generation no more, as reads say, and delivers that. Of one that nobody here has
// known they need not have said so for long: its watchers are told, and the ledger is not.
func (t *tenant) noteGone(e *entry, result *pollResult, now time.Time, lasting bool) {
	before := e.state
	e.absence.Lasting = lasting
	e.markGone(now)
	t.noteChange(e, before, result)
}

// deleted takes in a deletion by a call of ours.
func (t *tenant) deleted(e *entry, found TraceRef, now time.Time) {
	e.markGone(now)
	e.missing, e.deleted, e.foundBy = false, true, found
	t.publish(e)
}

// addListed notes that the list carries an entry, or that this process placed it. The watchers of
// everything subscribe to it.
func (t *tenant) addListed(e *entry, now time.Time) {
	if e.listing.seenAt.IsZero() {
		for _, w := range t.everything {
			if w.orders == nil && w.initialKnown && !w.watches(e) {
				w.add(e, now)
			}
		}
	}
	e.listing.seenAt = now
}

// coversList reports whether a watch covers all that the catalog lists.
func (t *tenant) coversList() bool {
	return slices.ContainsFunc(t.everything, func(w *watcher) bool { return w.orders == nil })
}

// beginWithoutList ends the wait of the watches of orders for the list, which could not be read.
func (t *tenant) beginWithoutList(now time.Time) {
	for _, w := range t.everything {
		if w.orders != nil {
			w.subscribeListed(now)
		}
	}
}

// placed subscribes the watches of orders to orders that were placed.
func (t *tenant) placed(orders map[string]ledger.Attribution, now time.Time) {
	ids := slices.Sorted(maps.Keys(orders)) // sorted, so that runs are reproducible
	for _, w := range t.everything {
		if w.orders == nil {
			continue
		}
		for _, id := range ids {
			if _, offered := w.offered[id]; !offered && w.orders.Covers(orders[id]) {
				w.addOrdered(id, now)
			}
		}
		w.offered = orders
	}
}

// removeListed ends the subscriptions of the watchers of everything to an entry.
func (t *tenant) removeListed(e *entry, now time.Time) {
	e.listing.seenAt = time.Time{}
	for _, c := range slices.Clone(e.subscribers) {
		if c.everything {
			c.remove(c.at, now)
		}
	}
}

// endAll ends all streams under the credential.
func (t *tenant) endAll(err error) {
	for _, w := range t.everything {
		w.fail(err)
	}
	for _, e := range t.order {
		for _, c := range e.subscribers {
			c.fail(err)
		}
	}
}

// merge takes in the answer to a sweep of these entries, as far as the list goes.
func (t *tenant) merge(swept []*entry, list *catalog.List, result *pollResult, now time.Time) {
	t.list.failing, t.list.failures, t.list.answeredAt = false, 0, now
	t.noteCut(list.Cut)
	records := list.Records
	t.discover(records, now)
	for i := range records {
		if e := t.entries[records[i].ID]; e != nil {
			t.mergeRecord(e, &records[i], result, now)
		}
	}
	found := 0
	for _, e := range swept {
		if _, carried := list.Find(e.id); carried {
			found++
			continue
		}
		t.readSingly(e, now)
	}
	t.list.rateSweep(found >= min(sweepFrom, len(swept)), now)
}

// noteCut logs the first of several lists that were too long to be read to the end.
func (t *tenant) noteCut(cut bool) {
	if cut && !t.list.cut {
		t.cfg.Logger.Warn("the catalog's list is too long to be read to its end: what is missing is read singly", "api_key", t.cred.Tenant.Fingerprint())
	}
	t.list.cut = cut
}

// discover adds the listed generations to the watches of everything, and removes those that are settled
// and no longer listed.
func (t *tenant) discover(records []catalog.Version, now time.Time) {
	all := t.coversList()
	for i := range records {
		if id := records[i].ID; all || t.entries[id] != nil {
			t.addListed(t.ensure(id, now), now)
		}
	}
	if t.list.carried = nil; len(t.everything) == 0 {
		return
	}
	t.list.carry(records)
	for _, w := range t.everything {
		w.subscribeListed(now)
	}
	for _, e := range t.order {
		if seen := e.listing.seenAt; !seen.IsZero() && now.Sub(seen) > forgetAfter && e.reached(Settled, now, t.cfg.RefundWindow) {
			t.removeListed(e, now)
		}
	}
}

// mergeRecord takes in one record of a list. A record that may say less than a read is only a hint to read.
func (t *tenant) mergeRecord(e *entry, r *catalog.Version, result *pollResult, now time.Time) {
	known := e.fresh && e.state.State == r.State
	switch {
	case e.goneByNotFound() && r.State != catalog.StateDeleted:
		t.recheck(e, now)
	case known && (e.listing.etag == "" || e.listing.etag == r.Etag):
		e.confirm(r.ObserveTime)
		t.scheduleNext(e, now)
	case complete(r.Generation) && (t.list.fullRecords || !e.fresh && !e.knownOtherwise(r.Etag)):
		t.apply(e, r.Generation, r.Etag, result)
		t.scheduleNext(e, now)
	case known: // a detail has changed, as it may do all the time: its own pace will do
		e.setHint(r.Generation)
		t.scheduleNext(e, now)
	default:
		e.setHint(r.Generation)
		t.pollAt(e, now)
	}
	e.listing.etag, e.listing.state = r.Etag, r.State
}

// recheck has a generation read again that the list carries, though a read found none. It does so once a
// minute, as the list may be wrong.
func (t *tenant) recheck(e *entry, now time.Time) {
	if now.Before(e.listing.readSinglyUntil) {
		return
	}
	e.fresh, e.listing.readSinglyUntil = false, now.Add(listPause)
	t.pollAt(e, now)
}

// applyHints applies the hints of other generations, once the list is known to have full records.
func (t *tenant) applyHints(result *pollResult, now time.Time) {
	if !t.list.fullRecords {
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
