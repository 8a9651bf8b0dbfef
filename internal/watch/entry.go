package watch

import (
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch/schedule"
)

// visibilityGrace is how long after a create of this process a 404 means "not
// visible yet" and not "gone".
const visibilityGrace = 30 * time.Second

// entry is what is known of one generation of one credential. The tenant's mutex guards it.
type entry struct {
	id          string
	subscribers []subscriber

	state         catalog.Generation // the newest; its zero State means that none is known
	etag          string             // of the record as it was read, before anything was filled in
	rank          int                // highest rank that the state has had
	missing       bool               // the catalog has never shown it
	deleted       bool               // by a call of ours: no answer brings it back
	fresh         bool               // state was read since the entry is watched, and may be delivered
	sharedUpdates [2]*Update         // the newest state as all are told it, later and at first; nil where it was not yet

	modelID   string        // of the order, where this process placed it
	created   time.Time     // when this process placed the order
	firstSeen time.Time     // when this process first heard of it
	ended     time.Time     // when it was first seen terminal here
	observed  bool          // it ended while this process looked
	learned   bool          // its duration is in the history
	dropped   catalog.State // would have gone backwards, and was logged
	orderRef  TraceRef      // of the call that placed it, where this process did
	foundBy   TraceRef      // of the poll or the call that found the newest state

	polling   polling
	listing   listing
	peer      *peerState // nil while no peer has to do with it
	idleSince time.Time  // since when nobody watches
}

// polling is when an entry is polled.
type polling struct {
	due        time.Time     // next poll
	wakeAt     time.Time     // the same, or later where a peer polls meanwhile
	gap        time.Duration // from the last poll to the next, before the jitter; 0: there was none
	queueIndex int32         // place in the queue, or one of the names below
	inFlight   bool          // a poll of it is on its way
	failures   int           // in a row
	lastErr    string
	random     schedule.Source // of its jitter
}

// Places that are none.
const (
	notQueued = -1 // it is not in the queue
	dequeued  = -2 // its time has come, and it was taken out
)

// listing is what the list says of an entry.
type listing struct {
	seenAt          time.Time           // when the list carried it last, or this process placed it; zero: never
	etag            string              // of what the list said of it last
	hint            *catalog.Generation // what the list said, while a read is to confirm it
	readSinglyUntil time.Time           // the list did not carry it: it is read by itself until then
}

func newEntry(id string, now time.Time, seed uint64) *entry {
	return &entry{
		id: id, firstSeen: now, idleSince: now,
		polling: polling{random: schedule.NewSource(seed, id), due: now, queueIndex: notQueued},
	}
}

// update is the newest state as an event.
func (e *entry) update() Update {
	return Update{Generation: e.state, Etag: e.etag, Missing: e.missing}
}

// keptUntil is how long an entry is kept that nobody watches any more.
func (e *entry) keptUntil() time.Time {
	if e.state.State == 0 {
		return e.idleSince.Add(lingerUnknown)
	}
	return e.idleSince.Add(linger)
}

// sharedUpdate is the newest state as an event for every watcher: made once, and not touched again.
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

// advance takes a record in, with the etag that it had when it was read. It reports whether a
// watcher can see the difference, and whether the record was dropped because it would have gone
// backwards.
func (e *entry) advance(g catalog.Generation, etag string) (changed, regressed bool) {
	if e.state.State != 0 && g.ObserveTime.Before(e.state.ObserveTime) {
		return false, false // an answer that was overtaken by a newer one
	}
	e.invalidate()
	if e.goneByNotFound() {
		// The 404 was wrong or too early: what was concluded from it does not hold.
		e.state, e.rank, e.ended, e.observed, e.fresh = catalog.Generation{}, 0, time.Time{}, false, false
	}
	if !e.mayBecome(g.State) {
		e.state.ObserveTime = g.ObserveTime
		changed, e.fresh = !e.fresh, true // what is kept may be news to a watcher
		return changed, true
	}
	changed = etag != e.etag || !e.fresh
	e.etag, e.fresh, e.missing = etag, true, false
	e.rank = max(e.rank, ranks[g.State])
	e.state = e.fillIn(g)
	return changed, false
}

// renew notes that what was shared is not the newest any more.
func (e *entry) invalidate() { e.sharedUpdates = [2]*Update{} }

// confirm notes that the catalog said again what is known.
func (e *entry) confirm(at time.Time) {
	e.state.ObserveTime = latest(e.state.ObserveTime, at)
	e.invalidate()
}

// keep keeps a record of the list until a read confirms it: a copy, not to keep the whole list alive.
func (e *entry) setHint(g catalog.Generation) { e.listing.hint = &g }

// follows reports whether the state next may come after what was seen. A terminal
// state stays, except that failed may become refunded, and anything may be deleted.
func (e *entry) mayBecome(next catalog.State) bool {
	switch {
	case next == catalog.StateDeleted:
		return true
	case e.state.State.Terminal():
		return next == e.state.State || e.state.State == catalog.StateFailed && next == catalog.StateRefunded
	case next == catalog.StateUnrecognized:
		return true
	}
	return ranks[next] >= e.rank
}

// ranks orders the states that follow each other. What this build does not know has no place in the order.
var ranks = map[catalog.State]int{
	catalog.StateQueued: 1, catalog.StateRunning: 2, catalog.StateSucceeded: 3, catalog.StateFailed: 3, catalog.StateRefunded: 4, catalog.StateDeleted: 5,
}

// complete fills in what this process knows and the record does not say.
func (e *entry) fillIn(g catalog.Generation) catalog.Generation {
	if g.ModelID == "" {
		g.ModelID = e.modelID
	}
	if g.CreateTime.IsZero() {
		g.CreateTime = e.created
	}
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

// vanish notes that the catalog has no such generation.
func (e *entry) markGone(now time.Time) {
	e.invalidate()
	e.missing = e.missing || e.state.State == 0
	gone := e.state
	gone.ID, gone.State, gone.File, gone.Text = e.id, catalog.StateDeleted, nil, nil
	gone.ObserveTime = now
	e.etag = catalog.Generation{ID: e.id, State: catalog.StateDeleted}.Etag()
	e.fresh, e.rank = true, ranks[catalog.StateDeleted]
	e.state = e.fillIn(gone)
}

// denied reports whether all that speaks for the end of the generation is a 404.
func (e *entry) goneByNotFound() bool { return e.state.State == catalog.StateDeleted && !e.deleted }

// unseen reports whether the catalog may not show the order yet.
func (e *entry) notYetVisible(now time.Time) bool { return e.state.State != 0 && e.justCreated(now) }

// young reports whether a 404 of the order says nothing yet.
func (e *entry) justCreated(now time.Time) bool { return now.Sub(e.created) < visibilityGrace }

// reached reports whether the goal is met at now.
func (e *entry) reached(goal Goal, now time.Time, refundWindow time.Duration) bool {
	if !e.fresh || !e.state.State.Terminal() {
		return false
	}
	return goal == Terminal || !now.Before(e.settledAt(refundWindow))
}

// settles gives the time from which no money can move any more; it is only
// meaningful for a terminal state. The catalog's clock need not be ours, so what it says
// counts only for an end that this process did not see, and never for one to come.
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

// birth is the best guess of when the generation began. Our own clock comes first.
func (e *entry) startTime() time.Time {
	if !e.created.IsZero() {
		return e.created
	}
	if t := e.state.CreateTime; !t.IsZero() && t.Before(e.firstSeen) {
		return t
	}
	return e.firstSeen
}

// took is how long a generation took that has succeeded; 0 where that is not known. Two times of
// the catalog are best, because they are of one clock. Without them, only a generation that was
// seen before it ended tells.
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

// unshared is how many requests the watches of an entry would have made since the last poll,
// had each polled for itself by the same schedule. Those of everything would ask the list.
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
