package events

import "time"

const (
	maxInFlight = 16
	minRest     = time.Second // delay after the first failed attempt; doubles with each further failure, up to maxRest
	maxRest     = 15 * time.Second
	maxDoubles  = 4
)

// receiver is the state of a team's receiver. After a failed delivery, the receiver gets only one event at a time until
// a delivery succeeds.
type receiver struct {
	failures int       // number of consecutive failed attempts
	rest     time.Time // time before which no event is sent
	logged   bool      // whether the current series of failures was logged
}

// room returns the maximum number of events that may be in flight to the receiver.
func (r *receiver) room(now time.Time) int {
	switch {
	case now.Before(r.rest):
		return 0
	case r.failures > 0:
		return 1
	}
	return maxInFlight
}

// done records the result of an attempt to deliver an event. retried means that this was not the first attempt to
// deliver the event. If fails is true, the caller must log that the receiver is failing. If recovers is true, the
// caller must log that the receiver has recovered. A failed retry is not logged.
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
