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

// watchClient opens many watches on a few connections.
type watchClient struct {
	conns  []*h2conn
	failed chan error // receives the error that ended a connection

	mu    sync.Mutex
	times []time.Time // arrival times of the messages from all watches
}

// connectWatchClient returns a watch client with 10 connections to the server. They stay open until the end of the
// scene.
func (s *scene) connectWatchClient() (*watchClient, error) {
	const conns = 10
	c := &watchClient{failed: make(chan error, conns)}
	for range conns {
		conn, err := dial(s.server.addrs["grpc"], c.note)
		if err != nil {
			return nil, err
		}
		s.undo = append(s.undo, func() { _ = conn.Close() })
		c.conns = append(c.conns, conn)
		go func() { c.failed <- conn.readFrames() }()
	}
	return c, nil
}

// openWatches opens n watches, distributed evenly over the given number of generations. It opens the watches in
// batches. After each batch, it waits until every watch has received its first message. The first batch is a single
// watch.
func (c *watchClient) openWatches(ctx context.Context, n, generations int) error {
	const batch = 500
	for i, end := 0, 1; i < n; i, end = end, end+batch {
		for j := i; j < min(end, n); j++ {
			request := watchRequest("g" + strconv.Itoa(j%generations))
			if err := c.conns[j%len(c.conns)].startCall(easelv1.GenerationService_WatchGeneration_FullMethodName, request); err != nil {
				return err
			}
		}
		if err := c.awaitMessages(ctx, min(end, n)); err != nil {
			return err
		}
	}
	return nil
}

// watchRequest returns a request to watch a generation. It has the longest heartbeat interval, so that heartbeats
// do not add to the load.
func watchRequest(id string) *easelv1.WatchGenerationRequest {
	return &easelv1.WatchGenerationRequest{GenerationId: id, HeartbeatInterval: durationpb.New(time.Minute)}
}

// awaitMessages waits until all watches together have received the given number of messages. It returns an error
// after a minute, or if a connection fails.
func (c *watchClient) awaitMessages(ctx context.Context, messages int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for c.arrivedCount() < messages {
		select {
		case err := <-c.failed:
			return fmt.Errorf("load client connection failed: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("only %d of %d messages arrived: %w", c.arrivedCount(), messages, ctx.Err())
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

// arrivedCount returns the number of received messages.
func (c *watchClient) arrivedCount() int { return len(c.arrivalTimes(0)) }

// arrivalTimes returns the arrival times of the messages, oldest first. It skips the given number of messages.
func (c *watchClient) arrivalTimes(first int) []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.times[first:]
}
