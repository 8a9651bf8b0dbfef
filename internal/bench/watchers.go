package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// crowd is many watches on a few connections.
type crowd struct {
	conns   []*h2conn
	failed  chan error
	arrived atomic.Int64 // messages of all streams
	ended   atomic.Int64
	closing atomic.Bool

	mu    sync.Mutex
	times []time.Time // of the messages since listen was called
	on    bool
}

func (c *crowd) close() {
	c.closing.Store(true)
	for _, conn := range c.conns {
		conn.Close()
	}
}

// connect opens the connections of a crowd.
func connect(addr string, conns int, window uint32) (*crowd, error) {
	c := &crowd{failed: make(chan error, conns)}
	for range conns {
		conn, err := dial(addr, window)
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

// stream makes a stream that counts its messages, and notes their times while asked to.
func (c *crowd) stream() *h2stream {
	return &h2stream{
		took: func(_ *h2stream, _ []byte, at time.Time) {
			c.arrived.Add(1)
			c.note(at)
		},
		done: func(s *h2stream, _ time.Time) {
			c.ended.Add(1)
			if s.status != "0" && !c.closing.Load() {
				select {
				case c.failed <- fmt.Errorf("a watch ended with status %s", s.status):
				default:
				}
			}
		},
	}
}

func (c *crowd) note(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.on {
		c.times = append(c.times, at)
	}
}

// record notes the times of messages from now on.
func (c *crowd) record() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times, c.on = c.times[:0], true
}

func (c *crowd) recorded() []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on = false
	return c.times
}

const (
	watchOne  = "GenerationService/WatchGeneration"
	watchMany = "GenerationService/WatchGenerations"
	getOne    = "GenerationService/GetGeneration"
	download  = "GenerationService/DownloadGeneration"
)

// longest is the longest time between heartbeats: the load is to be quiet.
var longest = durationpb.New(time.Minute)

// watch opens n watches, spread over the connections; id names the render of each.
func (c *crowd) watch(ctx context.Context, n int, id func(i int) string) error {
	return c.open(ctx, n, watchOne, func(i int) proto.Message {
		return &easelv1.WatchGenerationRequest{GenerationId: id(i), HeartbeatInterval: longest}
	})
}

// open begins n calls, a batch at a time, and waits for the first message of each.
func (c *crowd) open(ctx context.Context, n int, method string, request func(i int) proto.Message) error {
	const batch = 500
	had := c.arrived.Load()
	for i := 0; i < n; i += batch {
		for j := i; j < min(i+batch, n); j++ {
			if err := c.conns[j%len(c.conns)].call(method, request(j), c.stream()); err != nil {
				return err
			}
		}
		for _, conn := range c.conns {
			if err := conn.flush(); err != nil {
				return err
			}
		}
		if err := c.await(ctx, had+int64(min(i+batch, n))); err != nil {
			return err
		}
	}
	return nil
}

// patience is how long the load waits for what must come.
const patience = 60 * time.Second

// await waits until so many messages have come in all.
func (c *crowd) await(ctx context.Context, messages int64) error {
	deadline := time.Now().Add(patience)
	for c.arrived.Load() < messages {
		select {
		case err := <-c.failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d messages came", c.arrived.Load(), messages)
		}
	}
	return nil
}
