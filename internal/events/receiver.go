package events

import "time"

const (
	maxInFlight = 16
	minRest     = time.Second // delay after the first failure; doubles after each further failure
	maxRest     = 15 * time.Second
	maxDoubles  = 4
)

// receiver is the state of a team's receiver. While the receiver fails, it is sent only one event at a time.
type receiver struct {
	failures int       // number of consecutive failures
	rest     time.Time // time before which nothing is sent
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

// done records the result of an attempt. fails reports whether a failure must be logged, and recovers whether a recovery must
// be logged. The failure of a retry is not logged.
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
