package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

func watchRequest(id string) *easelv1.WatchGenerationRequest {
	return &easelv1.WatchGenerationRequest{GenerationId: id, HeartbeatInterval: longest}
}

const (
	idleStreams = 50_000
	idleRenders = 100
	manyIDs     = 100 // renders in a watch of many
)

// idleWatch measures the memory that an idle watch takes in the server.
func idleWatch(set setting) side {
	set.every = 10 * time.Second
	set.args = []string{"--poll-max-interval", "10s"}
	return func(ctx context.Context, b *bench) (float64, error) {
		n := b.load(idleStreams)
		return b.grown(ctx, set, n, n, watchOne, func(i int) proto.Message {
			return watchRequest("r" + strconv.Itoa(i%idleRenders))
		})
	}
}

// watchedRender measures the memory of one render in a watch of a hundred. Each render is in
// ten such watches.
func watchedRender(ctx context.Context, b *bench) (float64, error) {
	set := setting{tracing: "always", every: 10 * time.Second, args: []string{"--poll-max-interval", "10s", "--poll-rate", "500"}}
	watched := b.load(idleStreams)
	streams := max(1, watched/manyIDs)
	groups := max(1, streams/10)
	return b.grown(ctx, set, streams, watched, watchMany, func(i int) proto.Message {
		ids := make([]string, manyIDs)
		for k := range ids {
			ids[k] = "r" + strconv.Itoa(i%groups*manyIDs+k)
		}
		return &easelv1.WatchGenerationsRequest{GenerationIds: ids, HeartbeatInterval: longest}
	})
}

// grown opens streams on ten connections and gives by how much the resident memory of the
// server has grown, for each of a number of things.
func (b *bench) grown(ctx context.Context, set setting, streams, things int, method string, request func(i int) proto.Message) (float64, error) {
	s, err := b.scene(ctx, set)
	if err != nil {
		return 0, err
	}
	defer s.stop()
	if err := s.control(ctx, "/renders?prefix=r&n=%d", max(idleRenders, things/10)); err != nil {
		return 0, err
	}
	c, err := connect(s.server.addrs["grpc"], 10, plenty)
	if err != nil {
		return 0, err
	}
	defer c.close()
	before, err := s.server.resident(ctx)
	if err != nil {
		return 0, err
	}
	if err := c.open(ctx, streams, method, request); err != nil {
		return 0, err
	}
	if method == watchMany { // each render of it has a message, and then it has caught up
		if err := c.await(ctx, int64(things+streams)); err != nil {
			return 0, err
		}
	}
	after, err := s.server.resident(ctx)
	return (after - before) / float64(things), err
}

const (
	pushStreams = 10_000
	pushRounds  = 7

	rest = 300 * time.Millisecond // in which the server does what is left to do
)

// pushDelay measures the 99th percentile of the time from the catalog's answer to the arrival
// of the change at each of many watchers; of the last change, which ends the watches too, or
// of one before it. It is the median of some rounds.
func pushDelay(set setting, last bool) side {
	return func(ctx context.Context, b *bench) (float64, error) {
		p99, _, err := b.pushes(ctx, set, last)
		return p99, err
	}
}

// pushAllocations counts what the server allocates to tell one watcher of a change.
func pushAllocations(set setting) side {
	set.every = 200 * time.Millisecond
	set.args = []string{"--poll-max-interval", "200ms", "--poll-rate", "50"}
	return func(ctx context.Context, b *bench) (float64, error) {
		s, err := b.scene(ctx, set)
		if err != nil {
			return 0, err
		}
		defer s.stop()
		if err := s.control(ctx, "/renders?prefix=r&n=1"); err != nil {
			return 0, err
		}
		c, err := connect(s.server.addrs["grpc"], 10, plenty)
		if err != nil {
			return 0, err
		}
		defer c.close()
		const streams = pushStreams // with fewer, each push would have a span
		if err := c.watch(ctx, streams, func(int) string { return "r0" }); err != nil {
			return 0, err
		}
		all, err := s.server.allocated(ctx, func() error {
			for range pushRounds {
				if _, err := c.push(ctx, s, "r0", "", streams); err != nil {
					return err
				}
			}
			return nil
		})
		return all / (pushRounds * streams), err
	}
}

// pushCPU measures what it costs the server to tell one watcher of a change.
func pushCPU(set setting) side {
	return func(ctx context.Context, b *bench) (float64, error) {
		_, cpu, err := b.pushes(ctx, set, false)
		return float64(cpu.Nanoseconds()) / 1000, err
	}
}

func (b *bench) pushes(ctx context.Context, set setting, last bool) (p99 float64, cpu time.Duration, err error) {
	set.every = 200 * time.Millisecond
	set.args = []string{"--poll-max-interval", "200ms", "--poll-rate", "50"}
	s, err := b.scene(ctx, set)
	if err != nil {
		return 0, 0, err
	}
	defer s.stop()
	return b.rounds(ctx, s, b.load(pushStreams), last)
}

// rounds measures some pushes to the same watchers, or to new ones where each push is the last:
// the median of their delays, and the server's time for one watcher.
func (b *bench) rounds(ctx context.Context, s *scene, streams int, last bool) (p99 float64, cpu time.Duration, err error) {
	if err := s.control(ctx, "/renders?prefix=r&n=%d", pushRounds); err != nil {
		return 0, 0, err
	}
	c, err := connect(s.server.addrs["grpc"], 10, plenty)
	if err != nil {
		return 0, 0, err
	}
	defer c.close()
	var all []float64
	for round := range pushRounds {
		id, end := "r0", ""
		if last {
			id, end = "r"+strconv.Itoa(round), "&end=1"
		}
		if last || round == 0 {
			if err := c.watch(ctx, streams, func(int) string { return id }); err != nil {
				return 0, 0, err
			}
			time.Sleep(rest)
		}
		before, err := s.server.cpu()
		if err != nil {
			return 0, 0, err
		}
		p99, err := c.push(ctx, s, id, end, streams)
		if err != nil {
			return 0, 0, err
		}
		time.Sleep(rest)
		after, err := s.server.cpu()
		if err != nil {
			return 0, 0, err
		}
		all, cpu = append(all, p99), cpu+after-before
	}
	return median(all), cpu / time.Duration(pushRounds*streams), nil
}

// push changes a render, and gives the 99th percentile of the delays in milliseconds.
func (c *crowd) push(ctx context.Context, s *scene, id, end string, streams int) (float64, error) {
	c.record()
	had := c.arrived.Load()
	if err := s.control(ctx, "/change?id=%s%s", id, end); err != nil {
		return 0, err
	}
	if err := c.await(ctx, had+int64(streams)); err != nil {
		return 0, err
	}
	showed, err := s.showed(ctx)
	if err != nil {
		return 0, err
	}
	sent := time.Unix(0, showed[id].Sent)
	var delays []float64
	for _, at := range c.recorded() {
		if delay := at.Sub(sent); delay > 0 {
			delays = append(delays, float64(delay.Microseconds())/1000)
		}
	}
	if len(delays) < streams {
		return 0, fmt.Errorf("%d of %d watchers heard of the change", len(delays), streams)
	}
	return quantile(delays, 0.99), nil
}

// stuckWatcher measures pushes to many watchers, with one among them that never reads.
func stuckWatcher(stuck bool) side {
	set := setting{tracing: "always", every: 200 * time.Millisecond, args: []string{"--poll-max-interval", "200ms", "--poll-rate", "50"}}
	return func(ctx context.Context, b *bench) (float64, error) {
		s, err := b.scene(ctx, set)
		if err != nil {
			return 0, err
		}
		defer s.stop()
		if stuck {
			c, err := connect(s.server.addrs["grpc"], 1, 0)
			if err != nil {
				return 0, err
			}
			defer c.close()
			if err := c.conns[0].call(watchOne, watchRequest("r0"), &h2stream{}); err != nil {
				return 0, err
			}
			if err := c.conns[0].flush(); err != nil {
				return 0, err
			}
		}
		p99, _, err := b.rounds(ctx, s, b.load(pushStreams)-1, false)
		return p99, err
	}
}

const (
	textStreams = 5_000
	textBytes   = 100_000
)

// textPeak measures by how much the memory of the server rises at most while it sends one
// long text to many watchers.
func textPeak(set setting) side {
	set.every = 500 * time.Millisecond
	set.args = []string{"--poll-max-interval", "500ms"}
	return func(ctx context.Context, b *bench) (float64, error) {
		s, err := b.scene(ctx, set)
		if err != nil {
			return 0, err
		}
		defer s.stop()
		if err := s.control(ctx, "/renders?prefix=r&n=1&textbytes=%d", textBytes); err != nil {
			return 0, err
		}
		c, err := connect(s.server.addrs["grpc"], 10, 64<<10)
		if err != nil {
			return 0, err
		}
		defer c.close()
		streams := b.load(textStreams)
		if err := c.watch(ctx, streams, func(int) string { return "r0" }); err != nil {
			return 0, err
		}
		before, err := s.server.resident(ctx)
		if err != nil {
			return 0, err
		}
		if err := s.server.forgetPeak(); err != nil {
			return 0, err
		}
		if err := s.control(ctx, "/change?id=r0&end=1"); err != nil {
			return 0, err
		}
		if err := c.await(ctx, int64(2*streams)); err != nil {
			return 0, err
		}
		peak, err := s.server.memory("VmHWM")
		return peak - before, err
	}
}

const delayRenders = 10_000

// addedDelay measures the 99th percentile of the time from the catalog's answer to the arrival
// of the change at the one watch of a render, with ten thousand renders active.
func addedDelay(ctx context.Context, b *bench) (float64, error) {
	set := setting{tracing: "always", every: time.Second, args: []string{"--poll-rate", "400"}}
	s, err := b.scene(ctx, set)
	if err != nil {
		return 0, err
	}
	defer s.stop()
	renders, perStream := b.load(delayRenders), 1000
	if err := s.control(ctx, "/renders?prefix=r&n=%d&median=1h&sigma=0", renders); err != nil {
		return 0, err
	}
	c, err := connect(s.server.addrs["grpc"], 10, plenty)
	if err != nil {
		return 0, err
	}
	defer c.close()
	arrivals := make(chan arrival, renders)
	for first := 0; first < renders; first += perStream {
		if err := c.follow(first, min(perStream, renders-first), arrivals); err != nil {
			return 0, err
		}
	}
	return s.endSome(ctx, c, renders, arrivals)
}

// arrival is a last state as a watcher got it.
type arrival struct {
	id string
	at time.Time
}

// follow opens a watch of many renders and tells of those that end.
func (c *crowd) follow(first, n int, arrivals chan<- arrival) error {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = "r" + strconv.Itoa(first+i)
	}
	stream := &h2stream{took: func(_ *h2stream, message []byte, at time.Time) {
		c.arrived.Add(1)
		var event easelv1.WatchGenerationsResponse
		if proto.Unmarshal(message, &event) == nil && event.GetUpdate().GetGeneration().GetTerminal() {
			arrivals <- arrival{event.GetUpdate().GetGeneration().GetGenerationId(), at}
		}
	}}
	conn := c.conns[first/1000%len(c.conns)]
	if err := conn.call(watchMany, &easelv1.WatchGenerationsRequest{GenerationIds: ids, HeartbeatInterval: longest}, stream); err != nil {
		return err
	}
	return conn.flush()
}

// endSome ends a few hundred renders, one after the other, and waits until each is told.
func (s *scene) endSome(ctx context.Context, c *crowd, renders int, arrivals <-chan arrival) (float64, error) {
	const ends = 400
	if err := c.await(ctx, int64(renders)); err != nil {
		return 0, err
	}
	for i := range min(ends, renders) {
		if err := s.control(ctx, "/change?id=r%d&end=1", i*(renders/min(ends, renders))); err != nil {
			return 0, err
		}
		time.Sleep(20 * time.Millisecond)
	}
	got := map[string]time.Time{}
	for len(got) < min(ends, renders) {
		select {
		case a := <-arrivals:
			got[a.id] = a.at
		case err := <-c.failed:
			return 0, err
		case <-time.After(2 * patience):
			return 0, fmt.Errorf("%d of %d ends were told", len(got), ends)
		}
	}
	showed, err := s.showed(ctx)
	if err != nil {
		return 0, err
	}
	var delays []float64
	for id, at := range got {
		from := showed[id].Sent
		if read := showed[id].Read; read != 0 && read <= at.UnixNano() {
			from = read // what a list shows is read before it is told, within the budget of polls
		}
		delays = append(delays, float64(at.UnixNano()-from)/1e6)
	}
	return quantile(delays, 0.99), nil
}
