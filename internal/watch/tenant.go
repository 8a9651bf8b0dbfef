package watch

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/watch/budget"
	"github.com/easel-grpc/easel/internal/watch/history"
	"github.com/easel-grpc/easel/internal/watch/schedule"
)

// linger is how long an entry that nobody watches is kept, unpolled: a watcher that reconnects finds it,
// and its states stay in order. An entry without a state goes sooner, as callers can invent ids without end.
const (
	linger        = 30 * time.Second
	lingerUnknown = time.Second
)

// newcomerLimit is how many generations a watch subscribes to before the catalog has answered under its API
// key: as many as lead to a list call.
const newcomerLimit = sweepFrom

// tenant holds the entries, watchers, list and budget of one credential. Its mutex guards them all.
type tenant struct {
	cfg     *Config
	history *history.Book
	cred    catalog.Credential

	mu            sync.Mutex
	gone          bool // it has ended: the hub makes another
	entries       map[string]*entry
	order         []*entry   // the same in the order of arrival, so that a run can be repeated
	everything    []*watcher // watchers of all that the catalog lists
	authenticated bool       // the catalog has answered under the API key
	newcomers     []newcomer // wait until the tenant is authenticated
	pruneAt       time.Time  // of the next entry that may have been idle for long enough

	queue   queue
	list    list
	budget  *budget.Budget
	health  health
	sharing *sharing // nil where this process shares with nobody

	inFlight    int // reads on their way
	accountRead accountRead

	attending []*Attendance
	watches   int // open ones, and attendances
	stats     Stats
}

func newTenant(cfg *Config, book *history.Book, cred catalog.Credential, now time.Time) *tenant {
	cred.Owner = "" // polls are for all
	b := budget.New(cfg.Rate, now)
	t := &tenant{
		cfg: cfg, history: book, cred: cred, entries: map[string]*entry{}, pruneAt: now, queue: newQueue(now), budget: b,
		health: health{budget: b, least: cfg.MinInterval, random: schedule.NewSource(cfg.Seed, "health")},
	}
	if cfg.Book != nil {
		t.sharing = newSharing(cfg.replica)
	}
	return t
}

// ensure finds or makes the entry of id.
func (t *tenant) ensure(id string, now time.Time) *entry {
	e := t.entries[id]
	if e == nil {
		e = newEntry(id, now, t.cfg.Seed)
		t.entries[id] = e
		t.order = append(t.order, e)
		t.markIdle(e, now)
	}
	return e
}

// authenticate notes that the catalog has answered under the API key, and subscribes the newcomers to their
// remaining ids. It gives the entries of these.
func (t *tenant) authenticate(now time.Time) (added []*entry) {
	for _, n := range t.newcomers {
		n.subscribe(n.remaining, now)
		for _, id := range n.remaining {
			added = append(added, t.entries[id])
		}
		n.initialKnown, n.known, n.ordered = true, nil, nil
		n.notify()
	}
	t.authenticated, t.newcomers = true, nil
	return added
}

// markIdle notes that nobody watches an entry from now on.
func (t *tenant) markIdle(e *entry, now time.Time) {
	e.idleSince = now
	t.pollAt(e, e.polling.due)
	t.pruneAt = earliest(t.pruneAt, e.keptUntil())
	t.queue.wakeBy(t.pruneAt)
}

// prune removes the entries that have been idle for long enough, and says when the next one will be. It
// looks at them once a second at most, as there may be ten thousand.
func (t *tenant) prune(now time.Time) time.Time {
	if now.Before(t.pruneAt) {
		return t.pruneAt
	}
	next := now.Add(time.Hour)
	t.order = slices.DeleteFunc(t.order, func(e *entry) bool {
		until := e.keptUntil()
		switch {
		case len(e.subscribers) > 0:
			return false
		case e.polling.inFlight:
			next = earliest(next, latest(until, now.Add(time.Second)))
			return false
		case now.Before(until):
			next = earliest(next, until)
			return false
		}
		t.queue.remove(e)
		delete(t.entries, e.id)
		return true
	})
	t.pruneAt = latest(next, now.Add(time.Second))
	return t.pruneAt
}

// wanted reports whether a poll of an entry would serve anybody.
func (t *tenant) wanted(e *entry, now time.Time) bool {
	for _, c := range e.subscribers {
		if !e.reached(c.goal, now, t.cfg.RefundWindow) {
			return true
		}
	}
	return false
}

// fewestWaits is the smallest number of generations that a watcher of the entry waits for: the fewer, the
// more a poll of it is worth. A watcher of everything waits for all active ones, which are listed.
func (t *tenant) fewestWaits(e *entry, listed int) int {
	least := math.MaxInt
	for _, c := range e.subscribers {
		if least = min(least, c.waits(listed)); least <= 1 {
			return 1
		}
	}
	return least
}

// pollAt sets the next poll of an entry. Nothing else touches the queue: it holds the entries that somebody
// watches and that have no poll in flight.
func (t *tenant) pollAt(e *entry, due time.Time) {
	e.polling.due = due
	if len(e.subscribers) == 0 || e.polling.inFlight {
		t.queue.remove(e)
		return
	}
	t.queue.put(e)
	t.queue.wakeBy(due)
}

// rate is how many requests a second this process may make now.
func (t *tenant) rate() float64 {
	if s := t.sharing; s != nil && s.away {
		return t.cfg.Rate / float64(max(s.key.Replicas, 1))
	}
	return t.cfg.Rate
}

// pollAfter sets the next poll of an entry by a gap, with some jitter.
func (t *tenant) pollAfter(e *entry, gap time.Duration, jitter float64, now time.Time) {
	e.polling.gap = gap
	t.pollAt(e, now.Add(schedule.Jitter(gap, jitter)))
}

// scheduleNext sets the next poll after an answer. The history of a model says nothing of the refund of a
// failed generation.
func (t *tenant) scheduleNext(e *entry, now time.Time) {
	e.polling.failures, e.polling.lastErr = 0, ""
	curve, age := schedule.Unlearned, now.Sub(e.ended)
	if !e.state.State.Terminal() {
		curve, age = t.history.Curve(t.historyOf(e)), now.Sub(e.startTime())
	}
	jitter := e.polling.random.Draw()
	if t.sharing != nil {
		jitter = t.sharing.jitter(e.polling.claimed, e.id)
	}
	t.pollAfter(e, curve.Gap(age, t.cfg.bounds()), jitter, now)
}

func (t *tenant) historyOf(e *entry) history.Key {
	return history.Key{Tenant: t.cred.Tenant, Model: e.state.ModelID}
}

// observe applies a record that a call has read. Where no poll came before, the record counts as the first
// poll. A generation that was gone by a 404, and so was not polled, is polled again.
func (t *tenant) observe(e *entry, read catalog.Version, found TraceRef, now time.Time) {
	t.authenticate(now)
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
	if regressed {
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
		result.sighted = append(result.sighted, Sighting{t.cred, catalog.Version{Generation: e.state, Etag: e.etag}, gone})
	}
	if before.State != 0 && before.State != e.state.State {
		result.changes = append(result.changes, Change{State: e.state.State, Delay: t.detectionDelay(e, before)})
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
		t.scheduleNext(e, now)
		return
	case e.justCreated(now):
		if !e.fresh && e.state.State != 0 {
			e.fresh = true
			t.publish(e)
		}
		t.scheduleNext(e, now)
		return
	case e.exists() && !t.lasts(e, now):
		t.retry(e, err, t.cfg.MaxInterval, now)
		return
	}
	t.noteGone(e, result, now, e.exists())
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

// retry sets the next poll of an entry after a failure.
func (t *tenant) retry(e *entry, err error, most time.Duration, now time.Time) {
	e.polling.failures++
	e.polling.lastErr = err.Error()
	t.pollAfter(e, schedule.Backoff(e.polling.failures, t.cfg.MinInterval, most), e.polling.random.Draw(), now)
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
			if w.initialKnown && w.covers(e) && !w.watches(e) {
				w.add(e, now)
			}
		}
	}
	e.listing.seenAt = now
}

// subscribeChosen lets those who watch what is chosen begin without the list.
func (t *tenant) subscribeChosen(now time.Time) {
	for _, w := range t.everything {
		if w.chosen != nil {
			w.subscribeListed(now)
		}
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

// countListed counts the listed generations that somebody waits for.
func (t *tenant) countListed(now time.Time) (n int) {
	for _, e := range t.order {
		if !e.listing.seenAt.IsZero() && t.wanted(e, now) {
			n++
		}
	}
	return n
}

// eachWatcher calls f with every watcher, with some more than once.
func (t *tenant) eachWatcher(f func(*watcher)) {
	for _, w := range t.everything {
		f(w)
	}
	for _, e := range t.order {
		for _, c := range e.subscribers {
			f(c.watcher)
		}
	}
}

// endAttendances lets those who attend know that they have to end.
func (t *tenant) endAttendances(err error) {
	for _, a := range t.attending {
		a.fail(err)
	}
}

// stale reports whether a state must be read again before it is delivered, as nobody has polled it. A
// settled state can't change any more, except one by a 404.
func (t *tenant) stale(e *entry, now time.Time) bool {
	over := e.reached(Settled, now, t.cfg.RefundWindow) && !e.goneByNotFound()
	return !over && now.Sub(e.state.ObserveTime) >= t.cfg.MinInterval
}

// heartbeat says why a watch of one entry is quiet.
func (t *tenant) heartbeat(e *entry, now time.Time) *Heartbeat {
	beat := t.newHeartbeat(e.state.ObserveTime)
	if e.polling.failures > 0 {
		beat.Failures, beat.LastError, beat.Own = e.polling.failures, e.polling.lastErr, true
	}
	if t.wanted(e, now) {
		beat.NextPoll = latest(t.nextPoll(e), t.budget.Paused())
	}
	if !e.state.State.Terminal() {
		beat.TypicalRemaining, beat.HasTypical = t.history.Remaining(t.historyOf(e), now.Sub(e.startTime()))
	}
	return beat
}

// heartbeatOfMany says why a watch of many entries is quiet.
func (t *tenant) heartbeatOfMany(w *watcher, now time.Time) *Heartbeat {
	beat := t.newHeartbeat(t.health.answered)
	if w.everything {
		beat.NextPoll = t.list.sweepAt
	}
	for i := range w.subscriptions {
		if e := w.subscriptions[i].e; e != nil && t.wanted(e, now) {
			beat.NextPoll = earliest(beat.NextPoll, t.nextPoll(e))
		}
	}
	if !beat.NextPoll.IsZero() {
		beat.NextPoll = latest(beat.NextPoll, t.budget.Paused())
	}
	return beat
}

func (t *tenant) newHeartbeat(observed time.Time) *Heartbeat {
	return &Heartbeat{ObserveTime: observed, Condition: t.health.condition, Failures: t.health.failures, LastError: t.health.lastErr}
}

// nextPoll is the next poll of an entry: its own, or a sweep that comes first.
func (t *tenant) nextPoll(e *entry) time.Time {
	if e.listing.hint != nil || t.list.sweepAt.Before(e.listing.readSinglyUntil) {
		return e.polling.due
	}
	return earliest(e.polling.due, t.list.sweepAt)
}
