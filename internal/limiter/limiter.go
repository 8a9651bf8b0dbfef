// Package limiter decides which request is sent to the catalog next. There is one limiter for each API key.
//
// A request waits in a queue until it may be sent. Its position depends on its owner and its class. A 429 pauses all
// requests and lowers the limit on requests in flight to three quarters of the number in flight at that time.
// Successful requests raise the limit again, but more slowly. While the daily cap of the API key is reached, new orders are
// rejected. A request that cannot start before its deadline is rejected as soon as this is known.
package limiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Class is the priority of a request among the requests of the same owner. Orders start first, then reads, then polls.
type Class uint8

// The classes.
const (
	Order Class = iota // a paid order
	Read               // a read that a caller waits for
	Poll               // a read on behalf of watches
)

// String returns the name of the class, as used in metrics.
func (c Class) String() string { return [...]string{"order", "read", "poll"}[c] }

// MarshalText returns the name of the class, as used in JSON.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

const (
	// MaxInFlight is the maximum number of requests in flight for each API key. It bounds memory use, because each
	// response may need several MiB.
	MaxInFlight   = 64
	firstInFlight = 16   // initial number of requests that may be in flight
	minInFlight   = 4    // minimum number of requests that may be in flight, so that one slow request does not block all others
	decrease      = 0.75 // a 429 sets the limit on requests in flight to this fraction of the number in flight at that time
	increase      = 0.25 // while other requests wait, each success raises the limit on requests in flight by this value divided by the limit
	reservedPart  = 16   // limit/reservedPart slots are reserved for owners with few requests in flight
	fewInFlight   = 2    // only owners with fewer requests in flight may use the reserved slots
	noPollRate    = 1e6  // initial poll rate in polls per second; in effect, no limit

	maxFailures = 5 // no request is retried after this number of consecutive failures

	minStarts = 32 // number of requests that must have started before the waiting time of reads is estimated
)

// Request describes a request that needs a permit.
type Request struct {
	Owner  string
	Weight float64 // weight of the owner; zero means 1
	Class  Class
	// Arrived is the time when the request first arrived. It determines the position in the queue. A request that is
	// repeated after a 429 keeps this time, and therefore its position. Zero means now.
	Arrived time.Time
	// Resend is true for an order that the catalog may already have accepted. The daily cap does not apply to it, because only a
	// further attempt can show whether the order exists.
	Resend bool
}

// isNewOrder reports whether the daily cap applies to the request.
func (r Request) isNewOrder() bool { return r.Class == Order && !r.Resend }

// Error reports that the limiter rejected a request. The request was not sent.
type Error struct {
	RetryAfter time.Duration // estimated time until a retry can get a permit; zero if unknown
	Capped     bool          // whether the daily cap is reached
}

// Error implements error.
func (e *Error) Error() string {
	if e.Capped {
		return "daily cap of the API key reached"
	}
	return fmt.Sprintf("too many requests to the catalog; retry in %v", e.RetryAfter.Round(time.Millisecond))
}

// Limiter grants permits for the requests under one API key. It is safe for concurrent use.
type Limiter struct {
	max   float64
	polls *rate.Limiter
	used  time.Time // time when [Set.Of] last returned this limiter; guarded by the mutex of the [Set]

	mu       sync.Mutex
	limit    float64 // number of requests that may currently be in flight
	inFlight int
	queue    queue
	busy     time.Time // time when the queue last became non-empty
	starts   int       // number of requests that have started since the queue last became non-empty
	failures int       // number of consecutive failed requests
	pause    pause
	cap      dailyCap
	timer    *time.Timer // fires when a pause ends or the next poll may start
}

// New returns a limiter that allows at most maxInFlight requests in flight.
func New(maxInFlight int) *Limiter {
	limit := float64(maxInFlight)
	return &Limiter{max: limit, limit: limit, queue: queue{owners: map[string]*owner{}}, polls: rate.NewLimiter(noPollRate, noPollRate)}
}

// SetPollRate sets the maximum number of polls per second. It allows bursts: all polls of one second may start at the same
// time.
func (l *Limiter) SetPollRate(perSecond float64) {
	l.polls.SetLimit(rate.Limit(perSecond))
	l.polls.SetBurst(max(1, int(perSecond)))
}

// Acquire waits for a permit, which the caller must release. It returns an [*Error] if the request is a new order and the daily
// cap is reached. It also returns an [*Error] as soon as it is known that the request cannot start before the deadline of ctx.
// If ctx is canceled, it returns the cancellation cause.
func (l *Limiter) Acquire(ctx context.Context, r Request) (*Permit, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	w := &Permit{Request: r, limiter: l}
	w.deadline, _ = ctx.Deadline()
	if l.enqueue(w); w.decided != nil {
		select {
		case <-w.decided:
		case <-ctx.Done():
			l.abandonRequest(ctx, w)
		}
	}
	if w.err != nil {
		return nil, w.err
	}
	return w, nil
}

// enqueue adds a request to the queue, or rejects it if it cannot start in time. It then grants every permit that is
// available.
func (l *Limiter) enqueue(w *Permit) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	w.Arrived = cmp.Or(w.Arrived, now)
	if len(l.queue.waiting) == 0 {
		l.busy, l.starts = now, 0
	}
	l.queue.addRequest(w)
	if err := cmp.Or(l.checkRejection(w, now), l.checkWait(w, now)); err != nil {
		l.queue.decideRequest(w, err)
	}
	if l.grantPermits(now); w.granted.IsZero() && w.err == nil {
		w.decided = make(chan struct{})
	}
}

// checkRejection returns an error in two cases: the request is a new order that the daily cap does not allow now, or the
// current pause ends after the request's deadline.
func (l *Limiter) checkRejection(w *Permit, now time.Time) error {
	switch {
	case w.isNewOrder() && l.cap.isClosed(now):
		return &Error{Capped: true}
	case !w.deadline.IsZero() && l.pause.until.After(w.deadline):
		return l.newError(now)
	}
	return nil
}

// checkWait returns an error if the request is a read that is expected to wait in the queue beyond its deadline.
func (l *Limiter) checkWait(w *Permit, now time.Time) error {
	if w.Class != Read || w.deadline.IsZero() || l.starts < minStarts {
		return nil
	}
	wait := l.queue.countBefore(w.owner) / float64(l.starts) * float64(now.Sub(l.busy))
	if late := now.Add(time.Duration(wait)).Sub(w.deadline); late > 0 {
		return &Error{RetryAfter: max(firstPause, late)}
	}
	return nil
}

// newError returns the error for a request that got no permit. RetryAfter is the remaining time of the pause, but at least
// firstPause.
func (l *Limiter) newError(now time.Time) *Error {
	return &Error{RetryAfter: max(firstPause, l.pause.remainingTime(now))}
}

// rejectLate rejects the queued requests that the daily cap no longer allows, or whose deadlines are before the end of the
// pause.
func (l *Limiter) rejectLate(now time.Time) {
	for _, w := range slices.Clone(l.queue.waiting) {
		if err := l.checkRejection(w, now); err != nil {
			l.queue.decideRequest(w, err)
		}
	}
}

// abandonRequest removes a request from the queue because its context is done. It does nothing if the request was granted or
// rejected in the meantime.
func (l *Limiter) abandonRequest(ctx context.Context, w *Permit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := context.Cause(ctx)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = l.newError(time.Now())
	}
	if w.granted.IsZero() && w.err == nil {
		l.queue.decideRequest(w, err)
	}
}

// grantPermits grants every permit that is available, and sets a timer for the time when it must check again.
func (l *Limiter) grantPermits(now time.Time) {
	w, check := l.nextRequest(now)
	for ; w != nil; w, check = l.nextRequest(now) {
		l.startRequest(w, now)
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	if check > 0 {
		l.timer = time.AfterFunc(check, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.grantPermits(time.Now())
		})
	}
}

// nextRequest returns the request that starts next. If no request may start yet, it returns nil and the time until the next
// check of the queue. This time is zero if no timer is needed, because a request must first arrive or end.
func (l *Limiter) nextRequest(now time.Time) (_ *Permit, check time.Duration) {
	if len(l.queue.waiting) == 0 || l.pause.probe != nil || l.inFlight >= int(l.limit) {
		return nil, 0
	}
	if left := l.pause.remainingTime(now); left > 0 {
		return nil, left
	}
	delay, free, reserved := l.pollDelay(1, now), int(l.limit)-l.inFlight, int(l.limit)/reservedPart
	return l.queue.nextRequest(func(w *Permit) bool {
		return (w.Class != Poll || delay == 0) && (w.owner.inFlight < fewInFlight || free > reserved)
	}), delay
}

// pollDelay returns the time until the poll rate allows n polls to start.
func (l *Limiter) pollDelay(n int, now time.Time) time.Duration {
	missing := float64(n) - l.polls.TokensAt(now)
	return max(0, time.Duration(missing/float64(l.polls.Limit())*float64(time.Second)))
}

// startRequest grants a permit and records that the request has started.
func (l *Limiter) startRequest(w *Permit, now time.Time) {
	w.granted, w.pauses = now, l.pause.count
	if l.pause.closed {
		l.pause.probe = w
	}
	if w.Class == Poll {
		l.polls.AllowN(now, 1)
	}
	l.inFlight++
	l.starts++
	l.queue.startRequest(w)
	if w.probesCap = w.isNewOrder() && l.cap.isReached(now); w.probesCap {
		l.cap.nextProbe = now.Add(capInterval)
		l.rejectLate(now) // rejects the new orders in the queue: until nextProbe, no other order may probe the daily cap
	}
}
