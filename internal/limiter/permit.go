package limiter

import "time"

// Outcome is the outcome of a request.
type Outcome uint8

// The outcomes.
const (
	Passed      Outcome = iota // the catalog returned a result
	Rejected                   // the catalog rejected the request for a reason other than load or the daily cap
	Failed                     // the catalog did not respond, or responded with a server error
	Throttled                  // 429: the catalog requests a pause
	Unavailable                // 503 with Retry-After: the catalog requests a pause
	Capped                     // the daily cap is reached
	Abandoned                  // the caller stopped waiting before the catalog responded
	Unused                     // the request was not sent
)

// Result contains the outcome of a request, and the length of the pause that the response requests.
type Result struct {
	Outcome
	// RetryAfter is the length of the pause that the catalog requests, if the outcome is [Throttled] or [Unavailable]. Zero
	// means that the catalog does not specify the length.
	RetryAfter time.Duration
}

func (r Result) asksForPause() bool { return r.Outcome == Throttled || r.Outcome == Unavailable }

// isServed reports whether the request counts toward its owner's share. A request does not count if it was not sent, or if the
// catalog responded to it by requesting a pause.
func (r Result) isServed() bool { return !r.asksForPause() && r.Outcome != Unused }

// Permit is the right to send one request. Until it is granted, it represents a request that waits in the queue.
type Permit struct {
	Request
	limiter   *Limiter
	owner     *owner
	deadline  time.Time     // deadline of the request; zero if it has none
	decided   chan struct{} // closed when the permit is granted or rejected; nil if that happened immediately
	err       error         // reason for a rejection; nil if the permit was not rejected
	granted   time.Time     // time of the grant; zero until the permit is granted
	probesCap bool          // whether the request is an order that tests whether the daily cap is still reached
	pauses    int           // value of pause.count when the permit was granted
	released  bool
}

// Release ends the request and records its result. It does nothing if the permit is nil or already released.
func (p *Permit) Release(r Result) {
	if p == nil {
		return
	}
	l, now := p.limiter, time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.released {
		return
	}
	p.released = true
	l.adaptLimit(p, r.Outcome)
	l.inFlight--
	l.queue.endRequest(p.owner, now.Sub(p.granted), r.isServed())
	l.learnFrom(p, r, now)
	l.grantPermits(now)
}

// adaptLimit changes the limit on requests in flight. A success raises the limit if other requests are waiting. The increase is
// small, because each 429 costs the time of a pause and of the probe that follows it. A 429 lowers the limit to a fraction of
// the current number of requests in flight. But a 429 for a request that started before the latest pause, or for the probe
// after that pause, does not change the limit.
func (l *Limiter) adaptLimit(p *Permit, o Outcome) {
	switch {
	case o == Passed && len(l.queue.waiting) > 0:
		l.limit = min(l.max, l.limit+increase/l.limit)
	case o == Throttled && p.pauses == l.pause.count && l.pause.probe != p:
		l.limit = min(l.max, max(minInFlight, float64(l.inFlight)*decrease))
	}
}

// learnFrom updates the pause, the daily cap and the number of consecutive failures from the result of a request.
func (l *Limiter) learnFrom(p *Permit, r Result, now time.Time) {
	switch {
	case p.probesCap && !r.isServed():
		l.cap.nextProbe = now // the probe did not show whether the cap still applies, so another order may probe it immediately
	case r.Outcome == Capped && (p.isNewOrder() || !l.cap.isReached(now)): // the rejection of a resend must not delay the next probe
		l.cap.reachCap(now)
	case r.Outcome == Failed:
		l.failures++
	case r.Outcome == Passed:
		if l.failures = 0; p.isNewOrder() {
			l.cap = dailyCap{}
		}
	}
	if r.asksForPause() {
		l.pause.beginPause(r, p.pauses != l.pause.count, now)
	}
	l.pause.endProbe(p, r.Outcome, now)
	if r.asksForPause() || r.Outcome == Capped {
		l.rejectLate(now)
	}
}
