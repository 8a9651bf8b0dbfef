package limiter

import "time"

const (
	firstPause  = time.Second      // where the other side does not say for how long; it doubles
	ownPause    = 30 * time.Second // the longest of our own
	askedPause  = 2 * time.Minute  // the longest that the other side can ask for
	capProbe    = time.Minute      // between two orders that look whether the daily cap is over
	mostDoubles = 5
)

// pause closes the gate for everybody. When it is over one goes first, and the others follow when that one has passed.
type pause struct {
	closed bool // until one has passed
	until  time.Time
	count  int // of pauses
	failed int // of them in a row, without an answer
	why    Outcome
	first  *Permit // on its way
}

// opens is when one may go; shut: when the first has passed.
func (p *pause) opens(now time.Time) (at time.Time, shut bool) {
	switch {
	case !p.closed:
		return now, false
	case now.Before(p.until):
		return p.until, false
	}
	return now, p.first != nil
}

// begin notes a turn, and reports whether it is the one that goes first.
func (p *pause) begin(t *Permit) bool {
	if !p.closed {
		return false
	}
	p.first = t
	return true
}

// begins closes the gate for as long as the other side asks. What it says to a request from before the last pause can
// only make that longer.
func (p *pause) begins(asked time.Duration, late bool, now time.Time) {
	if !late {
		p.count++
		p.failed++
	}
	if asked <= 0 {
		if late {
			return
		}
		asked = min(firstPause<<min(p.failed-1, mostDoubles), ownPause)
	}
	p.closed = true
	if until := now.Add(min(asked, askedPause)); until.After(p.until) {
		p.until = until
	}
}

// ended notes the end of a turn, and reports whether the gate opens: the first has passed.
func (p *pause) ended(t *Permit, o Outcome, now time.Time) (opens bool) {
	if p.first != t {
		return false
	}
	p.first = nil
	switch o {
	case Throttled, Paused, Abandoned, Unused:
		return false
	case Failed: // the others would all fail too
		p.begins(0, false, now)
		return false
	}
	if now.Before(p.until) { // another pause has begun meanwhile
		return false
	}
	p.closed, p.failed = false, 0
	return true
}

// dailyCap closes the gate for orders.
type dailyCap struct {
	since time.Time // zero: it is not reached
	looks time.Time // when the next order may look whether it is over
}

// closes reports whether the cap refuses a request: it lasts until the day ends in UTC, unless one order a minute, which
// looks, finds it gone.
func (d *dailyCap) closes(c Class, now time.Time) bool {
	if !d.isReached() || c != Order {
		return false
	}
	if d.isOver(now) {
		d.since = time.Time{}
		return false
	}
	return now.Before(d.looks)
}

// isOver reports whether the day has ended in which the cap was reached.
func (d *dailyCap) isOver(now time.Time) bool {
	const day = 24 * time.Hour
	return !d.since.UTC().Truncate(day).Equal(now.UTC().Truncate(day))
}

func (d *dailyCap) isReached() bool { return !d.since.IsZero() }

func (d *dailyCap) reached(now time.Time) {
	if !d.isReached() {
		d.looks = now.Add(capProbe)
	}
	d.since = now
}

// begin notes an order, and reports whether it looks.
func (d *dailyCap) begin(c Class, now time.Time) (looks bool) {
	if looks = c == Order && d.isReached(); looks {
		d.looks = now.Add(capProbe)
	}
	return looks
}
