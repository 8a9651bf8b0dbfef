package watch

import (
	"cmp"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

const (
	defaultHeartbeat = 15 * time.Second
	defaultStall     = 30 * time.Second
)

// watcher is what one stream covers, what it was told, and what is next. There may be a hundred
// thousand of them, so nothing of the request is kept that is not needed any more. What can change
// is guarded by the tenant's mutex, and quiet belongs to the turn of its delivery.
type watcher struct {
	tenant     *tenant
	heartbeat  time.Duration // longest silence
	stall      time.Duration // longest time that one delivery may take
	goal       Goal
	everything bool     // it is of all that the catalog lists
	notify     func()   // that there is something to deliver
	relay      bool     // it stands for what peers wait for: see Peering
	trace      TraceRef // of the watch

	heartbeatAt time.Time // there is a heartbeat then, if nothing was delivered before
	until       time.Time // it ends then; zero: never

	subscriptions []subscription
	free          []int32 // places in items that are empty
	dirty         []int32 // places whose entry changed since it was told
	unreached     int     // goals not reached
	pending       int     // of the first set, not introduced yet
	initialCount  int     // introduced
	initialKnown  bool    // the first set is known: the first list has come, or the API key is proven
	caughtUp      bool
	err           error // why it ends before its goal
}

// newcomer is a watcher whose API key is not proven yet: ids and keys that are made up cost little.
type newcomer struct {
	*watcher
	remaining []string // of what it names
}

// cover is a watcher of an entry, and the place of the entry in it.
type subscriber struct {
	*watcher
	at int32
}

// waits is how many generations a watcher waits for, as far as it concerns one of them.
func (w *watcher) waits(e *entry, shown int) int {
	switch {
	case w.everything:
		return shown
	case w.relay:
		return e.peer.waits
	}
	return w.unreached
}

// item is what a watcher remembers of one generation: a few words, as there may be a
// thousand of them.
type subscription struct {
	e             *entry // nil: the goal is reached
	deliveredEtag string // etag that was told last
	subscriberAt  int32  // place in e.watchers
	flags         flags
}

type flags uint8

const (
	dirty   flags = 1 << iota // it stands in watcher.dirty
	pending                   // its first state was not told yet
	hasEtag                   // told means something
)

// newWatcher makes what a watch begins with.
func newWatcher(req *Request, notify func(), trace TraceRef) *watcher {
	w := &watcher{
		heartbeat: cmp.Or(req.Heartbeat, defaultHeartbeat), stall: cmp.Or(req.Stall, defaultStall), goal: req.Goal,
		notify: notify, trace: trace, until: req.Until, everything: len(req.IDs) == 0, initialKnown: len(req.IDs) > 0,
	}
	if w.everything {
		w.goal = Settled // it has no goal, but money is followed to its end
	}
	w.heartbeatAt = time.Now().Add(w.heartbeat)
	return w
}

// join begins to cover what is asked for, before anything is read, so that no change falls between.
func (w *watcher) start(t *tenant, req *Request, now time.Time) {
	w.tenant = t
	t.watches++
	first := req.IDs
	if !t.authenticated && len(first) > newcomerLimit {
		first, w.initialKnown = first[:newcomerLimit], false
		t.newcomers = append(t.newcomers, newcomer{w, req.IDs[newcomerLimit:]})
	}
	w.subscribe(first, now)
	if w.everything {
		t.everything = append(t.everything, w)
		t.queue.wakeBy(now)
	} else if req.KnownEtag != "" && len(w.subscriptions) == 1 {
		w.subscriptions[0].deliveredEtag = req.KnownEtag
		w.subscriptions[0].flags |= hasEtag
	}
}

// cover begins to cover what is named.
func (w *watcher) subscribe(ids []string, now time.Time) {
	w.subscriptions = slices.Grow(w.subscriptions, len(ids))
	for _, id := range ids {
		w.add(w.tenant.ensure(id, now), now)
	}
}

// leave ends all that the watcher covers.
func (w *watcher) stop(now time.Time) {
	w.tenant.watches--
	w.unsubscribe(now)
}

func (w *watcher) unsubscribe(now time.Time) {
	t := w.tenant
	t.everything = slices.DeleteFunc(t.everything, func(one *watcher) bool { return one == w })
	t.newcomers = slices.DeleteFunc(t.newcomers, func(one newcomer) bool { return one.watcher == w })
	for at := range w.subscriptions {
		if w.subscriptions[at].e != nil {
			w.remove(int32(at), now) //nolint:gosec // there is memory for fewer generations
		}
	}
	t.queue.wakeBy(now.Add(linger))
}

// add covers one entry, and gives its place.
func (w *watcher) add(e *entry, now time.Time) (at int32) {
	t := w.tenant
	it := subscription{e: e, subscriberAt: int32(len(e.subscribers))} //nolint:gosec // there is memory for fewer watches
	if !w.everything || !w.initialKnown {
		it.flags = pending // not what came later
		w.pending++
	}
	at = w.insert(it)
	due := e.polling.due
	if (len(e.subscribers) == 0 || e.goneByNotFound()) && t.stale(e, now) {
		e.fresh, due = false, now
	}
	e.subscribers = append(e.subscribers, subscriber{w, at})
	w.unreached++
	if e.fresh {
		w.mark(at)
	}
	t.peers.waitForLeader(e, now)
	t.pollAt(e, due)
	return at
}

// introduce covers what the first list shows, for a watcher of everything.
func (w *watcher) subscribeListed(now time.Time) {
	if w.initialKnown {
		return
	}
	for _, e := range w.tenant.order {
		if e.listing.seenAt.Equal(now) || e.notYetVisible(now) {
			w.add(e, now)
		}
	}
	w.initialKnown = true
	w.notify()
}

// place puts an item into the watcher.
func (w *watcher) insert(it subscription) (at int32) {
	if n := len(w.free); n > 0 {
		at = w.free[n-1]
		w.free = w.free[:n-1]
		w.subscriptions[at] = it
		return at
	}
	w.subscriptions = append(w.subscriptions, it)
	return int32(len(w.subscriptions) - 1) //nolint:gosec // there is memory for fewer generations
}

// remove stops to cover one entry.
func (w *watcher) remove(at int32, now time.Time) {
	it := &w.subscriptions[at]
	e := it.e
	last := len(e.subscribers) - 1
	e.subscribers[it.subscriberAt] = e.subscribers[last]
	moved := e.subscribers[it.subscriberAt]
	moved.subscriptions[moved.at].subscriberAt = it.subscriberAt
	e.subscribers[last] = subscriber{}
	e.subscribers = e.subscribers[:last]
	it.e = nil
	w.unreached--
	if it.flags&pending != 0 {
		w.pending--
	}
	it.flags &= dirty
	if w.relay && !w.everything {
		e.peer.relayAt[w.goal] = notQueued
	}
	if it.flags&dirty == 0 { // else its place still stands in the queue
		w.free = append(w.free, at)
	}
	if len(e.subscribers) == 0 {
		e.invalidate() // nobody is told any more
		w.tenant.markIdle(e, now)
	}
}

// mark notes a change of the entry at a place. What changes when the watch is to end is not told: a slow
// watcher of what always changes would never hear of the end.
func (w *watcher) mark(at int32) {
	if w.err != nil {
		return
	}
	it := &w.subscriptions[at]
	if it.flags&dirty != 0 {
		w.tenant.stats.Conflated++
	} else {
		it.flags |= dirty
		w.dirty = append(w.dirty, at)
	}
	w.notify()
}

// fail ends the watch with err, once it was told what has changed before.
func (w *watcher) fail(err error) {
	if w.err == nil {
		w.err = err
		w.notify()
	}
}

// step is what a watcher does next: deliver an event, or end, or wait.
type step struct {
	event *Event
	found TraceRef  // of what has found it
	next  time.Time // where there is no event: when to look again although nothing changes
	done  bool
	err   error
}

// take takes the next step, under the tenant's mutex.
func (w *watcher) next(now time.Time) step {
	w.tenant.mu.Lock()
	defer w.tenant.mu.Unlock()
	return w.step(now)
}

// step takes the next thing to deliver. It is made when it is taken, so that a watcher which
// was held up is told the newest state of each generation and skips what came between.
func (w *watcher) step(now time.Time) step {
	if !w.until.IsZero() && !now.Before(w.until) {
		w.fail(ErrExpired)
	}
	if event, found := w.change(now); event != nil {
		return step{event: event, found: found}
	}
	if !w.caughtUp && w.initialKnown && w.pending == 0 {
		w.caughtUp = true
		return step{event: &Event{CaughtUp: &CaughtUp{Count: w.initialCount}}}
	}
	settles := w.closeSettled(now)
	switch {
	case !w.everything && !w.relay && w.initialKnown && w.unreached == 0:
		return step{done: true}
	case w.err != nil:
		return step{err: w.err}
	case !w.relay && !now.Before(w.heartbeatAt):
		return step{event: &Event{Heartbeat: w.heartbeatEvent(now)}}
	}
	return step{next: earliest(earliest(settles, w.heartbeatAt), w.until)}
}

// change takes the next change that the watcher has not been told.
func (w *watcher) change(now time.Time) (event *Event, found TraceRef) {
	for len(w.dirty) > 0 {
		at := w.dirty[0]
		w.dirty = w.dirty[1:]
		it := &w.subscriptions[at]
		it.flags &^= dirty
		if it.e == nil {
			w.free = append(w.free, at)
			continue
		}
		found := it.e.foundBy
		if event := w.eventOf(at, now); event != nil {
			return event, found
		}
	}
	w.dirty = nil
	return nil, nil
}

// tell makes the event of one entry, and notes what the watcher knows then. It gives nil
// where that is nothing new.
func (w *watcher) eventOf(at int32, now time.Time) *Event {
	it := &w.subscriptions[at]
	e := it.e
	if !e.fresh {
		return nil
	}
	initial, same := it.flags&pending != 0, it.flags&hasEtag != 0 && it.deliveredEtag == e.etag
	if initial {
		w.pending--
		w.initialCount++
	}
	it.deliveredEtag, it.flags = e.etag, it.flags&^pending|hasEtag
	shared := e.sharedUpdate(initial)
	if !w.everything && e.reached(w.goal, now, w.tenant.cfg.RefundWindow) {
		w.remove(at, now)
	}
	switch {
	case same && initial:
		return &Event{Heartbeat: w.tenant.heartbeat(e, now), Known: shared}
	case same:
		return nil
	}
	return &Event{Update: shared}
}

// settle closes the entries whose refund window is over, and says when the next one is. A watcher of
// everything goes on, and hears of refunds and deletions.
func (w *watcher) closeSettled(now time.Time) (next time.Time) {
	if w.everything || w.goal != Settled {
		return next
	}
	window := w.tenant.cfg.RefundWindow
	for at, it := range w.subscriptions {
		switch {
		case it.e == nil || !it.e.fresh || it.e.state.State != catalog.StateFailed:
		case it.e.reached(w.goal, now, window):
			w.remove(int32(at), now) //nolint:gosec // see uncover
		default:
			next = earliest(next, it.e.settledAt(window))
		}
	}
	return next
}

// beat says why the watch is quiet.
func (w *watcher) heartbeatEvent(now time.Time) *Heartbeat {
	if !w.everything && len(w.subscriptions) == 1 && w.subscriptions[0].e != nil {
		return w.tenant.heartbeat(w.subscriptions[0].e, now)
	}
	return w.tenant.heartbeatOfMany(w, now)
}

// drain ends a watch of a caller, as nobody is served here any more.
func (w *watcher) drain() {
	if !w.relay {
		w.fail(ErrDraining)
	}
}
