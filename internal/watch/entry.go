package watch

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/watch/schedule"
)

// linger is how long an entry that nobody watches is kept, unpolled: a watcher that reconnects finds it,
// and its states stay in order. An entry without a state goes sooner, as callers can invent ids without end.
const (
	linger        = 30 * time.Second
	lingerUnknown = time.Second
)

// entry is the newest state of one generation, and when it is polled. The mutex of its agenda guards it.
type entry struct {
	id          string
	subscribers []subscriber

	state         catalog.Generation // the newest; its zero State means that none is known
	etag          string             // of the record as it was read, before anything was filled in
	status        lifecycle.Status   // the newest of its states that the ledger has
	missing       bool               // the catalog has never shown it
	deleted       bool               // by a call of ours: no answer brings it back
	ordered       bool               // there is an order of it, though nobody has seen it here
	absence       lifecycle.Absence  // what reads say that have not found it
	fresh         bool               // state was read since the entry is watched, and may be delivered
	sharedUpdates [2]*Update         // the newest state as an update, and as an initial one; nil until it is needed

	modelID   string        // of the order, where this process placed it
	created   time.Time     // when this process placed the order
	firstSeen time.Time     // when this process first heard of it
	ended     time.Time     // when this process first saw it terminal
	observed  bool          // this process saw it before it ended
	learned   bool          // its duration is in the history
	dropped   catalog.State // the last state that would have gone backwards, and was logged
	orderRef  TraceRef      // of the call that placed it, where this process did
	foundBy   TraceRef      // of the poll or the call that found the newest state

	polling   polling
	listing   listing
	idleSince time.Time // when the last watcher left
}

// polling is when an entry is polled.
type polling struct {
	due        time.Time     // next poll
	gap        time.Duration // from the last poll to the next, before the jitter; 0: there was none
	queueIndex int32         // place in the queue's heap, or notQueued
	inFlight   bool          // a poll of it is in flight
	failures   int           // in a row
	lastErr    string
	random     schedule.Source // of its jitter
}

// notQueued is the queueIndex of an entry that is not in the queue.
const notQueued = -1

// listPause is how long a poor list is not used.
const listPause = time.Minute

// listing is an entry's state in the catalog's list.
type listing struct {
	seenAt          time.Time           // when the list carried it last, or this process placed it; zero: never
	etag            string              // of its last record in the list
	state           catalog.State       // of the same; 0: it is not known
	hint            *catalog.Generation // its record in the list, until a read confirms it
	readSinglyUntil time.Time           // the list did not carry it: it is read singly until then
}

func newEntry(id string, now time.Time, seed uint64) *entry {
	return &entry{
		id: id, firstSeen: now, idleSince: now,
		polling: polling{random: schedule.NewSource(seed, id), due: now, queueIndex: notQueued},
	}
}

func (e *entry) version() catalog.Version { return catalog.Version{Generation: e.state, Etag: e.etag} }

// update is the newest state as an event.
func (e *entry) update() Update {
	return Update{Version: e.version(), Missing: e.missing}
}

// keptUntil is how long an idle entry is kept.
func (e *entry) keptUntil() time.Time {
	if e.state.State == 0 {
		return e.idleSince.Add(lingerUnknown)
	}
	return e.idleSince.Add(linger)
}

// sharedUpdate is the newest state as an event that all watchers share. It is made once and never changed.
func (e *entry) sharedUpdate(initial bool) *Update {
	at := 0
	if initial {
		at = 1
	}
	if e.sharedUpdates[at] == nil {
		update := e.update()
		update.Initial, update.Memo = initial, new(Memo)
		e.sharedUpdates[at] = &update
	}
	return e.sharedUpdates[at]
}

// advance applies a record, with the etag that it had when it was read. It reports whether a watcher can
// see the difference, and whether the record was dropped because it would have gone backwards.
func (e *entry) advance(g catalog.Generation, etag string) (changed, regressed bool) {
	if e.state.State != 0 && g.ObserveTime.Before(e.state.ObserveTime) {
		return false, false // an answer that was overtaken by a newer one
	}
	e.invalidate()
	e.absence = lifecycle.Absence{}
	if e.goneByNotFound() {
		// The 404 was wrong or too early: the deletion is undone.
		e.state, e.status, e.ended, e.observed, e.fresh = catalog.Generation{}, lifecycle.Unseen, time.Time{}, false, false
	}
	if !e.mayBecome(g.State) {
		e.state.ObserveTime = g.ObserveTime
		changed, e.fresh = !e.fresh, true // the kept state may be new to a watcher
		return changed, true
	}
	changed = etag != e.etag || !e.fresh
	e.etag, e.fresh, e.missing = etag, true, false
	e.status = max(e.status, StatusOf(g.State))
	e.state = e.fillIn(g)
	return changed, false
}

// invalidate drops the shared updates, as they are not the newest any more.
func (e *entry) invalidate() { e.sharedUpdates = [2]*Update{} }

// confirm notes that the catalog gave the same state again.
func (e *entry) confirm(at time.Time) {
	e.state.ObserveTime = latest(e.state.ObserveTime, at)
	e.absence = lifecycle.Absence{}
	e.invalidate()
}

// knownOtherwise reports whether a new watcher has another etag of the generation than a list. The list may say
// less than the read did that the etag is of, so a read decides whether the state has changed.
func (e *entry) knownOtherwise(listed string) bool {
	return slices.ContainsFunc(e.subscribers, func(s subscriber) bool {
		sub := &s.subscriptions[s.at]
		return sub.flags&(pending|hasEtag) == pending|hasEtag && sub.deliveredEtag != listed
	})
}

// setHint keeps a record of the list until a read confirms it. It keeps a copy: a pointer into the list
// would keep the whole list in memory.
func (e *entry) setHint(g catalog.Generation) { e.listing.hint = &g }

// mayBecome reports whether the state next may come after the states before: as [lifecycle.Status.MayBecome] says of those
// that it has. Each may become deleted, and a state that this build does not know is no end.
func (e *entry) mayBecome(next catalog.State) bool {
	switch {
	case next == catalog.StateDeleted:
		return true
	case e.state.State == catalog.StateDeleted:
		return false
	case next == catalog.StateUnrecognized:
		return !e.state.State.Terminal()
	}
	return e.status.MayBecome(StatusOf(next))
}

// StatusOf is a state of the catalog as the ledger has it. One that was deleted, or that this build does not know, has none.
func StatusOf(s catalog.State) lifecycle.Status { return statuses[s] }

// StateOf is a state of the ledger as the catalog has it; one of which nothing was seen is queued.
func StateOf(s lifecycle.Status) catalog.State {
	for state, status := range statuses {
		if status == s {
			return state
		}
	}
	return catalog.StateQueued
}

var statuses = map[catalog.State]lifecycle.Status{
	catalog.StateQueued: lifecycle.Queued, catalog.StateRunning: lifecycle.Running, catalog.StateSucceeded: lifecycle.Succeeded,
	catalog.StateFailed: lifecycle.Failed, catalog.StateRefunded: lifecycle.Refunded,
}

// fillIn fills the gaps of a record with what this process knows.
func (e *entry) fillIn(g catalog.Generation) catalog.Generation {
	g.ModelID = cmp.Or(g.ModelID, e.modelID, e.state.ModelID)
	g.CreateTime = cmp.Or(g.CreateTime, e.created, e.state.CreateTime)
	if g.State.Terminal() {
		if e.ended.IsZero() {
			e.ended = g.ObserveTime
			e.observed = e.state.State != 0
		}
		if g.TerminalTime.IsZero() {
			g.TerminalTime = e.ended
		}
	}
	return g
}

// markGone notes that the catalog has no such generation.
func (e *entry) markGone(now time.Time) {
	e.invalidate()
	e.missing = e.missing || e.state.State == 0 && !e.ordered
	gone := e.state
	gone.ID, gone.State, gone.File, gone.Text = e.id, catalog.StateDeleted, nil, nil
	gone.ObserveTime = now
	e.etag = catalog.Generation{ID: e.id, State: catalog.StateDeleted}.Etag()
	e.fresh = true
	e.state = e.fillIn(gone)
}

// exists reports whether one read that does not find the generation says nothing: there is or was one.
func (e *entry) exists() bool {
	return e.ordered || !e.listing.seenAt.IsZero() || e.state.State != 0 && !e.goneByNotFound()
}

// goneByNotFound reports whether the generation is gone by a 404 alone.
func (e *entry) goneByNotFound() bool { return e.state.State == catalog.StateDeleted && !e.deleted }

// notYetVisible reports whether the catalog may not show the order yet.
func (e *entry) notYetVisible(now time.Time) bool { return e.state.State != 0 && e.justCreated(now) }

// justCreated reports whether a 404 of the order says nothing yet.
func (e *entry) justCreated(now time.Time) bool { return now.Sub(e.created) < lifecycle.VisibleAfter }

// reached reports whether the goal is met at now.
func (e *entry) reached(goal Goal, now time.Time, refundWindow time.Duration) bool {
	if !e.fresh || !e.state.State.Terminal() {
		return false
	}
	return goal == Terminal || !now.Before(e.settledAt(refundWindow))
}

// settledAt gives the time from which no money can move any more; it is only meaningful for a terminal
// state. The catalog's clock may differ from ours, so its time counts only for an end that this process did
// not see, and never where it lies in the future.
func (e *entry) settledAt(refundWindow time.Duration) time.Time {
	if e.state.State != catalog.StateFailed {
		return time.Time{}
	}
	end := e.state.TerminalTime
	if e.observed || end.After(e.ended) {
		end = e.ended
	}
	return end.Add(refundWindow)
}

// startTime is the best guess of when the generation began. Our own clock comes first.
func (e *entry) startTime() time.Time {
	if !e.created.IsZero() {
		return e.created
	}
	if t := e.state.CreateTime; !t.IsZero() && t.Before(e.firstSeen) {
		return t
	}
	return e.firstSeen
}

// waitingSince is since when the entry waits for an answer.
func (e *entry) waitingSince() time.Time { return latest(e.state.ObserveTime, e.firstSeen) }

// duration is how long a succeeded generation took; 0 where that is not known. Two times of the catalog
// are best, because they are of one clock. Without them, the generation must have been seen before it ended.
func (e *entry) duration(g catalog.Generation, before catalog.State) time.Duration {
	switch {
	case g.State != catalog.StateSucceeded || e.learned:
		return 0
	case !g.CreateTime.IsZero() && !g.TerminalTime.IsZero():
		return g.TerminalTime.Sub(g.CreateTime)
	case before != 0 && !before.Terminal():
		return e.state.TerminalTime.Sub(e.startTime())
	}
	return 0
}

// unsharedRequests is how many requests the watches of an entry would have made since the last poll, had
// each polled for itself by the same schedule. Watches of everything would request the list.
func (e *entry) unsharedRequests(now time.Time) (requests float64) {
	for _, c := range e.subscribers {
		if !c.everything {
			requests++
		}
	}
	if e.polling.gap > 0 && e.fresh {
		requests *= min(1, now.Sub(e.state.ObserveTime).Seconds()/e.polling.gap.Seconds())
	}
	return requests
}

// fewestWaits is the smallest number of generations that a watcher of the entry waits for: the fewer, the
// more a poll of it is worth. A watcher of everything waits for all active ones, which are listed.
func (e *entry) fewestWaits(listed int) int {
	least := math.MaxInt
	for _, c := range e.subscribers {
		if least = min(least, c.waits(listed)); least <= 1 {
			return 1
		}
	}
	return least
}

// earliest gives the earlier of two times; zero is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
