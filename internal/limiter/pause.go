package limiter

import "time"

const (
	firstPause  = time.Second // length of the first pause if the catalog specifies no length; doubles with each consecutive pause
	ownPause    = time.Minute // maximum length of a pause if the catalog specifies no length
	maxDoubles  = 6
	askedPause  = 2 * time.Minute // maximum length of a pause, even if the catalog requests a longer one
	capInterval = time.Minute     // minimum time between two orders that probe the daily cap
)

// pause blocks all requests until a given time. After that time, a single request is sent as a probe. The other
// requests stay blocked until the catalog has served or rejected the probe.
type pause struct {
	closed bool // true from the start of the pause until the catalog has served or rejected the probe
	until  time.Time
	probe  *Permit // permit of the probe; nil if no probe is in flight
	reason Outcome // reason for the latest pause: [Throttled] or [Unavailable]
	count  int     // number of pauses since the limiter was created
	row    int     // number of consecutive pauses; reset when the catalog has served or rejected a probe
}

// remainingTime returns the remaining time of the pause.
func (p *pause) remainingTime(now time.Time) time.Duration { return max(0, p.until.Sub(now)) }

// beginPause starts or extends a pause after a request with the result r. If isLate is true, the request was sent before
// the latest pause began. Such a late result does not count as another pause, and extends the current one only if
// the catalog requests a later end.
func (p *pause) beginPause(r Result, isLate bool, now time.Time) {
	length := min(r.RetryAfter, askedPause)
	if length <= 0 && !isLate {
		length = min(firstPause<<min(p.row, maxDoubles), ownPause)
	}
	if !isLate {
		p.count++
		p.row++
	}
	if until := now.Add(length); length > 0 && until.After(p.until) {
		p.closed, p.until, p.reason = true, until, r.Outcome
	}
}

// endProbe handles the outcome o of a request if the request was the probe after a pause. If the catalog has served or
// rejected the probe, the pause is over, unless a late result has extended it. If the probe has failed, the pause
// starts again.
func (p *pause) endProbe(permit *Permit, o Outcome, now time.Time) {
	if p.probe != permit {
		return
	}
	p.probe = nil
	switch o {
	case Throttled, Unavailable, Abandoned, Unused:
	case Failed: // the other requests would fail too, so the pause starts again
		p.beginPause(Result{Outcome: p.reason}, false, now)
	default: // a late result may have extended the pause
		if p.closed = p.remainingTime(now) > 0; !p.closed {
			p.row = 0
		}
	}
}

// dailyCap is the state of the daily cap. Once the cap is reached, orders are rejected until midnight UTC, or until
// the catalog accepts an order that was sent as a probe.
type dailyCap struct{ until, nextProbe time.Time }

func (d *dailyCap) isReached(now time.Time) bool { return now.Before(d.until) }

// isClosed reports whether an order must be rejected now. It returns false if the cap is not reached, or if the
// order may be sent as a probe.
func (d *dailyCap) isClosed(now time.Time) bool { return d.isReached(now) && now.Before(d.nextProbe) }

func (d *dailyCap) reachCap(now time.Time) {
	const day = 24 * time.Hour
	d.nextProbe, d.until = now.Add(capInterval), now.Truncate(day).Add(day)
}
