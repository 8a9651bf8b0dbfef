package limiter_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/limiter"
)

// catalog is a token bucket. It rejects requests with 429 while the bucket is empty.
type catalog struct {
	rate, burst float64
	retryAfter  time.Duration
	latency     time.Duration

	mu          sync.Mutex
	tokens      float64
	filled      time.Time
	pausedUntil time.Time // end of the latest pause that the catalog has requested
	passed      map[string]float64
	lost        float64 // number of tokens that were lost because the bucket was full; tokens that were lost during a pause do not count
}

// sendRequest sends an owner's request and reports whether the catalog accepts it. It releases the request's permit p.
func (c *catalog) sendRequest(owner string, p *limiter.Permit) bool {
	time.Sleep(c.latency / 2)
	passes := c.takeToken(owner)
	time.Sleep(c.latency / 2)
	if passes {
		p.Release(limiter.Result{Outcome: limiter.Passed})
		return true
	}
	p.Release(limiter.Result{Outcome: limiter.Throttled, RetryAfter: c.retryAfter})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pausedUntil = time.Now().Add(c.retryAfter)
	return false
}

// takeToken removes a token for an owner's request. It returns false if the bucket is empty.
func (c *catalog) takeToken(owner string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, outside := time.Now(), c.filled
	if c.pausedUntil.After(outside) {
		outside = c.pausedUntil
	}
	c.tokens += now.Sub(c.filled).Seconds() * c.rate
	if over := c.tokens - c.burst; over > 0 {
		c.tokens = c.burst
		c.lost += min(over, max(0, now.Sub(outside).Seconds()*c.rate))
	}
	c.filled = now
	if c.tokens < 1-1e-9 {
		return false
	}
	c.tokens--
	c.passed[owner]++
	return true
}

// team is an owner whose callers send orders continuously.
type team struct {
	name     string
	weight   float64
	callers  int
	deadline time.Duration
	rejected atomic.Int64
}

func (o *team) run(ctx context.Context, l *limiter.Limiter, c *catalog) {
	for ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(ctx, o.deadline)
		if err := o.sendOrder(ctx, l, c); err != nil && context.Cause(ctx) != context.Canceled {
			o.rejected.Add(1)
			time.Sleep(time.Second) // otherwise, virtual time would not advance while orders fail immediately
		}
		cancel()
	}
}

// sendOrder sends an order, and repeats it until the catalog accepts it.
func (o *team) sendOrder(ctx context.Context, l *limiter.Limiter, c *catalog) error {
	arrived := time.Now()
	for {
		p, err := l.Acquire(ctx, limiter.Request{Owner: o.name, Weight: o.weight, Arrived: arrived})
		if err != nil {
			return err
		}
		if c.sendRequest(o.name, p) {
			return nil
		}
	}
}

// teams returns ten teams. The first has 400 callers. The second has 12 callers and the weight 3. Each other team has
// 4 callers.
func teams() []*team {
	teams := make([]*team, 10)
	for n := range teams {
		teams[n] = &team{name: fmt.Sprint("team ", n), weight: 1, callers: 4, deadline: time.Minute}
	}
	teams[0].callers, teams[0].deadline = 400, time.Hour
	teams[1].weight, teams[1].callers = 3, 12
	return teams
}

// jainIndex returns Jain's fairness index. It is computed from the number of accepted requests of each team, divided by the
// team's weight. The index is 1 if all shares match the weights.
func (c *catalog) jainIndex(teams []*team) float64 {
	var sum, squares float64
	for _, o := range teams {
		x := c.passed[o.name] / o.weight
		sum, squares = sum+x, squares+x*x
	}
	return sum * sum / squares / float64(len(teams))
}

func TestTeamsShareTheCatalogByWeight(t *testing.T) {
	for _, row := range []struct {
		name                string
		rate, burst         float64
		retryAfter, latency time.Duration
	}{
		{"a bucket of one second of requests", 20, 20, time.Second, 50 * time.Millisecond},
		{"a small bucket", 20, 5, time.Second, 50 * time.Millisecond},
		{"long pauses", 20, 20, 5 * time.Second, 50 * time.Millisecond},
		{"no Retry-After", 20, 20, 0, 50 * time.Millisecond},
		{"slow responses", 20, 20, time.Second, 200 * time.Millisecond},
		{"slower responses", 20, 20, time.Second, 500 * time.Millisecond},
		{"few requests", 2, 2, time.Second, 50 * time.Millisecond},
		{"many requests", 300, 300, time.Second, 50 * time.Millisecond},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &catalog{rate: row.rate, burst: row.burst, retryAfter: row.retryAfter, latency: row.latency, filled: time.Now(), passed: map[string]float64{}}
				c.checkShares(t, teams())
			})
		})
	}
}

// checkShares checks that the teams' shares are fair, that at least 90 % of the allowed requests are sent, and that no order
// is rejected. The limiter first has one minute to adapt; shares and requests are then measured for five minutes.
func (c *catalog) checkShares(t *testing.T, teams []*team) {
	ctx, cancel := context.WithCancel(t.Context())
	l := limiter.NewSet().Of("key")
	var all sync.WaitGroup
	for _, o := range teams {
		for range o.callers {
			all.Go(func() { o.run(ctx, l, c) })
		}
	}
	time.Sleep(time.Minute)
	c.mu.Lock()
	clear(c.passed)
	c.lost = 0
	c.mu.Unlock()
	time.Sleep(5 * time.Minute)
	c.mu.Lock()
	if jain := c.jainIndex(teams); !(jain >= 0.98) {
		t.Errorf("Jain's fairness index is %.3f, want at least 0.98: %v", jain, c.passed)
	}
	passed := 0.0
	for _, n := range c.passed {
		passed += n
	}
	if use := passed / (passed + c.lost); !(use >= 0.9) {
		t.Errorf("%.1f %% of the allowed requests were sent", 100*use)
	}
	c.mu.Unlock()
	cancel()
	all.Wait()
	for _, o := range teams {
		if n := o.rejected.Load(); n > 0 {
			t.Errorf("%d orders of %s were rejected", n, o.name)
		}
	}
}
