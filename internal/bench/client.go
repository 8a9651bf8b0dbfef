package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// watchClient is many watches on a few connections.
type watchClient struct {
	conns  []*h2conn
	failed chan error // why connections ended

	mu    sync.Mutex
	times []time.Time // of the messages of all watches
}

// watchers opens the connections of a client, which last as long as the scene.
func (s *scene) watchers() (*watchClient, error) {
	const conns = 10
	c := &watchClient{failed: make(chan error, conns)}
	for range conns {
		conn, err := dial(s.server.addrs["grpc"], c.note)
		if err != nil {
			return nil, err
		}
		s.undo = append(s.undo, func() { _ = conn.Close() })
		c.conns = append(c.conns, conn)
		go func() { c.failed <- conn.read() }()
	}
	return c, nil
}

// watch opens n watches of the first so many generations, a batch at a time, and waits for the
// first message of each. The first one alone, as few calls may wait for the proof of an API key.
func (c *watchClient) watch(ctx context.Context, n, generations int) error {
	const batch = 500
	for i, end := 0, 1; i < n; i, end = end, end+batch {
		for j := i; j < min(end, n); j++ {
			request := watchRequest("g" + strconv.Itoa(j%generations))
			if err := c.conns[j%len(c.conns)].call(easelv1.GenerationService_WatchGeneration_FullMethodName, request); err != nil {
				return err
			}
		}
		if err := c.await(ctx, min(end, n)); err != nil {
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
func (c *watchClient) await(ctx context.Context, messages int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for c.arrived() < messages {
		select {
		case err := <-c.failed:
			return fmt.Errorf("a connection of the load broke: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("%d of %d messages came: %w", c.arrived(), messages, ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
	return nil
}

func (c *watchClient) note(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times = append(c.times, at)
}

// arrived is how many messages have come.
func (c *watchClient) arrived() int { return len(c.since(0)) }

// since gives when the messages came, without the first so many.
func (c *watchClient) since(first int) []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.times[first:]
}
