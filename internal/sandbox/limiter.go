package sandbox

import (
	"cmp"
	"math"
	"sync"
	"time"
)

// limiter is a token bucket for each account.
type limiter struct {
	rate, burst float64

	mu      sync.Mutex
	buckets map[int64]bucket
}

type bucket struct {
	tokens float64
	at     time.Time
}

func newLimiter(rate float64, burst int) *limiter {
	return &limiter{rate: rate, burst: cmp.Or(float64(burst), math.Ceil(rate)), buckets: map[int64]bucket{}}
}

// take takes one token. When there is none it returns the time until there will be one.
func (l *limiter) take(account int64) (wait time.Duration) {
	if l.rate == 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	b, seen := l.buckets[account]
	if !seen {
		b = bucket{tokens: l.burst, at: now}
	}
	b.tokens = min(l.burst, b.tokens+now.Sub(b.at).Seconds()*l.rate)
	b.at = now
	if b.tokens >= 1 {
		b.tokens--
	} else {
		wait = time.Duration((1 - b.tokens) / l.rate * float64(time.Second))
	}
	l.buckets[account] = b
	return wait
}
