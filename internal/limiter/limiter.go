// Package limiter decides which request goes to the catalog next. There is one limiter for each API key.
//
// A request waits in the queue of its owner and class until it may be in flight. A 429 pauses all requests and reduces the
// number of requests in flight by a quarter. Every four rounds of successes raise the number by one. While the daily cap is
// reached, orders are rejected. A request that cannot start before its deadline is rejected as soon as that is known.
package limiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Class is the class of a request. Of the requests of one owner, those of the lowest class start first.
type Class uint8

// The classes.
const (
	Order   Class = iota // a paid order
	Read                 // a read that a caller waits for
	Poll                 // a read for watches
	Classes              // the number of classes
)

// String returns the name of the class in metrics.
func (c Class) String() string { return [...]string{"order", "read", "poll"}[c] }

const (
	// MaxInFlight is the maximum number of requests of one API key in flight. Each may have a response of several MiB in memory.
	MaxInFlight   = 64
	firstInFlight = 16   // initial number of requests that may be in flight
	minInFlight   = 4    // lower limit after any number of 429s, so that a request that hangs does not block the others
	decrease      = 0.75 // a 429 multiplies the number of requests in flight by it
	increase      = 0.25 // added for each round of successes: as many as may be in flight
	reservedPart  = 16   // one place in 16 is reserved for owners with fewer than fewInFlight requests in flight
	fewInFlight   = 2    // see reservedPart
	noPollRate    = 1e6  // polls per second, until a rate is set

	maxRetries  = 10.0 // size of the retry budget: a failure costs 1, and retries need more than half of the budget
	retryEarned = 0.1  // returned to the retry budget by a request that passes

	minStarts = 32          // number of started requests from which the time in the queue is estimated
	recent    = time.Minute // age at which half of the measurement of starts is dropped
)

// Request describes a request that needs a permit.
type Request struct {
	Owner  string
	Weight float64 // weight of the owner; zero means the previous weight, initially 1
	Class  Class
	// Arrived is the time when the request first arrived. It determines the position in the queue, which a request after a
	// 429 thus keeps. Zero means now.
	Arrived time.Time
}

// Error is the error of a request that gets no permit in time. Nothing was sent.
type Error struct {
	RetryAfter time.Duration // estimated time until a retry can get a permit; zero if it is unknown
	Capped     bool          // the daily cap is reached
}

// Error implements error.
func (e *Error) Error() string {
	if e.Capped {
		return "daily cap of the API key reached"
	}
	return fmt.Sprintf("too many requests to the catalog; retry in %v", e.RetryAfter.Round(time.Millisecond))
}

// Limiter grants permits. Its methods may be called concurrently.
type Limiter struct {
	max   float64
	polls *rate.Limiter
	used  time.Time // last use; the set has its own lock for it

	mu       sync.Mutex
	limit    float64 // number of requests that may be in flight
	inFlight int
	retries  float64 // budget for retries of failed requests, as in gRPC
	queue    queue
	busy     time.Time // start of the measurement of starts, initially the time since which requests wait
	starts   int       // number of requests that started since busy
	pause    pause
	cap      dailyCap
	timer    *time.Timer // fires when a pause ends or the next poll may start
}

// New returns a limiter that allows at most maxInFlight requests in flight.
func New(maxInFlight int) *Limiter {
	most := float64(maxInFlight)
	return &Limiter{
		max: most, limit: most, retries: maxRetries, queue: queue{owners: map[string]*owner{}}, polls: rate.NewLimiter(noPollRate, noPollRate),
	}
}

// SetPollRate sets the maximum number of polls per second. The polls of one second may start at the same time.
func (l *Limiter) SetPollRate(perSecond float64) {
	if l.polls.Limit() != rate.Limit(perSecond) {
		l.polls.SetLimit(rate.Limit(perSecond))
		l.polls.SetBurst(max(1, int(perSecond)))
	}
}

// Acquire waits for a permit, which the caller must release. It returns an [*Error] as soon as it is known that no permit is
// granted before the deadline of ctx. If ctx is canceled, it returns the cause.
func (l *Limiter) Acquire(ctx context.Context, r Request) (*Permit, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	w := &waiter{Request: r}
	w.deadline, _ = ctx.Deadline()
	if l.enqueue(w); w.decided == nil {
		return w.permit, w.err
	}
	select {
	case <-w.decided:
		return w.permit, w.err
	case <-ctx.Done():
		return nil, l.abandon(ctx, w)
	}
}

// enqueue adds a request to its queue, unless it cannot start in time, and grants all permits that are available.
func (l *Limiter) enqueue(w *waiter) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	w.Arrived = cmp.Or(w.Arrived, now)
	if w.err = l.rejection(w, now); w.err != nil {
		return
	}
	if l.queue.waiting == 0 {
		l.busy, l.starts = now, 0
	} else if late := now.Add(l.delay(w.Request, now)).Sub(w.deadline); w.Class == Read && !w.deadline.IsZero() && late > 0 {
		w.err = &Error{RetryAfter: max(firstPause, late)}
		return
	}
	l.queue.add(w)
	l.grant(now)
	if w.permit == nil && w.err == nil {
		w.decided = make(chan struct{})
	}
}

// rejection returns an error if the daily cap rejects a request, or the pause ends after the deadline of the request.
func (l *Limiter) rejection(w *waiter, now time.Time) error {
	switch {
	case l.cap.closed(w.Class, now):
		return &Error{Capped: true}
	case !w.deadline.IsZero() && l.pause.until.After(w.deadline):
		return l.newError(now)
	}
	return nil
}

// delay estimates the time that a new request spends in the queue. Zero means that the time is unknown.
func (l *Limiter) delay(r Request, now time.Time) time.Duration {
	if l.starts < minStarts {
		return 0
	}
	return time.Duration(l.queue.before(r) / float64(l.starts) * float64(now.Sub(l.busy)))
}

// newError returns the error of a request that got no permit. It asks for a retry after the pause.
func (l *Limiter) newError(now time.Time) *Error {
	return &Error{RetryAfter: max(firstPause, l.pause.left(now))}
}

// review rejects the waiters that the daily cap or the pause no longer allows to start in time.
func (l *Limiter) review(now time.Time) {
	for _, w := range l.queue.all() {
		if err := l.rejection(w, now); err != nil {
			l.queue.decide(w, nil, err)
		}
	}
}

// abandon removes a request whose context is done, and returns its error.
func (l *Limiter) abandon(ctx context.Context, w *waiter) error {
	now := time.Now()
	l.mu.Lock()
	if w.permit == nil && w.err == nil {
		l.queue.decide(w, nil, l.newError(now))
	}
	l.mu.Unlock()
	w.permit.Release(Result{Outcome: Unused}) // was granted after ctx was done
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return context.Cause(ctx)
	}
	return cmp.Or(w.err, error(&Error{}))
}

// grant grants all permits that are available, and sets the timer of the next check.
func (l *Limiter) grant(now time.Time) {
	w, check := l.next(now)
	for ; w != nil; w, check = l.next(now) {
		l.start(w, now)
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	if !check.IsZero() {
		l.timer = time.AfterFunc(check.Sub(now), func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.grant(time.Now())
		})
	}
}

// next returns the waiter that starts next. If no waiter may start yet, it returns nil and the time of the next check. A
// zero time means that the next check follows when a request in flight ends.
func (l *Limiter) next(now time.Time) (_ *waiter, check time.Time) {
	if l.queue.waiting == 0 || l.pause.probe != nil {
		return nil, time.Time{}
	}
	if l.pause.left(now) > 0 {
		return nil, l.pause.until
	}
	delay := l.pollDelay(1, now)
	w := l.queue.next(func(w *waiter) bool { return l.hasPlace(w.owner) && (w.Class != Poll || delay == 0) })
	if w == nil && delay > 0 && l.queue.polls() > 0 {
		check = now.Add(delay)
	}
	return w, check
}

// pollDelay returns the time until n polls may start.
func (l *Limiter) pollDelay(n int, now time.Time) time.Duration {
	missing := float64(n) - l.polls.TokensAt(now)
	return max(0, time.Duration(missing/float64(l.polls.Limit())*float64(time.Second)))
}

// hasPlace reports whether one more request of an owner may be in flight.
func (l *Limiter) hasPlace(o *owner) bool {
	places := int(l.limit)
	if o.inFlight >= fewInFlight {
		places -= places / reservedPart
	}
	return l.inFlight < places
}

// start grants a permit to a waiter.
func (l *Limiter) start(w *waiter, now time.Time) {
	p := &w.granted
	*p = Permit{limiter: l, owner: w.owner, class: w.Class, granted: now, pauses: l.pause.count}
	if l.pause.closed {
		l.pause.probe = p
	}
	if w.Class == Poll {
		l.polls.AllowN(now, 1)
	}
	l.inFlight++
	l.queue.start(w, p)
	l.starts++
	if age := now.Sub(l.busy); age > recent {
		l.busy, l.starts = l.busy.Add(age/2), l.starts/2
	}
	if p.probesCap = l.cap.probe(w.Class, now); p.probesCap {
		l.review(now) // the other orders are rejected until the outcome of the probe
	}
}
