package sandbox

import (
	"cmp"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// limiter is a token bucket for each account.
type limiter struct {
	rate  rate.Limit
	burst int

	mu      sync.Mutex
	buckets map[int64]*rate.Limiter
}

func newLimiter(perSecond float64, burst int) *limiter {
	return &limiter{
		rate: rate.Limit(perSecond), burst: cmp.Or(burst, int(math.Ceil(perSecond))), buckets: map[int64]*rate.Limiter{},
	}
}

// take takes one token. When there is none it returns the time until there will be one.
func (l *limiter) take(account int64) (wait time.Duration) {
	if l.rate == 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	bucket := l.buckets[account]
	if bucket == nil {
		bucket = rate.NewLimiter(l.rate, l.burst)
		l.buckets[account] = bucket
	}
	now := time.Now()
	token := bucket.ReserveN(now, 1)
	if wait = token.DelayFrom(now); wait > 0 {
		token.CancelAt(now)
	}
	return wait
}
