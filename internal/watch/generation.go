package watch

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/watch/schedule"
)

// linger is the time for which a generation without watchers is kept in memory. During this time, it is not polled. A watcher
// that reconnects within this time starts from the kept state, so it never receives an older one. lingerUnknown applies to a
// generation without a known state. It is shorter, because callers can send arbitrary IDs.
const (
	linger        = 30 * time.Second
	lingerUnknown = time.Second
)

// pollResult collects the changes that a response causes.
type pollResult struct {
	Outcome
	found   TraceRef
	changed []*generation // generations whose new states must be recorded and published
}

// generation contains the latest known state of a catalog generation, and its poll schedule. The mutex of its agenda guards it.
type generation struct {
	id          string
	subscribers []subscriber

	state         catalog.Generation // latest state; zero if no state is known
	etag          string             // etag of the record as received, before addMissing added missing values
	status        lifecycle.Status   // most advanced status so far; a deleted or unrecognized state does not change it
	missing       bool               // whether the generation counts as deleted although the catalog never returned it and no order is known
	deleted       bool               // whether a call to Easel deleted the generation, so that no later response restores it
	ordered       bool               // whether the generation is known to have an order, even if no state was ever received
	absence       lifecycle.Absence  // tracks the reads that returned 404
	fresh         bool               // whether the state is recent enough to be delivered; if not, it must be read first
	sharedUpdates [2]*Update         // [0] is an Update that reports a change to the latest state; [1] is an Update that starts a watch with this state; nil until needed

	modelID   string        // model in the order; empty if another process placed the order
	created   time.Time     // time when this process placed the order; zero if another process placed it
	kept      bool          // whether the generation may be polled without a watcher, because this process ordered it under a shared API key; see [agenda.isKept]
	firstSeen time.Time     // time when this process started to track the generation
	ended     time.Time     // time when this process first saw the generation in a terminal state
	observed  bool          // whether this process saw the generation before it reached a terminal state
	learned   bool          // whether the generation's duration was added to the history of its model
	dropped   catalog.State // last state that was dropped because it may not follow the current state; stored so that it is logged only once
	orderRef  TraceRef      // trace of the call that ordered the generation; nil if another process ordered it
	foundBy   TraceRef      // trace of the poll, or of the call to Easel, that received the latest state

	polling   polling
	listing   listing
	recording recording
	idleSince time.Time // time when the last watcher left, or when the generation was added
}

// polling is the poll schedule of a generation.
type polling struct {
	due        time.Time     // time of the next poll
	gap        time.Duration // planned interval from the last poll to the next, without jitter; zero before the first poll
	queueIndex int32         // index in the queue's heap, or notQueued
	inFlight   bool          // whether a poll of the generation is in flight
	failures   int           // number of consecutive failed polls of the generation
	lastErr    string
	random     schedule.Source // random source for the jitter of the generation's polls
}

// notQueued is the queueIndex of a generation that is not in the queue.
const notQueued = -1

// listing contains the information about a generation that comes from the catalog's list.
type listing struct {
	seenAt          time.Time           // time when a list last contained the generation, or when this process ordered it, whichever is later; zero if neither has happened
	etag            string              // etag of the generation's latest record in a list
	state           catalog.State       // state in the generation's latest record in a list; zero if there is no record
	hint            *catalog.Generation // record from the list that no read has confirmed yet; nil if there is no such record
	readSinglyUntil time.Time           // time until which only individual reads poll the generation, and list requests do not
}

func newGeneration(id string, now time.Time, seed uint64) *generation {
	return &generation{
		id: id, firstSeen: now, idleSince: now,
		polling: polling{random: schedule.NewSource(seed, id), due: now, queueIndex: notQueued},
	}
}

func (e *generation) version() catalog.Version {
	return catalog.Version{Generation: e.state, Etag: e.etag}
}

// isBehind reports whether the given state in the ledger is later than the state of e.
func (e *generation) isBehind(recorded ledger.State) bool {
	switch status := StatusOf(e.state.State); {
	case e.state.State == catalog.StateDeleted:
		return false
	case recorded.Deleted:
		return true
	default:
		return recorded.Status != status && status.MayBecome(recorded.Status)
	}
}

// recordSighting marks the latest state as not recorded yet, and adds the generation to result. A deletion that was only
// inferred from 404s will be recorded only if e.absence.Lasting is set.
func (e *generation) recordSighting(result *pollResult) {
	if presumed := e.isPresumedDeleted(); !presumed || e.absence.Lasting {
		e.recording.addState(Sighting{e.version(), presumed})
	}
	result.changed = append(result.changed, e)
}

// latestUpdate returns the latest state as an Update.
func (e *generation) latestUpdate() Update {
	return Update{Version: e.version(), Missing: e.missing}
}

// keptUntil returns the time until which the generation is kept in memory without watchers.
func (e *generation) keptUntil() time.Time {
	if e.state.State == 0 {
		return e.idleSince.Add(lingerUnknown)
	}
	return e.idleSince.Add(linger)
}

// sharedUpdate returns the latest state as an Update that all watchers share. If isInitial is true, the Update starts a watch.
// Otherwise, it reports a change. Each Update is created at most once for each state, and never modified.
func (e *generation) sharedUpdate(isInitial bool) *Update {
	at := 0
	if isInitial {
		at = 1
	}
	if e.sharedUpdates[at] == nil {
		update := e.latestUpdate()
		update.Initial, update.Memo = isInitial, new(Memo)
		e.sharedUpdates[at] = &update
	}
	return e.sharedUpdates[at]
}

// applyRecord applies a record from the catalog. etag is the etag of the record as received. mustNotify is true if watchers
// must be notified. hasRegressed is true if the record was dropped because its state may not follow the current state.
func (e *generation) applyRecord(g catalog.Generation, etag string) (mustNotify, hasRegressed bool) {
	if e.state.State != 0 && g.ObserveTime.Before(e.state.ObserveTime) {
		return false, false // a newer response was applied first
	}
	e.discardUpdates()
	e.absence = lifecycle.Absence{}
	if e.isPresumedDeleted() {
		// The generation exists after all, so its presumed deletion is undone.
		e.state, e.status, e.ended, e.observed, e.fresh = catalog.Generation{}, lifecycle.Unseen, time.Time{}, false, false
	}
	if !e.mayBecome(g.State) {
		e.state.ObserveTime = g.ObserveTime
		mustNotify, e.fresh = !e.fresh, true // the current state is now recent enough to be delivered; watchers are notified if it was too old before
		return mustNotify, true
	}
	mustNotify = etag != e.etag || !e.fresh
	e.etag, e.fresh, e.missing = etag, true, false
	e.status = max(e.status, StatusOf(g.State))
	e.state = e.addMissing(g)
	return mustNotify, false
}

// discardUpdates discards the shared updates, because the state has changed or no watcher is left.
func (e *generation) discardUpdates() { e.sharedUpdates = [2]*Update{} }

// confirmState records that the catalog returned the same state again.
func (e *generation) confirmState(at time.Time) {
	e.state.ObserveTime = latest(e.state.ObserveTime, at)
	e.absence = lifecycle.Absence{}
	e.discardUpdates()
}

// isKnownOtherwise reports whether a new watcher's etag differs from the etag of the generation's record in the list. This does
// not prove that the state has changed, because the watcher's etag may come from a read, which returns more details than the
// list. Only another read can show whether the state has changed.
func (e *generation) isKnownOtherwise(listed string) bool {
	return slices.ContainsFunc(e.subscribers, func(s subscriber) bool {
		sub := &s.subscriptions[s.at]
		return sub.flags&(pending|hasEtag) == pending|hasEtag && sub.deliveredEtag != listed
	})
}

// isUndelivered reports whether any watcher of all generations has not delivered the latest state yet. A watch that an
// error has ended counts only if the change was queued before the error.
func (e *generation) isUndelivered() bool {
	return slices.ContainsFunc(e.subscribers, func(s subscriber) bool {
		sub := &s.subscriptions[s.at]
		return s.everything && (sub.flags&(dirty|pending) != 0 || s.err == nil && sub.deliveredEtag != e.etag)
	})
}

// setHint stores a record from the list until a read confirms it. It stores a copy, because a pointer to the record would keep
// the complete list in memory.
func (e *generation) setHint(g catalog.Generation) { e.listing.hint = &g }

// mayBecome reports whether the given state may follow the current state, according to [lifecycle.Status.MayBecome]. Any state
// may become deleted. No other state may follow a deletion. An unrecognized state may follow any state that is not terminal.
func (e *generation) mayBecome(next catalog.State) bool {
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

// addMissing sets the model and the times of a record if they are missing. The model and the start time come from the order or
// an earlier record. The end time is the time when this process first saw a terminal state.
func (e *generation) addMissing(g catalog.Generation) catalog.Generation {
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

// markDeleted sets the state to deleted. It also sets the field missing if no state was ever received and there is no order.
func (e *generation) markDeleted(now time.Time) {
	e.discardUpdates()
	e.missing = e.missing || e.state.State == 0 && !e.ordered
	deleted := e.state
	deleted.ID, deleted.State, deleted.File, deleted.Text = e.id, catalog.StateDeleted, nil, nil
	deleted.ObserveTime = now
	e.etag = catalog.Generation{ID: e.id, State: catalog.StateDeleted}.Etag()
	e.fresh = true
	e.state = e.addMissing(deleted)
}

// isKnownToExist reports whether the generation is known to exist or to have existed. If so, a single 404 does not prove that
// it is deleted.
func (e *generation) isKnownToExist() bool {
	return e.ordered || !e.listing.seenAt.IsZero() || e.state.State != 0 && !e.isPresumedDeleted()
}

// isPresumedDeleted reports whether the generation's deletion was only inferred from 404s. It returns false if the generation
// is not deleted, or if a call to Easel deleted it.
func (e *generation) isPresumedDeleted() bool {
	return e.state.State == catalog.StateDeleted && !e.deleted
}

// mayBeInvisible reports whether this process ordered the generation so recently that the catalog may not return it yet. It
// returns false if no state is known.
func (e *generation) mayBeInvisible(now time.Time) bool {
	return e.state.State != 0 && e.isJustCreated(now)
}

// isJustCreated reports whether this process placed the order so recently that the catalog may still respond with a 404.
func (e *generation) isJustCreated(now time.Time) bool {
	return now.Sub(e.created) < lifecycle.VisibleAfter
}

// hasReached reports whether the latest state is fresh and terminal and, if the goal is [Settled], the charge is final.
func (e *generation) hasReached(goal Goal, now time.Time, refundWindow time.Duration) bool {
	if !e.fresh || !e.state.State.Terminal() {
		return false
	}
	return goal == Terminal || !now.Before(e.settledAt(refundWindow))
}

// settledAt returns the time from which the charge of a terminal generation is final. For a failed generation, this is the end
// of its refund window. For any other generation, it is the zero time.
//
// The window starts when this process first saw the failure. If this process had not seen the generation before the failure,
// the end time in the record counts if it is earlier. In all other cases, the end time in the record is ignored, because the
// catalog's clock may differ from the local clock.
func (e *generation) settledAt(refundWindow time.Duration) time.Time {
	if e.state.State != catalog.StateFailed {
		return time.Time{}
	}
	end := e.state.TerminalTime
	if e.observed || end.After(e.ended) {
		end = e.ended
	}
	return end.Add(refundWindow)
}

// startTime returns the best estimate of the time when the generation was ordered, by the local clock if possible.
func (e *generation) startTime() time.Time {
	if !e.created.IsZero() {
		return e.created
	}
	if t := e.state.CreateTime; !t.IsZero() && t.Before(e.firstSeen) {
		return t
	}
	return e.firstSeen
}

// waitingSince returns the time of the last response for the generation, or firstSeen if that is later.
func (e *generation) waitingSince() time.Time { return latest(e.state.ObserveTime, e.firstSeen) }

// duration returns the duration of a generation that succeeded. It returns 0 if the duration is unknown or already in the
// history. It prefers the catalog's start and end times, because both are from the same clock. Without them, it uses local
// times, but only if previousState, the previous state that this process saw, is known and not terminal.
func (e *generation) duration(g catalog.Generation, previousState catalog.State) time.Duration {
	switch {
	case g.State != catalog.StateSucceeded || e.learned:
		return 0
	case !g.CreateTime.IsZero() && !g.TerminalTime.IsZero():
		return g.TerminalTime.Sub(g.CreateTime)
	case previousState != 0 && !previousState.Terminal():
		return e.state.TerminalTime.Sub(e.startTime())
	}
	return 0
}

// fewestWaits returns the smallest number of generations that any watcher of this generation waits for. The smaller it is, the
// more useful a poll of this generation is. A watcher of all generations waits for at least all listed generations.
func (e *generation) fewestWaits(listed int) int {
	least := math.MaxInt
	for _, c := range e.subscribers {
		if least = min(least, c.unfinishedCount(listed)); least <= 1 {
			return 1
		}
	}
	return least
}

// earliest returns the earlier of two times. If one of them is zero, it returns the other.
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
