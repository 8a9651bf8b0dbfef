package events

import "time"

const (
	maxInFlight = 16
	minRest     = time.Second // delay after the first failed attempt; doubles with each further failure, up to maxRest
	maxRest     = 15 * time.Second
	maxDoubles  = 4
)

// receiver is the delivery state of a team's event receiver. After a failed delivery, at most one event at a time is
// sent to the receiver until a delivery succeeds.
type receiver struct {
	failures int       // number of consecutive failed attempts
	rest     time.Time // time until which no event is sent; zero if the last delivery succeeded
	logged   bool      // whether the receiver's current failures were already logged
}

// maxInFlight returns the maximum number of events that may be in flight to the receiver.
func (r *receiver) maxInFlight(now time.Time) int {
	switch {
	case now.Before(r.rest):
		return 0
	case r.failures > 0:
		return 1
	}
	return maxInFlight
}

// recordAttempt records the result of an attempt to deliver an event. wasRetry means that the event had been sent before. If
// mustLogFailure is true, the caller must log that the receiver is failing; it is never true for a retry. If mustLogRecovery is
// true, the caller must log that the receiver has recovered.
func (r *receiver) recordAttempt(delivered, wasRetry bool, now time.Time) (mustLogFailure, mustLogRecovery bool) {
	mustLogFailure, mustLogRecovery = !delivered && !wasRetry && !r.logged, delivered && r.logged
	r.logged = r.logged && !delivered || mustLogFailure
	if delivered {
		r.failures, r.rest = 0, time.Time{}
		return mustLogFailure, mustLogRecovery
	}
	r.rest = now.Add(min(minRest<<min(r.failures, maxDoubles), maxRest))
	r.failures++
	return mustLogFailure, mustLogRecovery
}
