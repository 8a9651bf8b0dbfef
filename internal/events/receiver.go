package events

import "time"

const (
	maxInFlight = 16
	minRest     = time.Second // delay after a failure; doubles
	maxRest     = 15 * time.Second
	maxDoubles  = 4
)

// receiver is the state of the receiver of a team. While it fails, only one event is in flight.
type receiver struct {
	failures int       // number of consecutive failures
	rest     time.Time // time until which nothing is sent
	logged   bool      // whether the failure was logged
}

// room returns the maximum number of events that may be in flight.
func (r *receiver) room(now time.Time) int {
	switch {
	case now.Before(r.rest):
		return 0
	case r.failures > 0:
		return 1
	}
	return maxInFlight
}

// done records the result of an attempt. It reports whether a failure or a recovery has to be logged. A retry of an event does
// not log another failure.
func (r *receiver) done(delivered, retried bool, now time.Time) (fails, recovers bool) {
	fails, recovers = !delivered && !retried && !r.logged, delivered && r.logged
	r.logged = r.logged && !delivered || fails
	if delivered {
		r.failures, r.rest = 0, time.Time{}
		return fails, recovers
	}
	r.rest = now.Add(min(minRest<<min(r.failures, maxDoubles), maxRest))
	r.failures++
	return fails, recovers
}
