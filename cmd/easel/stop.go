package main

import (
	"context"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/server"
)

// stopClock gives the steps of a stop one deadline. Calls come first; what they leave is
// for copies and polls, for orders whose callers have gone, and what those leave for the last traces. A step
// that is quick leaves its time to the next. The last twentieth is for the process itself
// to end in.
type stopClock struct {
	limit time.Duration // of the whole stop

	once  sync.Once
	began time.Time
}

// telemetryMinimum is the least time that telemetry gets, as nothing leaves in no time at all. For its
// sake a stop with a limit below 10 s can take longer than that, by less than this.
const telemetryMinimum = time.Second

// start begins the stop, unless it has begun.
func (c *stopClock) start() { c.once.Do(func() { c.began = time.Now() }) }

// calls is how long calls may take to end.
func (c *stopClock) calls() time.Duration { return c.limit * 75 / 100 }

// forWork lets work end that no call waits for, as copies and polling, until orders have their time, and goes on without it then.
func (c *stopClock) forWork(end func()) {
	ended := make(chan struct{})
	go func() {
		end()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(c.left(80)):
	}
}

// forOrders is a context that ends when orders have to be left alone.
func (c *stopClock) forOrders(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), c.left(85))
}

// forTelemetry is a context that ends when the process has to.
func (c *stopClock) forTelemetry(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), max(c.left(95), telemetryMinimum))
}

// left is how much is left of so many percent of the limit.
func (c *stopClock) left(percent time.Duration) time.Duration {
	c.start()
	return time.Until(c.began.Add(c.limit * percent / 100))
}

// timedService starts the clock when the server begins to stop, for whatever reason.
type timedService struct {
	server.Service
	clock *stopClock
}

// Drain implements server.Service.
func (s timedService) Drain() {
	s.clock.start()
	s.Service.Drain()
}
