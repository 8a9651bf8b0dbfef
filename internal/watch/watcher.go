package watch

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
)

const (
	defaultHeartbeat = 15 * time.Second
	defaultStall     = 30 * time.Second
)

// watcher holds the subscriptions of one stream, and what it delivers next. There may be a hundred
// thousand watchers, so each keeps only what it still needs of its request. The mutex of its agenda
// guards it.
type watcher struct {
	stream
	agenda *agenda

	heartbeat   time.Duration // longest silence
	heartbeatAt time.Time     // of the next heartbeat, if nothing is delivered before; it belongs to the turn of a delivery
	stall       time.Duration // longest time that one delivery may take
	until       time.Time     // end of the watch; zero: never

	goal       Goal
	orders     Orders // selects the orders that it watches; nil if it watches all that the catalog lists
	everything bool   // it watches no fixed set
	named      bool   // it may watch generations that the list does not carry: its request names them

	initialKnown bool // the initial set is known: the first list has come
	caughtUp     bool

	subscriptions []subscription
	free          []int32                       // empty places in subscriptions
	dirty         []int32                       // places whose entry has changed since its last delivery
	unreached     int                           // goals not reached
	pending       int                           // of the initial set, not delivered yet
	known         map[string]string             // etags that the caller has, of generations without a subscription yet
	modelID       string                        // of the generations that are wanted; "": of any model
	ordered       map[string]bool               // generations of which there is an order, until they are subscribed to
	offered       map[string]ledger.Attribution // orders of the last [Hub.Placed], shared by all watchers
	ifListed      []string                      // generations of its orders that it watches if the first list has them
}

// subscriber is a watcher of an entry, and the place of its subscription.
type subscriber struct {
	*watcher
	at int32
}

// waits is how many generations a watcher waits for.
func (w *watcher) waits(listed int) int {
	if w.everything {
		return max(listed, w.pending, 1)
	}
	return w.unreached
}

// subscription is a watcher's state of one generation. It is small, as a watcher may have a thousand.
type subscription struct {
	e             *entry // nil: the goal is reached
	deliveredEtag string // of the last delivery, or of the state that the caller has
	subscriberAt  int32  // place in e.subscribers
	flags         flags
}

type flags uint8

const (
	dirty   flags = 1 << iota // it stands in watcher.dirty
	pending                   // its first state was not delivered yet
	hasEtag                   // deliveredEtag is set
)

// newWatcher makes a watcher without subscriptions.
func newWatcher(req *Request, notify func(), trace TraceRef) *watcher {
	w := &watcher{
		stream: stream{notify: notify, trace: trace}, heartbeat: cmp.Or(req.Heartbeat, defaultHeartbeat), stall: cmp.Or(req.Stall, defaultStall),
		until: req.Until, goal: req.Goal,
		everything: req.Everything || len(req.IDs) == 0, orders: req.Orders, named: len(req.IDs)+len(req.KnownEtags) > 0 || req.Orders != nil,
		known: maps.Clone(req.KnownEtags), modelID: req.ModelID, ordered: req.Ordered, ifListed: req.Listed,
	}
	w.heartbeatAt, w.initialKnown = time.Now().Add(w.heartbeat), !w.everything
	if w.everything {
		w.goal = Settled // it has no goal, but polls go on until no money can move any more
	}
	return w
}

// subscribe subscribes to generations by id.
func (w *watcher) subscribe(ids []string, now time.Time) {
	w.subscriptions = slices.Grow(w.subscriptions, len(ids))
	for _, id := range ids {
		w.add(w.agenda.ensure(id, now), now)
	}
}

// addOrdered subscribes to an ordered generation, unless it is watched already.
func (w *watcher) addOrdered(id string, now time.Time) {
	if e := w.agenda.ensure(id, now); !w.watches(e) {
		e.ordered = true
		w.add(e, now)
	}
}

func (w *watcher) unsubscribe(now time.Time) {
	for at := range w.subscriptions {
		if w.subscriptions[at].e != nil {
			w.remove(int32(at), now)
		}
	}
}

// add subscribes to one entry.
func (w *watcher) add(e *entry, now time.Time) {
	e.ordered = e.ordered || w.ordered[e.id]
	sub := subscription{e: e, subscriberAt: int32(len(e.subscribers))}
	if !w.everything || !w.initialKnown {
		sub.flags = pending // later generations are not part of the initial set
		w.pending++
	}
	if etag := w.known[e.id]; etag != "" {
		sub.deliveredEtag, sub.flags = etag, sub.flags|hasEtag
	}
	delete(w.known, e.id)
	at := w.insert(sub)
	due := e.polling.due
	if (len(e.subscribers) == 0 || e.goneByNotFound()) && w.agenda.stale(e, now) {
		e.fresh, due = false, now
	}
	e.subscribers = append(e.subscribers, subscriber{w, at})
	w.unreached++
	if e.fresh {
		w.mark(at)
	}
	w.agenda.pollAt(e, due)
}

// subscribeListed subscribes a watcher of everything to the generations of the first list, and to those that
// the caller knows beside them: a read of each says whether it is still there.
func (w *watcher) subscribeListed(now time.Time) {
	if w.initialKnown {
		return
	}
	for _, e := range w.listed(now) {
		if !w.watches(e) {
			w.add(e, now)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.known)) {
		e := w.agenda.ensure(id, now)
		e.listing.readSinglyUntil = now.Add(listPause)
		w.add(e, now)
	}
	w.initialKnown, w.known, w.ordered, w.ifListed = true, nil, nil, nil
	w.notify()
}

// listed returns the listed generations that a watcher of everything covers. A watcher of orders looks for its own ids:
// the generations of other owners cost it nothing.
func (w *watcher) listed(now time.Time) (all []*entry) {
	a := w.agenda
	if w.orders == nil {
		for _, e := range a.order {
			if e.listing.seenAt.Equal(now) || e.notYetVisible(now) {
				all = append(all, e)
			}
		}
		return all
	}
	for _, id := range w.ifListed {
		if a.list.carried[id] {
			e := a.ensure(id, now)
			e.listing.seenAt = latest(e.listing.seenAt, a.list.answeredAt)
			all = append(all, e)
		}
	}
	return all
}

// watches reports whether a watcher of everything has subscribed to an entry already, by its name.
func (w *watcher) watches(e *entry) bool {
	return w.named && slices.ContainsFunc(e.subscribers, func(s subscriber) bool { return s.watcher == w })
}

// insert puts a subscription into a free place.
func (w *watcher) insert(sub subscription) (at int32) {
	if n := len(w.free); n > 0 {
		at = w.free[n-1]
		w.free = w.free[:n-1]
		w.subscriptions[at] = sub
		return at
	}
	w.subscriptions = append(w.subscriptions, sub)
	return int32(len(w.subscriptions) - 1)
}

// remove ends one subscription.
func (w *watcher) remove(at int32, now time.Time) {
	sub := &w.subscriptions[at]
	e := sub.e
	last := len(e.subscribers) - 1
	e.subscribers[sub.subscriberAt] = e.subscribers[last]
	moved := e.subscribers[sub.subscriberAt]
	moved.subscriptions[moved.at].subscriberAt = sub.subscriberAt
	e.subscribers[last] = subscriber{}
	e.subscribers = e.subscribers[:last]
	sub.e = nil
	w.unreached--
	if sub.flags&pending != 0 {
		w.pending--
	}
	sub.flags &= dirty
	if sub.flags&dirty == 0 { // else its place still stands in the queue
		w.free = append(w.free, at)
	}
	if len(e.subscribers) == 0 {
		e.invalidate() // nobody needs the shared updates any more
		w.agenda.markIdle(e, now)
	}
}

// mark notes a change of the entry at a place. A change after the end of the watch is not delivered: a slow
// watcher of a restless generation would never come to the end.
func (w *watcher) mark(at int32) {
	if w.err != nil {
		return
	}
	sub := &w.subscriptions[at]
	if sub.flags&dirty != 0 {
		w.agenda.stats.Conflated++
	} else {
		sub.flags |= dirty
		w.dirty = append(w.dirty, at)
	}
	w.notify()
}

// step is the next step of a watcher: it delivers an event, or ends, or waits.
type step struct {
	event *Event
	found TraceRef  // of the poll or the call that found the change
	next  time.Time // where there is no event: when to try again though nothing changes
	done  bool
	err   error
}

// next takes the next step. Its event is made when the watcher is ready to deliver, so that a slow watcher
// gets the newest state of each generation and skips those in between.
func (w *watcher) next(now time.Time) step {
	w.agenda.mu.Lock()
	defer w.agenda.mu.Unlock()
	w.expire(now)
	if event, found := w.change(now); event != nil {
		return step{event: event, found: found}
	}
	if !w.caughtUp && w.initialKnown && w.pending == 0 {
		w.caughtUp = true
		return step{event: &Event{CaughtUp: true}}
	}
	settles := w.closeSettled(now)
	switch {
	case !w.everything && w.initialKnown && w.unreached == 0:
		return step{done: true}
	case w.err != nil:
		return step{err: w.err}
	case !now.Before(w.heartbeatAt):
		return step{event: &Event{Heartbeat: w.heartbeatEvent(now)}}
	}
	return step{next: earliest(earliest(settles, w.heartbeatAt), w.until)}
}

// change gives the next change that was not delivered.
func (w *watcher) change(now time.Time) (event *Event, found TraceRef) {
	for len(w.dirty) > 0 {
		at := w.dirty[0]
		w.dirty = w.dirty[1:]
		sub := &w.subscriptions[at]
		sub.flags &^= dirty
		if sub.e == nil {
			w.free = append(w.free, at)
			continue
		}
		found := sub.e.foundBy
		if event := w.eventOf(at, now); event != nil {
			return event, found
		}
	}
	w.dirty = nil
	return nil, nil
}

// eventOf makes the event of one entry, and notes what was delivered. It gives nil where nothing is new.
func (w *watcher) eventOf(at int32, now time.Time) *Event {
	sub := &w.subscriptions[at]
	e := sub.e
	switch {
	case !e.fresh:
		return nil
	case w.modelID != "" && e.state.ModelID != "" && e.state.ModelID != w.modelID: // which never changes
		w.remove(at, now)
		return nil
	}
	initial, same := sub.flags&pending != 0, sub.flags&hasEtag != 0 && sub.deliveredEtag == e.etag
	if initial {
		w.pending--
	}
	sub.deliveredEtag, sub.flags = e.etag, sub.flags&^pending|hasEtag
	shared := e.sharedUpdate(initial)
	if !w.everything && e.reached(w.goal, now, w.agenda.cfg.RefundWindow) {
		w.remove(at, now)
	}
	switch {
	case same && initial:
		return &Event{Heartbeat: w.agenda.heartbeat(e, now), Known: shared}
	case same:
		return nil
	}
	return &Event{Update: shared}
}

// expire ends the watch at its age.
func (w *watcher) expire(now time.Time) {
	if !w.until.IsZero() && !now.Before(w.until) {
		w.fail(ErrExpired)
	}
}

// closeSettled ends the subscriptions whose refund window is over, and gives the end of the next window. A
// watcher of everything goes on, and gets refunds and deletions.
func (w *watcher) closeSettled(now time.Time) (next time.Time) {
	if w.everything || w.goal != Settled {
		return next
	}
	window := w.agenda.cfg.RefundWindow
	for at, sub := range w.subscriptions {
		switch {
		case sub.e == nil || !sub.e.fresh || sub.e.state.State != catalog.StateFailed:
		case sub.e.reached(w.goal, now, window):
			w.remove(int32(at), now)
		default:
			next = earliest(next, sub.e.settledAt(window))
		}
	}
	return next
}

// heartbeatEvent says why the watch is quiet.
func (w *watcher) heartbeatEvent(now time.Time) *Heartbeat {
	a := w.agenda
	if !w.everything && len(w.subscriptions) == 1 && w.subscriptions[0].e != nil {
		return a.heartbeat(w.subscriptions[0].e, now)
	}
	beat := a.newHeartbeat(a.health.answered)
	if w.everything {
		beat.NextPoll = a.list.sweepAt
	}
	for i := range w.subscriptions {
		if e := w.subscriptions[i].e; e != nil && a.wanted(e, now) {
			beat.NextPoll = earliest(beat.NextPoll, a.nextPoll(e))
		}
	}
	if !beat.NextPoll.IsZero() {
		beat.NextPoll = latest(beat.NextPoll, a.opens(now))
	}
	return beat
}
