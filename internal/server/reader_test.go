package server_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// busyCatalog is a catalog with one generation, whose record changes with every read. The record is large enough to
// fill buffers.
type busyCatalog struct {
	size  int
	looks atomic.Int64
	done  atomic.Bool // whether the generation has succeeded
}

func (c *busyCatalog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/api/v1/api/catalog/generations") {
		http.NotFound(w, r)
		return
	}
	if strings.HasSuffix(r.URL.Path, "/content") {
		_, _ = w.Write(make([]byte, 1<<20))
		return
	}
	looks, status := c.looks.Add(1), "queued"
	if c.done.Load() {
		status = "succeeded"
	}
	record := fmt.Sprintf(`{"id":"gen_1","modelId":"m","status":%q,"note":"%d %s"}`, status, looks, strings.Repeat("x", c.size))
	if strings.HasSuffix(r.URL.Path, "/generations") {
		record = "[" + record + "]"
	}
	_, _ = io.WriteString(w, record)
}

// withBusyCatalog returns an option for a stack that uses c as its catalog and polls it every second. The stack's
// connections are in memory, so that it can run in virtual time.
func withBusyCatalog(c *busyCatalog) func(*options) {
	return func(o *options) {
		o.memory, o.dialOptions = true, windows
		o.wrap = func(http.RoundTripper) http.RoundTripper { return handled{c} }
		o.hub.MinInterval, o.hub.MaxInterval, o.hub.Rate = time.Second, time.Second, 100
	}
}

// windows contains options that limit a client's receive buffer to 64 KiB for each stream. Without this limit, the
// buffer grows on a fast connection.
var windows = []grpc.DialOption{grpc.WithStaticStreamWindowSize(64 << 10), grpc.WithStaticConnWindowSize(1 << 20)}

func TestWatchEndsIfClientDoesNotReadFor30Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		catalog := &busyCatalog{size: 100 << 10}
		s := newStack(t, withBusyCatalog(catalog))
		c := grpcCaller{s, s.key}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stuck, err := easelv1.NewGenerationServiceClient(s.grpc).WatchGeneration(c.keyed(ctx), &easelv1.WatchGenerationRequest{GenerationId: "gen_1"})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var late time.Duration
		told, ended := 0, make(chan struct{})
		go func() {
			defer close(ended)
			_ = c.watch(ctx, &easelv1.WatchGenerationRequest{GenerationId: "gen_1"}, func(m *easelv1.WatchGenerationResponse) {
				late = max(late, time.Since(m.GetEmitTime().AsTime()), time.Since(m.GetUpdate().GetGeneration().GetObserveTime().AsTime()))
				told++
			})
		}()
		synctest.Wait()
		for goroutines("(*generations).WatchGeneration(") > 1 && time.Since(began) < time.Hour {
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(began); took < 30*time.Second || took > 35*time.Second {
			t.Errorf("the reader was freed after %v", took)
		}
		for err == nil {
			err = stuck.RecvMsg(&easelv1.WatchGenerationResponse{})
		}
		wantStatus(t, err, codes.ResourceExhausted, "READER_TOO_SLOW", 0)
		cancel()
		<-ended
		if late > 0 || told < 25 {
			t.Errorf("while one watch was stuck, a normal watch received %d changes, at most %v late", told, late)
		}
	})
}

func TestStuckDownloadEndsAfterTwoMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, withBusyCatalog(&busyCatalog{}))
		stream, err := easelv1.NewGenerationServiceClient(s.grpc).DownloadGeneration(grpcCaller{s, s.key}.keyed(t.Context()),
			&easelv1.DownloadGenerationRequest{GenerationId: "gen_1"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2*time.Minute - time.Second)
		synctest.Wait()
		if n := goroutines("(*generations).DownloadGeneration("); n != 1 {
			t.Errorf("after almost two minutes %d downloads are in progress, want 1", n)
		}
		time.Sleep(2 * time.Second)
		for err == nil {
			err = stream.RecvMsg(&easelv1.DownloadGenerationResponse{})
		}
		wantStatus(t, err, codes.ResourceExhausted, "READER_TOO_SLOW", 0)
	})
}

func TestStuckWatchWithLargeMessagesUsesAtMost256KiB(t *testing.T) {
	if raceDetector {
		t.Skip("memory is not meaningful under the race detector")
	}
	// Each reader may use 256 KiB in the server, and 64 KiB for the client's receive buffer, which is in the same
	// process.
	const readers, each = 100, 256<<10 + 64<<10
	catalog := &busyCatalog{size: 60 << 10}
	s := newStack(t, func(o *options) {
		o.wrap = func(http.RoundTripper) http.RoundTripper { return handled{catalog} }
		o.hub.MinInterval, o.hub.MaxInterval = 5*time.Millisecond, 5*time.Millisecond
		o.dialOptions = windows
	})
	c := grpcCaller{s, s.key}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	before := liveHeap()
	var streams []any
	for range readers {
		stream, err := easelv1.NewGenerationServiceClient(s.grpc).WatchGeneration(c.keyed(ctx), &easelv1.WatchGenerationRequest{GenerationId: "gen_1"})
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, stream)
	}
	eventually(t, "all readers are stuck", func() bool { return goroutines("(*delivery).deliverStep(") >= readers })
	from := catalog.looks.Load()
	eventually(t, "many more changes", func() bool { return catalog.looks.Load() > from+100 })
	held := int64(math.MaxInt64)
	for range 5 { // uses the minimum of several measurements, because each poll temporarily needs more memory
		held = min(held, (liveHeap()-before)/readers)
	}
	t.Logf("a stuck reader needs %d KiB in its client and the server together", held>>10)
	if held > each {
		t.Errorf("a stuck reader needs %d bytes", held)
	}
	runtime.KeepAlive(streams)
}

// liveHeap returns the size of the heap in bytes, after a garbage collection.
func liveHeap() int64 {
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// goroutines returns the number of goroutines that have the given function on their stack.
func goroutines(function string) (n int) {
	stacks := make([]byte, 16<<20)
	for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if strings.Contains(stack, function) {
			n++
		}
	}
	return n
}

func TestIdleWatchSendsHeartbeatAtLeastEvery16Seconds(t *testing.T) {
	overBoth(t, func(t *testing.T, _ *stack, c caller) {
		g := create(t, c, order(t, picture, "k", "a lake"))
		heard, longest, beats := time.Now(), time.Duration(0), 0
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Minute, cancel)
		err := c.watch(ctx, &easelv1.WatchGenerationRequest{GenerationId: g.GetGenerationId()}, func(m *easelv1.WatchGenerationResponse) {
			// Only messages count. Keepalive pings do not, because proxies do not forward them.
			longest, heard = max(longest, time.Since(heard)), time.Now()
			if m.GetHeartbeat() != nil {
				beats++
			}
		})
		if ctx.Err() == nil || beats < 190 || longest > 16*time.Second {
			t.Errorf("the watch ended with %v after %d heartbeats; it was silent for %v", err, beats, longest)
		}
	}, func(o *options) {
		o.sandbox.Speed, o.hub.MinInterval, o.hub.MaxInterval = 1e-4, time.Second, 10*time.Second
	})
}

func TestNoResourcesLeakWhenWatchesAreOpenedAndCanceled(t *testing.T) {
	times := soakCount(25_000, 1_000_000)
	if testing.Short() {
		times = 5_000
	}
	s := newStack(t, func(o *options) { o.sandbox.Speed = 1e-4 })
	c := grpcCaller{s, s.key}
	g := create(t, c, order(t, picture, "k", "a lake"))
	client := easelv1.NewGenerationServiceClient(s.grpc)
	open := func() error {
		ctx, cancel := context.WithCancel(c.keyed(t.Context()))
		defer cancel()
		stream, err := client.WatchGeneration(ctx, &easelv1.WatchGenerationRequest{GenerationId: g.GetGenerationId()})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	all := func(n int) {
		var workers sync.WaitGroup
		for range 20 {
			workers.Go(func() {
				for range n / 20 {
					if err := open(); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		workers.Wait()
	}
	all(2000) // fills pools and caches, which would otherwise grow during the measurement
	rest := func() (int, int, int64) { return runtime.NumGoroutine(), descriptors(), liveHeap() }
	eventually(t, "the first streams have ended", func() bool { return handlers() == 0 })
	goroutines, files, heap := rest()
	all(times)
	eventually(t, "all streams have ended", func() bool { return handlers() == 0 })
	eventually(t, "the numbers of goroutines and descriptors are as before", func() bool {
		now, open, _ := rest()
		return now <= goroutines+5 && open <= files+2
	})
	_, _, now := rest()
	t.Logf("after %d streams the heap has grown by %d KiB", times, (now-heap)>>10)
	if now-heap > int64(soakCount(1<<20, 4<<20)) {
		t.Errorf("after %d streams the heap has grown by %d bytes", times, now-heap)
	}
}

// handlers returns the number of handlers that are running for methods of GenerationService and for downloads over
// REST.
func handlers() int {
	return goroutines("service.(*generations).") + goroutines("rest.(*fileAnswer).serve(")
}

// descriptors returns the number of this process's open file descriptors, or zero if the system does not report it.
func descriptors() int {
	open, _ := os.ReadDir("/proc/self/fd")
	return len(open)
}

// soakCount returns its second argument if EASEL_SOAK is set, and otherwise its first. With EASEL_SOAK, the test takes
// minutes.
func soakCount(usually, asked int) int {
	if os.Getenv("EASEL_SOAK") != "" {
		return asked
	}
	return usually
}
