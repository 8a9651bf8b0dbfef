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

const (
	maxUnrecorded = 10_000         // maximum number of a tenant's idle generations that are kept only because of unrecorded states
	maxKept       = 10_000         // if there are more generations than this under one API key, new orders are polled only while they are watched
	keepTime      = 24 * time.Hour // maximum age of an order that is polled without a watcher
)

// agenda schedules the polls that use one credential. It contains the generations, the state of the catalog's list, and the
// health of the catalog. mu guards all fields below it. It also guards every object that has a pointer to the agenda.
type agenda struct {
	cfg     *Config
	history *history.Durations
	cred    catalog.Credential

	mu          sync.Mutex
	generations map[string]*generation
	order       []*generation // all generations, in the order in which they were added, so that loops over them are reproducible
	pruneAt     time.Time     // time of the next removal of idle generations

	queue  queue
	list   list
	health health

	watches int // number of open watches
	stats   Stats
}

func newAgenda(cfg *Config, durations *history.Durations, cred catalog.Credential, now time.Time) *agenda {
	cred.Owner = "" // the polls serve the watchers of all owners, so the credential needs no owner
	return &agenda{
		cfg: cfg, history: durations, cred: cred, generations: map[string]*generation{}, pruneAt: now, queue: newQueue(now),
		health: health{least: cfg.MinInterval, random: schedule.NewSource(cfg.Seed, "health")},
	}
}

// stream connects a watch to the dispatcher that delivers its events. It also stores the error that ended the watch early. It
// is guarded by the mu of the watcher's agenda.
type stream struct {
	notify func()   // called when there may be an event to deliver
	trace  TraceRef // trace of the call that started the watch
	err    error    // error that ended the watch before it reached its goal; nil if no error has ended it
}

// endWithError ends the watch with err, unless an earlier error has already ended it. The changes that the watch has not
// delivered yet are delivered before the error.
func (s *stream) endWithError(err error) {
	if s.err == nil {
		s.err = err
		s.notify()
	}
}

// ensureGeneration returns the generation with the given ID, and creates it if necessary.
func (a *agenda) ensureGeneration(id string, now time.Time) *generation {
	e := a.generations[id]
	if e == nil {
		e = newGeneration(id, now, a.cfg.Seed)
		a.generations[id] = e
		a.order = append(a.order, e)
		a.markIdle(e, now)
	}
	return e
}

// markIdle records that a generation has no watchers from now on, and reschedules its next poll and its removal.
func (a *agenda) markIdle(e *generation, now time.Time) {
	e.idleSince = now
	a.pollAt(e, e.polling.due)
	a.pruneAt = earliest(a.pruneAt, e.keptUntil())
	a.queue.wakeBy(a.pruneAt)
}

// pruneGenerations removes the generations that no longer need to be kept, and returns the time when it must be called again.
// It does its work at most once a second, because it visits all generations.
func (a *agenda) pruneGenerations(now time.Time) time.Time {
	if now.Before(a.pruneAt) {
		return a.pruneAt
	}
	next, kept := now.Add(time.Hour), 0
	a.order = slices.DeleteFunc(a.order, func(e *generation) bool {
		until := e.keptUntil()
		switch {
		case len(e.subscribers) > 0:
			return false
		case a.isKept(e, now):
			next = earliest(next, now.Add(linger))
			return false
		case e.polling.inFlight:
			next = earliest(next, latest(until, now.Add(time.Second)))
			return false
		case now.Before(until):
			next = earliest(next, until)
			return false
		case len(e.recording.unrecorded) > 0 && kept < maxUnrecorded:
			next = earliest(next, now.Add(time.Second))
			kept++
			return false
		}
		a.queue.removeGeneration(e)
		delete(a.generations, e.id)
		return true
	})
	a.pruneAt = latest(next, now.Add(time.Second))
	return a.pruneAt
}

// isKept reports whether a generation is polled even without a watcher, because this process placed its order. Such polls
// ensure that the generation's states, charge and events are recorded soon after they occur. The polls stop when the charge is
// final, or when the order is older than keepTime.
func (a *agenda) isKept(e *generation, now time.Time) bool {
	return e.kept && now.Sub(e.created) < keepTime && !e.hasReached(Settled, now, a.cfg.RefundWindow)
}

// mustPoll reports whether a generation must be polled, either for a watcher whose goal is not reached yet or for an order
// of this process.
func (a *agenda) mustPoll(e *generation, now time.Time) bool {
	if a.isKept(e, now) {
		return true
	}
	for _, c := range e.subscribers {
		if !e.hasReached(c.goal, now, a.cfg.RefundWindow) {
			return true
		}
	}
	return false
}

// countListed returns the number of generations that must be polled and have appeared in the catalog's list.
func (a *agenda) countListed(now time.Time) (n int) {
	for _, e := range a.order {
		if !e.listing.seenAt.IsZero() && a.mustPoll(e, now) {
			n++
		}
	}
	return n
}

// coveredByList returns the generations that a list request would poll now, at most limit of them.
func (a *agenda) coveredByList(limit int, now time.Time) (served []*generation) {
	if !a.list.isUsable(now) {
		return nil
	}
	for _, e := range a.order {
		if len(served) == limit {
			break
		}
		if (!e.polling.inFlight || a.list.sweep != nil) && a.list.coversRead(e, now) && a.mustPoll(e, now) {
			served = append(served, e)
		}
	}
	return served
}

// nextSweep returns the time when the next sweep (list request) is due. The more often individual reads would poll the
// generations with a current state, the sooner the sweep is due. If isAllWatched is true, a watch of all generations is open.
// Sweeps are then more frequent, because only they find generations that this process did not order.
func (a *agenda) nextSweep(isAllWatched bool, now time.Time) time.Time {
	var squares float64
	for _, e := range a.coveredByList(len(a.order), now) {
		if e.fresh && e.polling.gap > 0 {
			squares += schedule.SquaredDensity(e.polling.gap)
		}
	}
	every := schedule.SweepGap(squares, a.cfg.bounds())
	if isAllWatched {
		every = min(every, max(a.cfg.MaxInterval/2, a.cfg.MinInterval))
	}
	return a.list.sweptAt.Add(schedule.Jitter(every, a.list.jitter))
}

// pollAt sets the time of the next poll of a generation, and adds the generation to the queue. If a poll of the generation is
// in flight, or if the generation has no watchers and may not be polled without one, pollAt removes it from the queue instead.
func (a *agenda) pollAt(e *generation, due time.Time) {
	e.polling.due = due
	if len(e.subscribers) == 0 && !e.kept || e.polling.inFlight {
		a.queue.removeGeneration(e)
		return
	}
	a.queue.putGeneration(e)
	a.queue.wakeBy(due)
}

// readSingly schedules an immediate individual read of a generation that the catalog's list did not contain. List requests do
// not poll the generation until listPause has passed.
func (a *agenda) readSingly(e *generation, now time.Time) {
	e.listing.readSinglyUntil = now.Add(listPause)
	a.pollAt(e, earliest(e.polling.due, now))
}

// pollAfter schedules the next poll of a generation after the given gap, changed by up to a tenth. jitter is a random number in
// [0, 1) that determines the change.
func (a *agenda) pollAfter(e *generation, gap time.Duration, jitter float64, now time.Time) {
	e.polling.gap = gap
	a.pollAt(e, now.Add(schedule.Jitter(gap, jitter)))
}

// scheduleNext schedules the next poll after a response. A terminal generation is polled until its cost is final. The schedule of
// these polls does not depend on the durations of earlier generations, because they do not predict when a refund arrives.
func (a *agenda) scheduleNext(e *generation, now time.Time) {
	e.polling.failures, e.polling.lastErr = 0, ""
	curve, age := schedule.Unlearned, now.Sub(e.ended)
	if !e.state.State.Terminal() {
		curve, age = a.history.Curve(a.historyOf(e)), now.Sub(e.startTime())
	}
	a.pollAfter(e, curve.Gap(age, a.cfg.bounds()), e.polling.random.Draw(), now)
}

// retryPoll schedules the next poll of a generation after a failed one. longest is the maximum delay without jitter.
func (a *agenda) retryPoll(e *generation, err error, longest time.Duration, now time.Time) {
	e.polling.failures++
	e.polling.lastErr = err.Error()
	a.pollAfter(e, schedule.Backoff(e.polling.failures, a.cfg.MinInterval, longest), e.polling.random.Draw(), now)
}

func (a *agenda) historyOf(e *generation) history.Key {
	return history.Key{Tenant: a.cred.Tenant, Model: e.state.ModelID}
}

// nextPoll returns the time of the next poll of a generation. If sweeps (list requests) poll the generation, this is the time
// of the next sweep or of the next individual read, whichever is earlier. Otherwise, it is the time of the next individual
// read.
func (a *agenda) nextPoll(e *generation) time.Time {
	if e.listing.hint != nil || a.list.sweepAt.Before(e.listing.readSinglyUntil) {
		return e.polling.due
	}
	return earliest(e.polling.due, a.list.sweepAt)
}

// limiter returns the limiter that grants the permits for all requests with the tenant's API key.
func (a *agenda) limiter() *limiter.Limiter { return a.cfg.Upstream.Limiter(a.cred.Tenant) }

// nextStart returns the earliest time at which another poll may start. It takes account of the limiter and of the pause
// after failed polls.
func (a *agenda) nextStart(now time.Time) time.Time {
	n, next := a.limiter().Polls()
	if n > 0 {
		next = now
	}
	return latest(a.health.pausedUntil, next)
}

// pauseEnd returns the time until which polling is paused, which may be in the past. Polling pauses if the catalog
// requests a pause, is unavailable, or rejects a shared API key.
func (a *agenda) pauseEnd() time.Time {
	until, _ := a.limiter().Pause()
	return latest(a.health.pausedUntil, until)
}

// condition returns the current condition of the catalog. It returns ConditionThrottled while the limiter pauses all requests,
// unless polls have found a worse condition.
func (a *agenda) condition() Condition {
	_, closed := a.limiter().Pause()
	switch c := a.health.condition; {
	case closed && c <= ConditionHealthy:
		return ConditionThrottled
	case !closed && c == ConditionThrottled:
		return ConditionHealthy
	default:
		return c
	}
}

// isStale reports whether a generation's state is so old that it must be read again before it is delivered. A settled
// state is never stale, because it can't change. The exception is a deletion that was only inferred from 404s.
func (a *agenda) isStale(e *generation, now time.Time) bool {
	over := e.hasReached(Settled, now, a.cfg.RefundWindow) && !e.isPresumedDeleted()
	return !over && now.Sub(e.state.ObserveTime) >= a.cfg.MinInterval
}

// heartbeat returns the heartbeat for a watch of one generation.
func (a *agenda) heartbeat(e *generation, now time.Time) *Heartbeat {
	beat := a.newHeartbeat(e.state.ObserveTime)
	if e.polling.failures > 0 {
		beat.Failures, beat.LastError, beat.Own = e.polling.failures, e.polling.lastErr, true
	}
	if a.mustPoll(e, now) {
		beat.NextPoll = latest(a.nextPoll(e), a.nextStart(now))
	}
	if !e.state.State.Terminal() {
		beat.TypicalRemaining, beat.HasTypical = a.history.Remaining(a.historyOf(e), now.Sub(e.startTime()))
	}
	return beat
}

func (a *agenda) newHeartbeat(observed time.Time) *Heartbeat {
	beat := &Heartbeat{ObserveTime: observed, Condition: a.condition(), Failures: a.health.failures, LastError: a.health.lastErr}
	if beat.Condition == ConditionHealthy { // after a pause of the limiter, earlier failures no longer delay updates
		beat.Failures, beat.LastError = 0, ""
	}
	return beat
}
