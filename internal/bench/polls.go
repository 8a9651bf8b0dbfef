package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// shortest is the shortest time between two polls, as it is by default.
const shortest = time.Second

// polling is a setting with polls as they are by default. They are not made faster, as what
// a poll is worth is weighed in seconds.
func polling(set setting) setting {
	set.every = shortest
	if set.bare {
		set.every = 2 * shortest // a fixed interval with a mean delay of one
	}
	return set
}

// requestsOfAChange counts the requests for each change of state, where a hundred renders
// are active all the time and each has ten watchers. It fails where the mean delay is above
// one interval, as few requests are easy with a long one.
func requestsOfAChange(set setting) side {
	const active, watchers = 100, 10
	return func(ctx context.Context, b *bench) (float64, error) {
		s, err := b.scene(ctx, polling(set))
		if err != nil {
			return 0, err
		}
		defer s.stop()
		c, err := connect(s.server.addrs["grpc"], 10, plenty)
		if err != nil {
			return 0, err
		}
		defer c.close()
		until := time.Now().Add(b.lasting(90 * time.Second))
		var slots sync.WaitGroup
		failures := make(chan error, active)
		for slot := range active {
			slots.Go(func() { failures <- c.replace(ctx, s, slot, watchers, until) })
		}
		slots.Wait()
		for range active {
			if err := <-failures; err != nil {
				return 0, err
			}
		}
		return s.requestsEach(ctx)
	}
}

// replace keeps one render active until the time is over: each has its watchers, and when
// all have heard that it ended, the next one begins.
func (c *crowd) replace(ctx context.Context, s *scene, slot, watchers int, until time.Time) error {
	for k := 0; time.Now().Before(until); k++ {
		prefix := fmt.Sprintf("s%d-%d-", slot, k)
		if err := s.control(ctx, "/renders?prefix=%s&n=1&median=15s&sigma=0.6&seed=%d", prefix, slot*1000+k); err != nil {
			return err
		}
		var ends sync.WaitGroup
		ends.Add(watchers)
		for i := range watchers {
			conn := c.conns[(slot+i)%len(c.conns)]
			stream := &h2stream{done: func(*h2stream, time.Time) { ends.Done() }}
			if err := conn.call(watchOne, watchRequest(prefix+"0"), stream); err != nil {
				return err
			}
			if err := conn.flush(); err != nil {
				return err
			}
		}
		ends.Wait()
	}
	return nil
}

// requestsEach gives the requests for each render that has ended, and checks the delay.
func (s *scene) requestsEach(ctx context.Context) (float64, error) {
	counted, err := s.counts(ctx)
	if err != nil {
		return 0, err
	}
	showed, err := s.showed(ctx)
	if err != nil {
		return 0, err
	}
	var late time.Duration
	for _, seen := range showed {
		late += time.Duration(seen.Late)
	}
	if mean := late / time.Duration(max(1, len(showed))); mean > shortest*105/100 {
		return 0, fmt.Errorf("the mean delay is %v, with %v allowed", mean, shortest)
	}
	return counted.polls() / float64(len(showed)), nil
}

// requestsOf counts the requests for the life of one render under so many watchers, which
// all leave and come back again and again.
func requestsOf(watchers int) side {
	const life = time.Minute
	return func(ctx context.Context, b *bench) (float64, error) {
		s, err := b.scene(ctx, polling(setting{}))
		if err != nil {
			return 0, err
		}
		defer s.stop()
		lives := b.lasting(life)
		if err := s.control(ctx, "/renders?prefix=r&n=1&median=%s&sigma=0", lives); err != nil {
			return 0, err
		}
		ends := time.Now().Add(lives)
		for time.Until(ends) > 0 {
			if err := comeAndGo(ctx, s, watchers, min(lives/10, time.Until(ends)+time.Second)); err != nil {
				return 0, err
			}
		}
		counted, err := s.counts(ctx)
		return counted.polls(), err
	}
}

// comeAndGo has all watchers there for a while.
func comeAndGo(ctx context.Context, s *scene, watchers int, stay time.Duration) error {
	c, err := connect(s.server.addrs["grpc"], 10, plenty)
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.watch(ctx, watchers, func(int) string { return "r0" }); err != nil {
		return err
	}
	select {
	case <-time.After(stay):
		return nil
	case err := <-c.failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
