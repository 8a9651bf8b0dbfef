package watch

import (
	"math"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// visibilityGrace is how long after a create of this process a 404 means "not
// visible yet" and not "gone".
const visibilityGrace = 30 * time.Second

// entry is what is known of one generation of one credential.
type entry struct {
	id    string
	subs  []ref              // the watches that cover it
	dice  dice               // of its jitter
	state catalog.Generation // the newest; its zero State means that none is known
	etag  string             // of the record as it was read, before anything was filled in
	rank  int                // highest rank that the state has had

	dropped  catalog.State       // would have gone backwards, and was logged
	missing  bool                // the catalog has never shown it
	deleted  bool                // by a call of ours: no answer brings it back
	fresh    bool                // state was read since the entry is watched, and may be told
	listEtag string              // of what the list said of it last
	hint     *catalog.Generation // what the list said, while a read is to confirm it
	modelID  string              // of the order, where this process placed it
	created  time.Time           // when this process placed the order
	began    time.Time           // when this process first heard of it
	ended    time.Time           // when it was first seen terminal here
	observed bool                // it ended while this process looked

	due      time.Time     // next poll
	gap      time.Duration // from the last poll to the next, before the jitter
	busy     bool          // a poll of it is on its way
	swept    bool          // and that poll is a sweep
	alone    time.Time     // the list did not carry it: it is read by itself until then
	failures int
	lastErr  string
	idle     time.Time  // since when nobody watches
	listed   time.Time  // when the list carried it last, or this process placed it
	learned  bool       // its duration is in the history
	order    Mark       // of the call that placed it, where this process did
	found    Mark       // of the poll or the call that has told the newest state
	told     [2]*Update // the newest state as it is told to all, at first and later; nil where it was not yet
	sharing  *sharing   // nil while no peer has to do with it
}

// ref is a watch and the place of the entry in it.
type ref struct {
	sub *subscription
	at  int32
}

func newEntry(id string, now time.Time, seed uint64) *entry {
	return &entry{id: id, dice: diceOf(seed, id), began: now, due: now, idle: now}
}

// update is the newest state as an event.
func (e *entry) update() Update {
	return Update{Generation: e.state, Etag: e.etag, Missing: e.missing}
}

// shared is the newest state as an event for every watcher: made once, and not touched again.
func (e *entry) shared(initial bool) *Update {
	at := 0
	if initial {
		at = 1
	}
	if e.told[at] == nil {
		update := e.update()
		update.Initial, update.Memo = initial, new(Memo)
		e.told[at] = &update
	}
	return e.told[at]
}

// renew notes that what was shared is not the newest any more.
func (e *entry) renew() { e.told = [2]*Update{} }

// tell marks the entry in every watch that covers it, and wakes them.
func (e *entry) tell() {
	for _, r := range e.subs {
		r.sub.mark(r.at)
	}
}

// rank orders the states that follow each other. What this build does not know has
// no place in the order.
func rank(s catalog.State) int {
	switch s {
	case catalog.StateQueued:
		return 1
	case catalog.StateRunning:
		return 2
	case catalog.StateSucceeded, catalog.StateFailed:
		return 3
	case catalog.StateRefunded:
		return 4
	case catalog.StateDeleted:
		return 5
	}
	return 0
}

// follows reports whether the state next may come after what was seen. A terminal
// state stays, except that failed may become refunded, and anything may be deleted.
func (e *entry) follows(next catalog.State) bool {
	switch {
	case next == catalog.StateDeleted:
		return true
	case e.state.State.Terminal():
		return next == e.state.State || e.state.State == catalog.StateFailed && next == catalog.StateRefunded
	case next == catalog.StateUnrecognized:
		return true
	}
	return rank(next) >= e.rank
}

// advance takes a record in, with the etag that it had when it was read. It reports whether a
// watcher can see the difference, and whether the record was dropped because it would have gone
// backwards.
func (e *entry) advance(g catalog.Generation, etag string) (changed, regressed bool) {
	if e.state.State != 0 && g.ObserveTime.Before(e.state.ObserveTime) {
		return false, false // an answer that was overtaken by a newer one
	}
	e.renew()
	if e.denied() {
		// The 404 was wrong or too early: what was concluded from it does not hold.
		e.state, e.rank, e.ended, e.observed, e.fresh = catalog.Generation{}, 0, time.Time{}, false, false
	}
	if !e.follows(g.State) {
		e.state.ObserveTime = g.ObserveTime
		changed, e.fresh = !e.fresh, true // what is kept may be news to a watcher
		return changed, true
	}
	changed = etag != e.etag || !e.fresh
	e.etag, e.fresh, e.missing = etag, true, false
	e.rank = max(e.rank, rank(g.State))
	e.state = e.complete(g)
	return changed, false
}

// complete fills in what this process knows and the record does not say.
func (e *entry) complete(g catalog.Generation) catalog.Generation {
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
func (e *entry) vanish(now time.Time) {
	e.renew()
	e.missing = e.missing || e.state.State == 0
	gone := e.state
	gone.ID, gone.State, gone.File, gone.Text = e.id, catalog.StateDeleted, nil, nil
	gone.ObserveTime = now
	e.etag = catalog.Generation{ID: e.id, State: catalog.StateDeleted}.Etag()
	e.fresh, e.rank = true, rank(catalog.StateDeleted)
	e.state = e.complete(gone)
}

// denied reports whether all that speaks for the end of the render is a 404.
func (e *entry) denied() bool { return e.state.State == catalog.StateDeleted && !e.deleted }

// reached reports whether the goal is met at now.
func (e *entry) reached(goal Goal, now time.Time, refundWindow time.Duration) bool {
	if !e.fresh || !e.state.State.Terminal() {
		return false
	}
	return goal == Terminal || !now.Before(e.settles(refundWindow))
}

// settles gives the time from which no money can move any more; it is only
// meaningful for a terminal state. The catalog's clock need not be ours, so what it says
// counts only for an end that this process did not see, and never for one to come.
func (e *entry) settles(refundWindow time.Duration) time.Time {
	if e.state.State != catalog.StateFailed {
		return time.Time{}
	}
	end := e.state.TerminalTime
	if e.observed || end.After(e.ended) {
		end = e.ended
	}
	return end.Add(refundWindow)
}

// wanted reports whether a poll of the entry would serve anybody.
func (e *entry) wanted(now time.Time, refundWindow time.Duration) bool {
	for _, r := range e.subs {
		if !e.reached(r.sub.goal, now, refundWindow) {
			return true
		}
	}
	return false
}

// share is how many renders the watch waits for that waits for the fewest, this one among
// them: what a poll of the entry is worth to somebody. A watch of everything does not wait for
// what has ended, but for as many as are shown.
func (e *entry) share(shown int) int {
	least := math.MaxInt
	for _, r := range e.subs {
		waits := r.sub.open
		switch {
		case r.sub.relays:
			waits = e.sharing.waits
		case r.sub.everything:
			waits = shown
		}
		if least = min(least, waits); least <= 1 {
			return 1
		}
	}
	return least
}

// unseen reports whether the catalog may not show the order yet.
func (e *entry) unseen(now time.Time) bool {
	return e.state.State != 0 && e.young(now)
}

// young reports whether a 404 of the order says nothing yet.
func (e *entry) young(now time.Time) bool { return now.Sub(e.created) < visibilityGrace }

// birth is the best guess of when the render began. Our own clock comes first.
func (e *entry) birth() time.Time {
	if !e.created.IsZero() {
		return e.created
	}
	if t := e.state.CreateTime; !t.IsZero() && t.Before(e.began) {
		return t
	}
	return e.began
}

// took is how long a render took that has succeeded; 0 where that is not known. Two times of
// the catalog are best, because they are of one clock. Without them, only a render that was
// seen before it ended tells.
func (e *entry) took(g catalog.Generation, before catalog.State) time.Duration {
	switch {
	case g.State != catalog.StateSucceeded || e.learned:
		return 0
	case !g.CreateTime.IsZero() && !g.TerminalTime.IsZero():
		return g.TerminalTime.Sub(g.CreateTime)
	case before != 0 && !before.Terminal():
		return e.state.TerminalTime.Sub(e.birth())
	}
	return 0
}
