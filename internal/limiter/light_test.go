package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/limiter"
)

// crowd lets owners ask as much as they can.
type crowd struct {
	gate    *limiter.Limiter
	catalog *catalog
	work    sync.WaitGroup

	mu   sync.Mutex
	lost int             // requests that had no turn within a minute
	took []time.Duration // requests of the light owner, without the pauses that the catalog has asked for
}

func (c *crowd) order(ctx context.Context, owner string, weight float64) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := order(ctx, c.gate, c.catalog, limiter.Request{Owner: owner, Weight: weight}); errors.As(err, new(*limiter.Refused)) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.lost++
	}
}

// ask lets ten owners ask, one of them fifty or a hundred times as much as the others.
func (c *crowd) ask(ctx context.Context) {
	for n, workers := range []int{100, 2, 2, 1, 1, 1, 1, 1, 1, 1} {
		for range workers {
			c.work.Go(func() {
				for ctx.Err() == nil {
					c.order(ctx, fmt.Sprint(n), float64(min(workers, 2)))
				}
			})
		}
	}
}

// visit makes one request of an owner that asks for less than its part.
func (c *crowd) visit(ctx context.Context) {
	c.work.Go(func() {
		began := time.Now()
		c.order(ctx, "light", 2)
		took := time.Since(began) - c.catalog.paused(began, time.Now())
		c.mu.Lock()
		defer c.mu.Unlock()
		c.took = append(c.took, took)
	})
}

func TestALightOwnerHardlyWaitsBesideOneThatFloods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const alone = 200 * time.Millisecond
		c := &crowd{gate: limiter.New(limiter.Config{}), catalog: newCatalog(20, 20, time.Second)}
		c.catalog.latency = alone - 10*time.Millisecond
		ctx, cancel := context.WithCancel(t.Context())
		c.ask(ctx)
		time.Sleep(time.Minute)     // until the pace is known
		requests, late := 2400, 100 // one in so many may be late: a pause makes a few wait
		if testing.Short() {
			requests, late = 300, 10
		}
		for range requests {
			time.Sleep(500 * time.Millisecond)
			c.visit(ctx)
		}
		time.Sleep(5 * time.Second)
		cancel()
		c.work.Wait()
		if c.lost > 0 {
			t.Errorf("%d requests had no turn within a minute", c.lost)
		}
		slices.Sort(c.took)
		if took := c.took[len(c.took)-1-len(c.took)/late]; len(c.took) != requests || took > 3*alone {
			t.Errorf("%d requests take %v but for one in %d, and alone %v", len(c.took), took, late, alone)
		}
	})
}
