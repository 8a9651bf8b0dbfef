package limiter

import (
	"slices"
	"time"
)

// State is a snapshot of a limiter.
type State struct {
	Closed    bool      `json:"closed"`              // whether requests are blocked: during a pause, and then until the catalog has served or rejected a probe
	Paused    time.Time `json:"pausedTill,omitzero"` // end of the latest pause; zero before the first pause
	Reason    Outcome   `json:"-"`                   // reason for the latest pause: [Throttled] or [Unavailable]
	Capped    bool      `json:"capped"`              // whether the daily cap is reached
	NextProbe time.Time `json:"nextProbe,omitzero"`  // time from which an order may be sent to check whether the daily cap still applies
	PollRate  float64   `json:"pollRate"`            // maximum number of polls per second
	Polls     float64   `json:"polls"`               // number of polls that PollRate allows now; may be fractional
	InFlight  int       `json:"inFlight"`
	Waiting   []Waiting `json:"waiting,omitempty"`
}

// Waiting describes the requests of one owner and class that wait for permits.
type Waiting struct {
	Owner string    `json:"owner"`
	Class Class     `json:"class"`
	Count int       `json:"count"`
	Since time.Time `json:"oldest"` // arrival time of the oldest waiting request
}

// State returns a snapshot of the limiter.
func (l *Limiter) State() State {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := State{
		Closed: l.pause.closed, Paused: l.pause.until, Reason: l.pause.reason, Capped: l.cap.isReached(now), NextProbe: l.cap.nextProbe,
		PollRate: float64(l.polls.Limit()), Polls: l.polls.Tokens(), InFlight: l.inFlight,
	}
	for _, w := range l.queue.waiting {
		s.addWaiting(w)
	}
	return s
}

// Pause returns the end of the latest pause, or zero before the first pause. closed reports whether requests are blocked:
// during this pause, and then until the catalog has served or rejected a probe.
func (l *Limiter) Pause() (until time.Time, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pause.until, l.pause.closed
}

// addWaiting counts a waiting request in the entry of s.Waiting for the request's owner and class.
func (s *State) addWaiting(w *Permit) {
	at := slices.IndexFunc(s.Waiting, func(all Waiting) bool { return all.Owner == w.Owner && all.Class == w.Class })
	if at < 0 {
		at = len(s.Waiting)
		s.Waiting = append(s.Waiting, Waiting{Owner: w.Owner, Class: w.Class, Since: w.Arrived})
	}
	all := &s.Waiting[at]
	all.Count++
	if w.Arrived.Before(all.Since) {
		all.Since = w.Arrived
	}
}

// isIdle reports whether the limiter has no waiting requests, no requests in flight, no current pause, and has not reached the
// daily cap.
func (s State) isIdle(now time.Time) bool {
	return len(s.Waiting) == 0 && s.InFlight == 0 && !s.Paused.After(now) && !s.Capped
}

// Polls returns the number of polls that may be requested now, in addition to the polls that are already waiting. next is the
// time when one more poll may start. During a pause, n is 0 and next is the end of the pause.
func (l *Limiter) Polls() (n int, next time.Time) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pause.remainingTime(now) > 0 {
		return 0, l.pause.until
	}
	waiting := 0
	for _, w := range l.queue.waiting {
		if w.Class == Poll {
			waiting++
		}
	}
	n = max(0, int(l.polls.TokensAt(now)+1e-9)-waiting)
	return n, now.Add(max(time.Millisecond, l.pollDelay(waiting+n+1, now)))
}

// MayRetry reports whether a failed request may be retried. After maxFailures consecutive failures, no request may be retried,
// because retries would make an outage worse.
func (l *Limiter) MayRetry() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failures < maxFailures
}
