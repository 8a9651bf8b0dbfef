package telemetry

import (
	"cmp"
	"time"

	"github.com/easel-grpc/easel/internal/limiter"
)

// waiters identifies a group of requests that wait for permits.
type waiters struct{ owner, class string }

// limitersReading summarizes the states of all limiters: the numbers of waiting requests and of limiters that reject or
// delay requests, the longest wait, and the time until the end of the latest pause.
type limitersReading struct {
	waiting map[waiters]int
	wait    time.Duration
	closed  map[string]int // number of limiters that reject or delay requests, keyed by the reason
	opens   time.Duration
}

func readLimiters(states map[string]limiter.State, now time.Time) limitersReading {
	r := limitersReading{waiting: map[waiters]int{}, closed: map[string]int{}}
	for _, s := range states {
		for _, w := range s.Waiting {
			r.waiting[waiters{cmp.Or(w.Owner, "forwarded"), w.Class.String()}] += w.Count
			r.wait = max(r.wait, now.Sub(w.Since))
		}
		if s.Closed {
			r.closed[reasonOf(s.Reason)]++
			r.opens = max(r.opens, s.Paused.Sub(now))
		}
		if s.Capped {
			r.closed["daily_cap"]++
		}
	}
	return r
}

func reasonOf(reason limiter.Outcome) string {
	if reason == limiter.Unavailable {
		return "unavailable"
	}
	return "rate_limited"
}

func (r limitersReading) observe(value observe) {
	for l, n := range r.waiting {
		value("easel.limiter.waiting", float64(n), waiter.is(l.owner), class.is(l.class))
	}
	value("easel.limiter.wait", r.wait.Seconds())
	for _, reason := range closedBy.Values {
		value("easel.limiter.closed", float64(r.closed[reason]), closedBy.is(reason))
	}
	value("easel.limiter.opens", r.opens.Seconds())
}
