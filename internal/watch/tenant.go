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

// forgetAfter is the time after which a watch of all generations drops a settled generation that is missing from the catalog's
// list.
const forgetAfter = 5 * time.Minute

// tenant is the state for one credential: the polled generations and their watchers. It is guarded by its agenda's mu.
type tenant struct {
	*agenda

	ended      bool       // whether the tenant was removed from the hub; the hub creates another tenant when it needs one
	everything []*watcher // watchers of all generations

	inFlight    int // number of reads of generations and of the account that are in flight
	accountRead accountRead

	recordAt       time.Time // time of the next attempt to record states; zero if none is scheduled
	recordFailures int       // number of consecutive failed attempts to record states
}

// beginWatch subscribes a watcher to the generations in its request. It is called before the generations are read for this
// watcher, so that no change is missed.
func (t *tenant) beginWatch(w *watcher, req *Request, now time.Time) {
	w.agenda = t.agenda
	t.watches++
	w.subscribeTo(req.IDs, now)
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

// endWatch removes a watcher.
func (t *tenant) endWatch(w *watcher, now time.Time) {
	t.watches--
	t.everything = slices.DeleteFunc(t.everything, func(one *watcher) bool { return one == w })
	w.unsubscribe(now)
	t.queue.wakeBy(now.Add(linger))
}

// observeRecord applies a record that a call to Easel has read from the catalog. It schedules the next poll of the generation
// if no response has scheduled one yet, or if the generation is no longer in the queue.
func (t *tenant) observeRecord(e *generation, read catalog.Version, result *pollResult, now time.Time) {
	t.applyRecord(e, read.Generation, read.Etag, result)
	if e.polling.gap == 0 || e.polling.queueIndex == notQueued {
		t.scheduleNext(e, now)
	}
}

// applyRecord applies a record to a generation. If the record contains a change for watchers or for the ledger, applyRecord
// adds the generation to result. etag is the etag of the record as received.
func (t *tenant) applyRecord(e *generation, g catalog.Generation, etag string, result *pollResult) {
	before := e.state
	changed, regressed := e.applyRecord(g, etag)
	switch {
	case regressed && g.State == catalog.StateRefunded: // watchers keep the current state; only the ledger records the refund
		e.recording.addState(Sighting{catalog.Version{Generation: g, Etag: etag}, false})
		result.changed = append(result.changed, e)
	case regressed:
		t.countRegression(e, g)
	}
	if changed {
		t.noteChange(e, before, result)
	}
	if duration := e.duration(g, before.State); duration > 0 {
		e.learned = true
		t.history.Add(t.historyOf(e), schedule.Fingerprint(e.id), duration)
	}
}

// noteChange adds a generation with a new state to result. previous contains the generation's previous state. If this state is
// known and differs from the new state, noteChange also adds the change and its estimated detection delay.
func (t *tenant) noteChange(e *generation, previous catalog.Generation, result *pollResult) {
	e.foundBy = result.found
	e.recordSighting(result)
	if previous.State != 0 && previous.State != e.state.State {
		result.Changes = append(result.Changes, Change{State: e.state.State, Delay: t.detectionDelay(e, previous)})
	}
}

// publishChange marks a generation as changed for each of its subscribers.
func (t *tenant) publishChange(e *generation) {
	for _, c := range e.subscribers {
		c.markChanged(c.at)
	}
}

// detectionDelay returns the expected time between the latest change of a generation and its detection. previous is the
// generation's previous state. The schedule predicts only changes to the states "succeeded" and "failed". For any other change,
// all times since the last poll are assumed to be equally likely.
func (t *tenant) detectionDelay(e *generation, previous catalog.Generation) time.Duration {
	ended := e.state.State == catalog.StateSucceeded || e.state.State == catalog.StateFailed
	if previous.State.Terminal() || !ended {
		return e.state.ObserveTime.Sub(previous.ObserveTime) / 2
	}
	birth := e.startTime()
	return t.history.LastCurve(t.historyOf(e)).Delay(previous.ObserveTime.Sub(birth), e.state.ObserveTime.Sub(birth))
}

// countRegression counts a record that was dropped because its state cannot follow the current one. Of consecutive dropped
// records with the same state, it logs only the first.
func (t *tenant) countRegression(e *generation, g catalog.Generation) {
	t.stats.Regressions++
	if e.dropped == g.State {
		return
	}
	e.dropped = g.State
	t.cfg.Logger.Warn("older state dropped",
		"generation", e.id, "have", e.state.State.String(), "got", g.State.String())
}

// applyNotFound applies a 404 that the catalog itself has sent. A generation that exists or existed is treated as deleted only
// after several 404s: see [lifecycle.Absence]. Until then, the read is retried as after a failure. If such a generation has a
// hint, which is a record from the list that no read has confirmed yet, the hint is applied instead of the 404.
func (t *tenant) applyNotFound(e *generation, err error, result *pollResult, now time.Time) {
	hint := e.listing.hint
	e.listing.hint = nil
	switch {
	case hint != nil && e.isKnownToExist():
		t.applyRecord(e, *hint, hint.Etag(), result)
	case e.isJustCreated(now):
		if !e.fresh && e.state.State != 0 {
			e.fresh = true
			t.publishChange(e)
		}
	case e.isKnownToExist() && !t.recordAbsence(e, now):
		t.retryPoll(e, err, t.cfg.MaxInterval, now)
		return
	default:
		t.notePresumedDeleted(e, result, now, e.isKnownToExist())
	}
	t.scheduleNext(e, now)
}

// recordAbsence records that a read has returned 404, and reports whether the generation is now treated as deleted. There are
// two conditions: the first of the consecutive 404s is at least [lifecycle.AbsentFor] ago, and another read has succeeded since
// then. If only the second condition is not met, recordAbsence requests a read of the account.
func (t *tenant) recordAbsence(e *generation, now time.Time) bool {
	witnessed := t.health.read.After(e.absence.Since)
	e.absence = e.absence.NotFound(now, witnessed)
	if !witnessed && now.Sub(e.absence.Since) >= lifecycle.AbsentFor {
		t.accountRead.wanted = true
	}
	return e.absence.Lasting
}

// notePresumedDeleted marks a generation as deleted because reads do not find it, and adds the deletion to result. If isLasting
// is true, the deletion is also recorded in the ledger. isLasting must be false if the generation was never known to exist.
func (t *tenant) notePresumedDeleted(e *generation, result *pollResult, now time.Time, isLasting bool) {
	before := e.state
	e.absence.Lasting = isLasting
	e.markDeleted(now)
	t.noteChange(e, before, result)
}

// recordDeletion records that a call to Easel has deleted the generation.
func (t *tenant) recordDeletion(e *generation, result *pollResult, now time.Time) {
	e.markDeleted(now)
	e.missing, e.deleted, e.foundBy, e.recording.etag = false, true, result.found, ""
	e.recordSighting(result)
}

// addListed records that the catalog's list contains a generation, or that this process ordered it. The first call for a
// generation also subscribes the watchers that cover the complete list.
func (t *tenant) addListed(e *generation, now time.Time) {
	if e.listing.seenAt.IsZero() {
		for _, w := range t.everything {
			if w.orders == nil && w.initialKnown && !w.isSubscribed(e) {
				w.addSubscription(e, now)
			}
		}
	}
	e.listing.seenAt = now
}

// coversList reports whether any watch covers every generation that the catalog lists.
func (t *tenant) coversList() bool {
	return slices.ContainsFunc(t.everything, func(w *watcher) bool { return w.orders == nil })
}

// beginWithoutList starts the watches with [Request.Orders] that still wait for a list. It is called if the list can't be read.
func (t *tenant) beginWithoutList(now time.Time) {
	for _, w := range t.everything {
		if w.orders != nil {
			w.subscribeListed(now)
		}
	}
}

// subscribePlaced handles new orders. It subscribes each watch that has [Request.Orders] to the orders that the watch covers.
func (t *tenant) subscribePlaced(orders map[string]ledger.Attribution, now time.Time) {
	ids := slices.Sorted(maps.Keys(orders)) // sorted, so that runs are reproducible
	for _, w := range t.everything {
		if w.orders == nil {
			continue
		}
		for _, id := range ids {
			if _, offered := w.offered[id]; !offered && !orders[id].Deleted && w.orders.Covers(orders[id]) {
				w.addOrdered(id, now)
			}
		}
		w.offered = orders
	}
}

// removeListed removes a generation from the watches of all generations.
func (t *tenant) removeListed(e *generation, now time.Time) {
	e.listing.seenAt = time.Time{}
	for _, c := range slices.Clone(e.subscribers) {
		if c.everything {
			c.removeSubscription(c.at, now)
		}
	}
}

// endAll ends all watches of the tenant with the error err.
func (t *tenant) endAll(err error) {
	for _, w := range t.everything {
		w.endWithError(err)
	}
	for _, e := range t.order {
		for _, c := range e.subscribers {
			c.endWithError(err)
		}
	}
}

// mergeList applies the response to a list request. sweptGenerations contains the generations that the request was meant to
// poll.
func (t *tenant) mergeList(sweptGenerations []*generation, list *catalog.List, result *pollResult, now time.Time) {
	t.list.failing, t.list.failures, t.list.answeredAt = false, 0, now
	t.noteCut(list.Cut)
	records := list.Records
	t.discoverListed(records, now)
	for i := range records {
		if e := t.generations[records[i].ID]; e != nil {
			t.mergeRecord(e, &records[i], result, now)
		}
	}
	found := 0
	for _, e := range sweptGenerations {
		if _, carried := list.Find(e.id); carried {
			found++
			continue
		}
		t.readSingly(e, now)
	}
	t.list.rateSweep(found >= min(sweepFrom, len(sweptGenerations)), now)
}

// noteCut records whether a list was too long to be read completely. Of consecutive incomplete lists, it logs a warning only
// for the first.
func (t *tenant) noteCut(isCut bool) {
	if isCut && !t.list.cut {
		t.cfg.Logger.Warn("catalog list incomplete; reading generations individually", "api_key", t.cred.Tenant.Fingerprint())
	}
	t.list.cut = isCut
}

// discoverListed adds the generations in the catalog's list to each watch that covers all generations. It removes a settled
// generation from these watches when the list has not contained the generation for the time forgetAfter, and each of the watches
// has delivered its latest state.
func (t *tenant) discoverListed(records []catalog.Version, now time.Time) {
	all := t.coversList()
	for i := range records {
		if id := records[i].ID; all || t.generations[id] != nil {
			t.addListed(t.ensureGeneration(id, now), now)
		}
	}
	if t.list.carried = nil; len(t.everything) == 0 {
		return
	}
	t.list.storeIDs(records)
	for _, w := range t.everything {
		w.subscribeListed(now)
	}
	for _, e := range t.order {
		if seen := e.listing.seenAt; !seen.IsZero() && now.Sub(seen) > forgetAfter && e.hasReached(Settled, now, t.cfg.RefundWindow) && !e.isUndelivered() {
			t.removeListed(e, now)
		}
	}
}

// mergeRecord applies a record from a list. If a read might return more details than the record has, mergeRecord only stores
// the record as a hint until a read confirms it.
func (t *tenant) mergeRecord(e *generation, r *catalog.Version, result *pollResult, now time.Time) {
	known := e.fresh && e.state.State == r.State
	switch {
	case e.isPresumedDeleted() && r.State != catalog.StateDeleted:
		t.recheckGeneration(e, now)
	case known && (e.listing.etag == "" || e.listing.etag == r.Etag):
		e.confirmState(r.ObserveTime)
		t.scheduleNext(e, now)
	case isComplete(r.Generation) && (t.list.fullRecords || !e.fresh && !e.isKnownOtherwise(r.Etag)):
		t.applyRecord(e, r.Generation, r.Etag, result)
		t.scheduleNext(e, now)
	case known: // only details have changed; they may change often, so they do not justify an extra read
		e.setHint(r.Generation)
		t.scheduleNext(e, now)
	default:
		e.setHint(r.Generation)
		t.pollAt(e, now)
	}
	e.listing.etag, e.listing.state = r.Etag, r.State
}

// recheckGeneration schedules a read of a generation that is in the list although an earlier read did not find it. The list may
// be outdated, so recheckGeneration schedules at most one such read per listPause for each generation.
func (t *tenant) recheckGeneration(e *generation, now time.Time) {
	if now.Before(e.listing.readSinglyUntil) {
		return
	}
	e.fresh, e.listing.readSinglyUntil = false, now.Add(listPause)
	t.pollAt(e, now)
}

// applyHints applies hints. A hint is a record from the list that no read has confirmed yet. applyHints skips hints that
// isComplete rejects. It does nothing unless the last comparison showed that the list's records are as complete as the
// responses to reads.
func (t *tenant) applyHints(result *pollResult, now time.Time) {
	if !t.list.fullRecords {
		return
	}
	for _, e := range t.order {
		if hint := e.listing.hint; hint != nil && isComplete(*hint) && !e.polling.inFlight {
			e.listing.hint = nil
			t.applyRecord(e, *hint, hint.Etag(), result)
			t.scheduleNext(e, now)
		}
	}
}

// accountRead tracks reads of the account. If reads of a generation return 404, a read of the account shows whether the catalog
// works at all. accountRead is guarded by the mu of the tenant's agenda.
type accountRead struct{ wanted, inFlight bool }

// isDue reports whether the account must be read. At most one read is in flight.
func (r accountRead) isDue() bool { return r.wanted && !r.inFlight }
