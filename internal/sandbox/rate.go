package sandbox

import (
	"cmp"
	"math"
	"sync"
	"time"
)

// requestRate is a token bucket for each account.
type requestRate struct {
	rate, burst float64

	mu      sync.Mutex
	buckets map[int64]bucket
}

type bucket struct {
	tokens float64
	at     time.Time
}

func newRequestRate(rate float64, burst int) *requestRate {
	return &requestRate{rate: rate, burst: cmp.Or(float64(burst), math.Ceil(rate)), buckets: map[int64]bucket{}}
}

// take takes one token. When there is none it returns the time until there will be one.
func (r *requestRate) take(account int64) (wait time.Duration) {
	if r.rate == 0 {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	b, seen := r.buckets[account]
	if !seen {
		b = bucket{tokens: r.burst, at: now}
	}
	b.tokens = min(r.burst, b.tokens+now.Sub(b.at).Seconds()*r.rate)
	b.at = now
	if b.tokens >= 1 {
		b.tokens--
	} else {
		wait = time.Duration((1 - b.tokens) / r.rate * float64(time.Second))
	}
	r.buckets[account] = b
	return wait
}
