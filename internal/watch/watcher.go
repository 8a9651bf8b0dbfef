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

// watcher contains the subscriptions of one watch. There may be a hundred thousand watchers, so a watcher stores only those
// fields of its request that it still needs. The mutex of its agenda guards the watcher.
type watcher struct {
	stream
	agenda *agenda

	heartbeat   time.Duration // time without an event after which a heartbeat is delivered
	heartbeatAt time.Time     // time of the next heartbeat if no event is delivered before then; only the running delivery uses it, so the mutex does not guard it
	stall       time.Duration // maximum duration of one delivery
	until       time.Time     // time when the watch ends; zero means never

	goal       Goal
	orders     Orders // selects the watched orders; nil if the watch is not limited to orders
	everything bool   // whether the watch also covers generations that are found later
	named      bool   // whether the request contains generation IDs, etags or orders, so that a listed generation may already have a subscription

	initialKnown bool // whether the initial set of generations is known; false while a watch of all generations waits for its first list
	caughtUp     bool

	subscriptions []subscription
	free          []int32                       // unused indexes in subscriptions
	dirty         []int32                       // indexes of subscriptions with an undelivered change
	unreached     int                           // number of subscriptions whose generation has not reached the watch's goal
	pending       int                           // number of generations whose initial state has not been delivered yet
	known         map[string]string             // etags that the caller already has for generations without a subscription
	modelID       string                        // model of the watched generations; empty means any model
	ordered       map[string]bool               // IDs in the request that are known to have orders; nil once the watch has its initial subscriptions
	offered       map[string]ledger.Attribution // orders in the latest call of [Hub.Placed], by generation ID; shared by all watchers
	ifListed      []string                      // IDs of generations that are subscribed to only if the first list contains them; see [Request.Listed]
}

// subscriber is a watcher of a generation. The field at is the index of the watcher's subscription to this generation in
// watcher.subscriptions.
type subscriber struct {
	*watcher
	at int32
}

// unfinishedCount returns the number of generations that a watcher waits for. listed is the number of generations in the
// catalog's list. Only a watcher of all generations waits for the listed ones.
func (w *watcher) unfinishedCount(listed int) int {
	if w.everything {
		return max(listed, w.pending, 1)
	}
	return w.unreached
}

// subscription is a watcher's state for one generation. It is small because a watcher may have a thousand subscriptions.
type subscription struct {
	e             *generation // nil after the subscription was removed
	deliveredEtag string      // etag that was delivered last, or that the caller had at the start; see hasEtag
	subscriberAt  int32       // index in e.subscribers
	flags         flags
}

type flags uint8

const (
	dirty   flags = 1 << iota // the subscription's index is in watcher.dirty
	pending                   // the first state has not been delivered yet
	hasEtag                   // the field deliveredEtag is set
)

// newWatcher returns a watcher without subscriptions.
func newWatcher(req *Request, notify func(), trace TraceRef) *watcher {
	w := &watcher{
		stream: stream{notify: notify, trace: trace}, heartbeat: cmp.Or(req.Heartbeat, defaultHeartbeat), stall: cmp.Or(req.Stall, defaultStall),
		until: req.Until, goal: req.Goal,
		everything: req.Everything || len(req.IDs) == 0, orders: req.Orders, named: len(req.IDs)+len(req.KnownEtags) > 0 || req.Orders != nil,
		known: maps.Clone(req.KnownEtags), modelID: req.ModelID, ordered: req.Ordered, ifListed: req.Listed,
	}
	w.heartbeatAt, w.initialKnown = time.Now().Add(w.heartbeat), !w.everything
	if w.everything {
		w.goal = Settled // this goal does not end a watch of all generations; it only means that each generation is polled until its charge is final
	}
	return w
}

// subscribeTo subscribes to the generations with the given IDs.
func (w *watcher) subscribeTo(ids []string, now time.Time) {
	w.subscriptions = slices.Grow(w.subscriptions, len(ids))
	for _, id := range ids {
		w.addSubscription(w.agenda.ensureGeneration(id, now), now)
	}
}

// addOrdered subscribes to a generation that has an order, unless the watcher already has a subscription to it.
func (w *watcher) addOrdered(id string, now time.Time) {
	if e := w.agenda.ensureGeneration(id, now); !w.isSubscribed(e) {
		e.ordered = true
		w.addSubscription(e, now)
	}
}

func (w *watcher) unsubscribe(now time.Time) {
	for at := range w.subscriptions {
		if w.subscriptions[at].e != nil {
			w.removeSubscription(int32(at), now)
		}
	}
}

// addSubscription adds a subscription to one generation.
func (w *watcher) addSubscription(e *generation, now time.Time) {
	e.ordered = e.ordered || w.ordered[e.id]
	sub := subscription{e: e, subscriberAt: int32(len(e.subscribers))}
	if !w.everything || !w.initialKnown {
		sub.flags = pending // belongs to the watch's initial generations, unlike a generation that is found later
		w.pending++
	}
	if etag := w.known[e.id]; etag != "" {
		sub.deliveredEtag, sub.flags = etag, sub.flags|hasEtag
	}
	delete(w.known, e.id)
	at := w.insertSubscription(sub)
	due := e.polling.due
	if (len(e.subscribers) == 0 || e.isPresumedDeleted()) && w.agenda.isStale(e, now) {
		e.fresh, due = false, now
	}
	e.subscribers = append(e.subscribers, subscriber{w, at})
	w.unreached++
	if e.fresh {
		w.markChanged(at)
	}
	w.agenda.pollAt(e, due)
}

// subscribeListed subscribes a watcher of all generations to the generations in its first list, and to all generations in
// KnownEtags. A generation that is in KnownEtags but not in the list is read individually, to find out whether it still exists.
// All calls after the first do nothing.
func (w *watcher) subscribeListed(now time.Time) {
	if w.initialKnown {
		return
	}
	for _, e := range w.coveredGenerations(now) {
		if !w.isSubscribed(e) {
			w.addSubscription(e, now)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.known)) {
		e := w.agenda.ensureGeneration(id, now)
		e.listing.readSinglyUntil = now.Add(listPause)
		w.addSubscription(e, now)
	}
	w.initialKnown, w.known, w.ordered, w.ifListed = true, nil, nil, nil
	w.notify()
}

// coveredGenerations returns the generations that a watcher of all generations covers: those in the latest list, and those that
// this process has just ordered. The latter may not be in the list yet. For a watch that is limited to orders,
// coveredGenerations returns only the listed generations with IDs in ifListed. So it spends no time on the generations of other
// owners.
func (w *watcher) coveredGenerations(now time.Time) (all []*generation) {
	a := w.agenda
	if w.orders == nil {
		for _, e := range a.order {
			if e.listing.seenAt.Equal(now) || e.mayBeInvisible(now) {
				all = append(all, e)
			}
		}
		return all
	}
	for _, id := range w.ifListed {
		if a.list.carried[id] {
			e := a.ensureGeneration(id, now)
			e.listing.seenAt = latest(e.listing.seenAt, a.list.answeredAt)
			all = append(all, e)
		}
	}
	return all
}

// isSubscribed reports whether the watcher already has a subscription to the generation. If the field named is false, no
// duplicate can occur, so isSubscribed returns false without a search.
func (w *watcher) isSubscribed(e *generation) bool {
	return w.named && slices.ContainsFunc(e.subscribers, func(s subscriber) bool { return s.watcher == w })
}

// insertSubscription stores a subscription at an unused index, and returns the index.
func (w *watcher) insertSubscription(sub subscription) (at int32) {
	if n := len(w.free); n > 0 {
		at = w.free[n-1]
		w.free = w.free[:n-1]
		w.subscriptions[at] = sub
		return at
	}
	w.subscriptions = append(w.subscriptions, sub)
	return int32(len(w.subscriptions) - 1)
}

// removeSubscription removes one subscription.
func (w *watcher) removeSubscription(at int32, now time.Time) {
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
	if sub.flags&dirty == 0 { // the index of a dirty subscription is still in w.dirty, so it must not be reused yet
		w.free = append(w.free, at)
	}
	if len(e.subscribers) == 0 {
		e.discardUpdates() // no watcher needs the shared updates any longer
		w.agenda.markIdle(e, now)
	}
}

// markChanged marks the subscription at the given index as changed. After an error has ended the watch, markChanged does
// nothing. Changes are delivered before the error, so further changes could delay the error forever.
func (w *watcher) markChanged(at int32) {
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

// step is the next step of a watch: deliver an event, end the watch, or wait.
type step struct {
	event *Event
	found TraceRef  // trace of the poll, or of the call to Easel, that found the change
	next  time.Time // time of the next step, unless something changes earlier; set only if there is no event now
	done  bool
	err   error
}

// nextStep returns the next step. It creates the event only when the watcher is ready for it. So a slow watcher receives the
// latest state, and skips the earlier ones.
func (w *watcher) nextStep(now time.Time) step {
	w.agenda.mu.Lock()
	defer w.agenda.mu.Unlock()
	w.expireWatch(now)
	if event, found := w.nextChange(now); event != nil {
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

// nextChange returns an event for the next undelivered change, or nil if there is no such change.
func (w *watcher) nextChange(now time.Time) (event *Event, found TraceRef) {
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

// eventOf returns the next event for the subscription at the given index, and records the generation's etag as delivered. It
// returns nil if there is nothing to deliver.
func (w *watcher) eventOf(at int32, now time.Time) *Event {
	sub := &w.subscriptions[at]
	e := sub.e
	switch {
	case !e.fresh:
		return nil
	case w.modelID != "" && e.state.ModelID != "" && e.state.ModelID != w.modelID: // a generation's model never changes, so this generation will never match the watch
		w.removeSubscription(at, now)
		return nil
	}
	initial, same := sub.flags&pending != 0, sub.flags&hasEtag != 0 && sub.deliveredEtag == e.etag
	if initial {
		w.pending--
	}
	sub.deliveredEtag, sub.flags = e.etag, sub.flags&^pending|hasEtag
	shared := e.sharedUpdate(initial)
	if !w.everything && e.hasReached(w.goal, now, w.agenda.cfg.RefundWindow) {
		w.removeSubscription(at, now)
	}
	switch {
	case same && initial:
		return &Event{Heartbeat: w.agenda.heartbeat(e, now), Known: shared}
	case same:
		return nil
	}
	return &Event{Update: shared}
}

// expireWatch ends the watch if its end time has passed.
func (w *watcher) expireWatch(now time.Time) {
	if !w.until.IsZero() && !now.Before(w.until) {
		w.endWithError(ErrExpired)
	}
}

// closeSettled removes the subscriptions to failed generations whose refund windows are over, and returns the earliest end of
// the other refund windows. It does nothing for a watcher of all generations, because such a watcher also receives later
// refunds and deletions.
func (w *watcher) closeSettled(now time.Time) (next time.Time) {
	if w.everything || w.goal != Settled {
		return next
	}
	window := w.agenda.cfg.RefundWindow
	for at, sub := range w.subscriptions {
		switch {
		case sub.e == nil || !sub.e.fresh || sub.e.state.State != catalog.StateFailed:
		case sub.e.hasReached(w.goal, now, window):
			w.removeSubscription(int32(at), now)
		default:
			next = earliest(next, sub.e.settledAt(window))
		}
	}
	return next
}

// heartbeatEvent returns the heartbeat of the watch.
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
		if e := w.subscriptions[i].e; e != nil && a.mustPoll(e, now) {
			beat.NextPoll = earliest(beat.NextPoll, a.nextPoll(e))
		}
	}
	if !beat.NextPoll.IsZero() {
		beat.NextPoll = latest(beat.NextPoll, a.nextStart(now))
	}
	return beat
}
