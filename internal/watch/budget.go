package watch

import "time"

const (
	slowest  = 1.0 / 16         // the rate is never halved below this share of what is allowed
	creep    = 1.0 / 64         // share of the allowed rate that an answer gives back
	pauseCap = 2 * time.Minute  // longest pause that the catalog can ask for
	probe    = time.Minute      // time between tries with a held key that was rejected
	calm     = 30 * time.Second // longest pause of our own in an outage
)

// budget is the upstream allowance of one credential: a token bucket that halves on
// 429, pauses as long as the catalog asks, and creeps back up.
type budget struct {
	limit  float64 // requests a second, as configured
	rate   float64 // requests a second, now
	tokens float64
	filled time.Time
	paused time.Time // no poll before
}

func newBudget(limit float64, now time.Time) *budget {
	return &budget{limit: limit, rate: limit, tokens: burst(limit), filled: now}
}

// burst is how many polls may go at once: those of one second, and at least one.
func burst(limit float64) float64 { return max(1, limit) }

// take takes a token, or says when to ask again.
func (b *budget) take(now time.Time) (ok bool, again time.Time) {
	if now.Before(b.paused) {
		return false, b.paused
	}
	if passed := now.Sub(b.filled).Seconds(); passed > 0 {
		b.tokens = min(b.tokens+passed*b.rate, burst(b.limit))
		b.filled = now
	}
	if b.tokens >= 1 {
		b.tokens--
		return true, now
	}
	wait := time.Duration((1 - b.tokens) / b.rate * float64(time.Second))
	return false, now.Add(max(wait, time.Millisecond))
}

// pause holds all polls until at least the given time.
func (b *budget) pause(until time.Time) {
	if until.After(b.paused) {
		b.paused = until
	}
	b.tokens = min(b.tokens, 1) // no burst at the end of a pause
}

// throttled notes a 429 that asked to wait for d, or for nothing readable (0).
func (b *budget) throttled(now time.Time, d time.Duration) {
	b.rate = max(b.rate/2, b.limit*slowest)
	b.pause(now.Add(min(d, pauseCap)))
}

// answered notes a request that was answered.
func (b *budget) answered() { b.rate = min(b.rate+b.limit*creep, b.limit) }
