package watch

import (
	"slices"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/limiter"
	"github.com/easel-grpc/easel/internal/watch/history"
	"github.com/easel-grpc/easel/internal/watch/schedule"
)

// agenda is what is to be polled under one credential, and when: the entries, the list, and how the catalog behaves.
// Its mutex guards them all, and all that knows the agenda.
type agenda struct {
	cfg     *Config
	history *history.Book
	cred    catalog.Credential

	mu      sync.Mutex
	entries map[string]*entry
	order   []*entry  // the same in the order of arrival, so that a run can be repeated
	pruneAt time.Time // of the next entry that may have been idle for long enough

	queue  queue
	list   list
	health health

	watches int // open ones
	stats   Stats
}

func newAgenda(cfg *Config, book *history.Book, cred catalog.Credential, now time.Time) *agenda {
	cred.Owner = "" // polls are for all
	return &agenda{
		cfg: cfg, history: book, cred: cred, entries: map[string]*entry{}, pruneAt: now, queue: newQueue(now),
		health: health{least: cfg.MinInterval, random: schedule.NewSource(cfg.Seed, "health")},
	}
}

// stream is the end of a watch. The mutex of its agenda guards it.
type stream struct {
	notify func()   // called when there is something to deliver
	trace  TraceRef // of the watch
	err    error    // why it ends before its goal
}

// fail ends the stream with err, after the changes before it are delivered.
func (s *stream) fail(err error) {
	if s.err == nil {
		s.err = err
		s.notify()
	}
}

// ensure finds or makes the entry of id.
func (a *agenda) ensure(id string, now time.Time) *entry {
	e := a.entries[id]
	if e == nil {
		e = newEntry(id, now, a.cfg.Seed)
		a.entries[id] = e
		a.order = append(a.order, e)
		a.markIdle(e, now)
	}
	return e
}

// markIdle notes that nobody watches an entry from now on.
func (a *agenda) markIdle(e *entry, now time.Time) {
	e.idleSince = now
	a.pollAt(e, e.polling.due)
	a.pruneAt = earliest(a.pruneAt, e.keptUntil())
	a.queue.wakeBy(a.pruneAt)
}

// prune removes the entries that have been idle for long enough, and says when the next one will be. It
// looks at them once a second at most, as there may be ten thousand.
func (a *agenda) prune(now time.Time) time.Time {
	if now.Before(a.pruneAt) {
		return a.pruneAt
	}
	next := now.Add(time.Hour)
	a.order = slices.DeleteFunc(a.order, func(e *entry) bool {
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
		a.queue.remove(e)
		delete(a.entries, e.id)
		return true
	})
	a.pruneAt = latest(next, now.Add(time.Second))
	return a.pruneAt
}

// wanted reports whether a poll of an entry would serve anybody.
func (a *agenda) wanted(e *entry, now time.Time) bool {
	for _, c := range e.subscribers {
		if !e.reached(c.goal, now, a.cfg.RefundWindow) {
			return true
		}
	}
	return false
}

// countListed counts the listed generations that somebody waits for.
func (a *agenda) countListed(now time.Time) (n int) {
	for _, e := range a.order {
		if !e.listing.seenAt.IsZero() && a.wanted(e, now) {
			n++
		}
	}
	return n
}

// served gives the entries that a sweep would poll now, at most so many.
func (a *agenda) served(most int, now time.Time) (served []*entry) {
	if !a.list.usable(now) {
		return nil
	}
	for _, e := range a.order {
		if len(served) == most {
			break
		}
		if (!e.polling.inFlight || a.list.sweep != nil) && a.list.serves(e, now) && a.wanted(e, now) {
			served = append(served, e)
		}
	}
	return served
}

// nextSweep is when the density of all served entries asks for a sweep. An entry that was never read has no
// density. A watcher of everything needs sweeps also to find generations that were ordered elsewhere.
func (a *agenda) nextSweep(everything bool, now time.Time) time.Time {
	var squares float64
	for _, e := range a.served(len(a.order), now) {
		if e.fresh && e.polling.gap > 0 {
			squares += schedule.SquaredDensity(e.polling.gap)
		}
	}
	every := schedule.SweepGap(squares, a.cfg.bounds())
	if everything {
		every = min(every, max(a.cfg.MaxInterval/2, a.cfg.MinInterval))
	}
	return a.list.sweptAt.Add(schedule.Jitter(every, a.list.jitter))
}

// pollAt sets the next poll of an entry. Nothing else touches the queue: it holds the entries that somebody
// watches and that have no poll in flight.
func (a *agenda) pollAt(e *entry, due time.Time) {
	e.polling.due = due
	if len(e.subscribers) == 0 || e.polling.inFlight {
		a.queue.remove(e)
		return
	}
	a.queue.put(e)
	a.queue.wakeBy(due)
}

// readSingly has an entry read that the list does not serve.
func (a *agenda) readSingly(e *entry, now time.Time) {
	e.listing.readSinglyUntil = now.Add(listPause)
	a.pollAt(e, earliest(e.polling.due, now))
}

// pollAfter sets the next poll of an entry by a gap, with some jitter.
func (a *agenda) pollAfter(e *entry, gap time.Duration, jitter float64, now time.Time) {
	e.polling.gap = gap
	a.pollAt(e, now.Add(schedule.Jitter(gap, jitter)))
}

// scheduleNext sets the next poll after an answer. The history of a model says nothing of the refund of a
// failed generation.
func (a *agenda) scheduleNext(e *entry, now time.Time) {
	e.polling.failures, e.polling.lastErr = 0, ""
	curve, age := schedule.Unlearned, now.Sub(e.ended)
	if !e.state.State.Terminal() {
		curve, age = a.history.Curve(a.historyOf(e)), now.Sub(e.startTime())
	}
	a.pollAfter(e, curve.Gap(age, a.cfg.bounds()), e.polling.random.Draw(), now)
}

// retry sets the next poll of an entry after a failure.
func (a *agenda) retry(e *entry, err error, most time.Duration, now time.Time) {
	e.polling.failures++
	e.polling.lastErr = err.Error()
	a.pollAfter(e, schedule.Backoff(e.polling.failures, a.cfg.MinInterval, most), e.polling.random.Draw(), now)
}

func (a *agenda) historyOf(e *entry) history.Key {
	return history.Key{Tenant: a.cred.Tenant, Model: e.state.ModelID}
}

// nextPoll is the next poll of an entry: its own, or a sweep that comes first.
func (a *agenda) nextPoll(e *entry) time.Time {
	if e.listing.hint != nil || a.list.sweepAt.Before(e.listing.readSinglyUntil) {
		return e.polling.due
	}
	return earliest(e.polling.due, a.list.sweepAt)
}

// limiter returns the limiter of the API key, which grants the permits for polls and all other requests.
func (a *agenda) limiter() *limiter.Limiter { return a.cfg.Upstream.Limiter(a.cred.Tenant) }

// opens returns the time when another poll may start, according to the limiter and to the failures of polls.
func (a *agenda) opens(now time.Time) time.Time {
	n, next := a.limiter().Polls()
	if n > 0 {
		next = now
	}
	return latest(a.health.held, next)
}

// paused returns the end of the latest pause of polls. Polls pause if the catalog asks for it, is unavailable, or rejects the API
// key.
func (a *agenda) paused() time.Time { return latest(a.health.held, a.limiter().State().Paused) }

// condition returns the present behavior of the catalog, which may have asked a call to slow down.
func (a *agenda) condition() Condition {
	closed := a.limiter().State().IsClosed(time.Now())
	switch c := a.health.condition; {
	case closed && c <= ConditionHealthy:
		return ConditionThrottled
	case !closed && c == ConditionThrottled:
		return ConditionHealthy
	default:
		return c
	}
}

// stale reports whether a state must be read again before it is delivered, as nobody has polled it. A
// settled state can't change any more, except one by a 404.
func (a *agenda) stale(e *entry, now time.Time) bool {
	over := e.reached(Settled, now, a.cfg.RefundWindow) && !e.goneByNotFound()
	return !over && now.Sub(e.state.ObserveTime) >= a.cfg.MinInterval
}

// heartbeat says why a watch of one entry is quiet.
func (a *agenda) heartbeat(e *entry, now time.Time) *Heartbeat {
	beat := a.newHeartbeat(e.state.ObserveTime)
	if e.polling.failures > 0 {
		beat.Failures, beat.LastError, beat.Own = e.polling.failures, e.polling.lastErr, true
	}
	if a.wanted(e, now) {
		beat.NextPoll = latest(a.nextPoll(e), a.opens(now))
	}
	if !e.state.State.Terminal() {
		beat.TypicalRemaining, beat.HasTypical = a.history.Remaining(a.historyOf(e), now.Sub(e.startTime()))
	}
	return beat
}

func (a *agenda) newHeartbeat(observed time.Time) *Heartbeat {
	beat := &Heartbeat{ObserveTime: observed, Condition: a.condition(), Failures: a.health.failures, LastError: a.health.lastErr}
	if beat.Condition == ConditionHealthy { // also where a call was the first to pass after a pause
		beat.Failures, beat.LastError = 0, ""
	}
	return beat
}
