package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// watchClient is many watches on a few connections.
type watchClient struct {
	conns   []*h2conn
	failed  chan error
	arrived atomic.Int64 // messages of all watches
	closing atomic.Bool

	mu    sync.Mutex
	times []time.Time // of the messages since record was called
}

// watchers opens the connections of a client.
func (s *scene) watchers() (*watchClient, error) {
	const conns = 10
	c := &watchClient{failed: make(chan error, conns)}
	for range conns {
		conn, err := dial(s.server.addrs["grpc"], c.note)
		if err != nil {
			c.close()
			return nil, err
		}
		c.conns = append(c.conns, conn)
		go func() {
			if err := conn.read(); !c.closing.Load() {
				c.failed <- fmt.Errorf("a connection of the load broke: %w", err)
			}
		}()
	}
	return c, nil
}

func (c *watchClient) close() {
	c.closing.Store(true)
	for _, conn := range c.conns {
		conn.Close()
	}
}

// watch opens n watches of the first so many generations, a batch at a time, and waits for the
// first message of each.
func (c *watchClient) watch(ctx context.Context, n, generations int) error {
	const batch = 500
	for i := 0; i < n; i += batch {
		for j := i; j < min(i+batch, n); j++ {
			request := watchRequest("g" + strconv.Itoa(j%generations))
			if err := c.conns[j%len(c.conns)].call(easelv1.GenerationService_WatchGeneration_FullMethodName, request); err != nil {
				return err
			}
		}
		for _, conn := range c.conns {
			if err := conn.flush(); err != nil {
				return err
			}
		}
		if err := c.await(ctx, int64(min(i+batch, n))); err != nil {
			return err
		}
	}
	return nil
}

// watchRequest asks for as few heartbeats as can be: the load is to be quiet.
func watchRequest(id string) *easelv1.WatchGenerationRequest {
	return &easelv1.WatchGenerationRequest{GenerationId: id, HeartbeatInterval: durationpb.New(time.Minute)}
}

// await waits until so many messages have come in all.
func (c *watchClient) await(ctx context.Context, messages int64) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for c.arrived.Load() < messages {
		select {
		case err := <-c.failed:
			return err
		case <-ctx.Done():
			return fmt.Errorf("%d of %d messages came: %w", c.arrived.Load(), messages, ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
	return nil
}

func (c *watchClient) note(at time.Time) {
	c.mu.Lock()
	c.times = append(c.times, at)
	c.mu.Unlock()
	c.arrived.Add(1)
}

// record forgets the times of messages so far, and gives how many there were.
func (c *watchClient) record() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times = c.times[:0]
	return c.arrived.Load()
}

// recorded gives the times of messages since record.
func (c *watchClient) recorded() []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.times
}
