package watch

import "time"

const (
	slowest  = 1.0 / 16         // the rate is never halved below this share of what is allowed
	recovery = time.Minute      // from nothing back to the allowed rate, in a straight line
	reserved = 1.0 / 4          // share of the rate that calls can't take from the polls
	pauseCap = 2 * time.Minute  // longest pause that the catalog can ask for
	rounding = 1e-9             // of the sums of tokens
	probe    = time.Minute      // time between tries with a held key that was rejected
	calm     = 30 * time.Second // longest pause of our own in an outage
)

// budget is the upstream allowance of one credential: a token bucket that halves on
// 429, pauses as long as the catalog asks, and recovers by addition as time goes by
// (D.-M. Chiu and R. Jain, 1989). Calls take tokens without asking and so come before
// polls; a quarter of the rate is out of their reach, so that a busy caller can't keep
// the catalog from being watched.
type budget struct {
	limit  float64 // requests a second, as configured
	rate   float64 // requests a second, now
	shared float64 // tokens for calls and polls
	own    float64 // tokens for polls alone
	filled time.Time
	paused time.Time // no poll before
}

func newBudget(limit float64, now time.Time) *budget {
	b := &budget{limit: limit, rate: limit, filled: now}
	b.own, b.shared = b.room()
	return b
}

// room is what the two parts hold: together the polls of one second, and at least one each.
func (b *budget) room() (own, shared float64) { return 1, max(1, b.limit-1) }

// fill adds what has come since the last time. What one part can't hold flows into the other.
func (b *budget) fill(now time.Time) {
	passed := now.Sub(latest(b.filled, earlier(b.paused, now))).Seconds()
	b.filled = latest(b.filled, now)
	if passed <= 0 {
		return
	}
	b.rate = min(b.rate+b.limit*passed/recovery.Seconds(), b.limit)
	own, shared := b.room()
	b.own += passed * b.rate * reserved
	b.shared += passed*b.rate*(1-reserved) + max(b.own-own, 0)
	b.own = min(b.own+max(b.shared-shared, 0), own)
	b.shared = min(b.shared, shared)
}

// take takes a token, or says when to ask again.
func (b *budget) take(now time.Time) (ok bool, again time.Time) {
	if now.Before(b.paused) {
		return false, b.paused
	}
	b.fill(now)
	shared := max(b.shared, 0)
	if shared+b.own >= 1-rounding {
		b.shared -= min(shared, 1)
		b.own -= max(1-shared, 0)
		return true, now
	}
	wait := time.Duration((1 - shared - b.own) / b.rate * float64(time.Second))
	return false, now.Add(max(wait, time.Millisecond))
}

// allot sets the rate that is allowed from now on.
func (b *budget) allot(limit float64, now time.Time) {
	if limit == b.limit {
		return
	}
	b.fill(now)
	b.rate *= limit / b.limit
	b.limit = limit
	own, shared := b.room()
	b.own, b.shared = min(b.own, own), min(b.shared, shared)
}

// spend counts a request of a call, which does not wait for a token: polls wait for it. What
// calls can owe is one second's worth.
func (b *budget) spend(now time.Time) {
	b.fill(now)
	_, most := b.room()
	b.shared = max(b.shared-1, -most)
}

// pause holds all polls until at least the given time.
func (b *budget) pause(now, until time.Time) {
	b.fill(now)
	b.paused = latest(b.paused, until)
	b.shared, b.own = min(b.shared, 1), 0 // no burst at the end of a pause
}

// throttled notes a 429 that asked to wait for d. Those that were on their way when the pause
// began are part of the same excess.
func (b *budget) throttled(now time.Time, d time.Duration) {
	b.fill(now)
	if !now.Before(b.paused) {
		b.rate = max(b.rate/2, b.limit*slowest)
	}
	b.pause(now, now.Add(min(d, pauseCap)))
}

// rested reports whether nothing is left of a 429 or a pause, so that the budget may be
// forgotten.
func (b *budget) rested(now time.Time) bool {
	if now.Before(b.paused) {
		return false
	}
	b.fill(now)
	return b.rate >= b.limit
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
