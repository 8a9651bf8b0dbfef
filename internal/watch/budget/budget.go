// Package budget is the upstream allowance of one credential.
package budget

import "time"

const (
	leastShare = 1.0 / 16        // the rate is never halved below this share of the limit
	pauseCap   = 2 * time.Minute // longest pause that the catalog can ask for
	rounding   = 1e-9            // of the sums of tokens
)

const (
	// Recovery is the time of a linear recovery from 0 to the allowed rate.
	Recovery = time.Minute
	// Reserved is the share of the rate that is reserved for polls.
	Reserved = 1.0 / 4
)

// Budget is the upstream allowance of one credential: a token bucket that halves its rate on a
// 429, pauses as long as the catalog asks, and recovers by addition as time goes by
// (D.-M. Chiu and R. Jain, 1989). Calls take tokens without waiting and so come before
// polls; a quarter of the rate is reserved for polls, so that a busy caller can't stop them.
type Budget struct {
	limit  float64 // requests a second, as configured
	rate   float64 // requests a second, now
	shared float64 // tokens for calls and polls
	own    float64 // tokens for polls alone
	filled time.Time
	paused time.Time // no poll before
}

// New makes a budget of so many requests a second.
func New(limit float64, now time.Time) *Budget {
	b := &Budget{limit: limit, rate: limit, filled: now}
	b.own, b.shared = b.capacity()
	return b
}

// capacity is the size of the two parts: together the polls of one second, and at least one each.
func (b *Budget) capacity() (own, shared float64) { return 1, max(1, b.limit-1) }

// fill adds the tokens since the last call. Tokens beyond the capacity of one part go into the other.
func (b *Budget) fill(now time.Time) {
	passed := now.Sub(later(b.filled, earlier(b.paused, now))).Seconds()
	b.filled = later(b.filled, now)
	if passed <= 0 {
		return
	}
	b.rate = min(b.rate+b.limit*passed/Recovery.Seconds(), b.limit)
	own, shared := b.capacity()
	b.own += passed * b.rate * Reserved
	b.shared += passed*b.rate*(1-Reserved) + max(b.own-own, 0)
	b.own = min(b.own+max(b.shared-shared, 0), own)
	b.shared = min(b.shared, shared)
}

// Available is how many requests may be made now, and when there may be another after them.
func (b *Budget) Available(now time.Time) (n int, again time.Time) {
	if now.Before(b.paused) {
		return 0, b.paused
	}
	b.fill(now)
	tokens := max(b.shared, 0) + b.own + rounding
	n = int(tokens)
	wait := time.Duration((float64(n+1) - tokens) / b.rate * float64(time.Second))
	return n, now.Add(max(wait, time.Millisecond))
}

// Take takes an available token for a request.
func (b *Budget) Take() {
	shared := min(max(b.shared, 0), 1)
	b.shared -= shared
	b.own = max(b.own-(1-shared), 0)
}

// GiveBack gives tokens back that were taken for requests that were not made.
func (b *Budget) GiveBack(n int) {
	_, most := b.capacity()
	b.shared = min(b.shared+float64(n), most)
}

// SetLimit sets the allowed rate.
func (b *Budget) SetLimit(limit float64, now time.Time) {
	if limit == b.limit {
		return
	}
	b.fill(now)
	b.rate *= limit / b.limit
	b.limit = limit
	own, shared := b.capacity()
	b.own, b.shared = min(b.own, own), min(b.shared, shared)
}

// Spend counts a request of a call, which does not wait for a token: polls wait instead. Calls can owe the
// tokens of one second at most.
func (b *Budget) Spend(now time.Time) {
	b.fill(now)
	_, most := b.capacity()
	b.shared = max(b.shared-1, -most)
}

// Pause holds all polls until at least the given time.
func (b *Budget) Pause(now, until time.Time) {
	b.fill(now)
	b.paused = later(b.paused, until)
	b.shared, b.own = min(b.shared, 1), 0 // no burst at the end of a pause
}

// Throttled notes a 429 that asks to wait for d. A 429 in a pause does not halve the rate again, as its
// request was in flight when the pause began.
func (b *Budget) Throttled(now time.Time, d time.Duration) {
	b.fill(now)
	if !now.Before(b.paused) {
		b.rate = max(b.rate/2, b.limit*leastShare)
	}
	b.Pause(now, now.Add(min(d, pauseCap)))
}

// Recovered reports whether the budget has recovered from every 429 and pause, so that it may be forgotten.
func (b *Budget) Recovered(now time.Time) bool {
	if now.Before(b.paused) {
		return false
	}
	b.fill(now)
	return b.rate >= b.limit
}

// State is the state of a budget at one moment.
type State struct {
	Rate, Limit float64   // requests a second, now and as allowed
	Level       float64   // requests that may be made at once; below 0 it is in debt
	Paused      time.Time // no poll before; in the past where there is no pause
}

// State gives the state of the budget, and changes nothing.
func (b *Budget) State(now time.Time) State {
	copied := *b
	copied.fill(now)
	return State{Rate: copied.rate, Limit: copied.limit, Level: copied.own + copied.shared, Paused: b.paused}
}

// Paused gives the time before which there is no poll.
func (b *Budget) Paused() time.Time { return b.paused }

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
