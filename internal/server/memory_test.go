package server_test

import (
	"bytes"
	"crypto/sha256"
	"io"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// peak returns the maximum growth of the heap while f runs, in bytes, including garbage that is not collected
// yet.
func peak(f func()) int64 {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	runtime.GC()
	heap := func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	base, highest := heap(), atomic.Int64{}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				highest.Store(max(highest.Load(), heap()))
			case <-stop:
				return
			}
		}
	}()
	f()
	close(stop)
	<-done
	return highest.Load() - base
}

func TestA64MegabyteResultStreamsInBoundedMemoryWithTheSameSumInBothForms(t *testing.T) {
	if raceDetector {
		t.Skip("memory and the speed of the sandbox are not meaningful under the race detector")
	}
	s := newStack(t, func(o *options) { o.sandbox.Speed = 1e6 })
	c := grpcCaller{s, s.key}
	g := create(t, c, &easelv1.CreateGenerationRequest{
		ModelId: "studio/print", IdempotencyKey: "k", Inputs: inputs(t, map[string]any{"prompt": "x", "paper": "a3-plus"}),
	})
	wait(t, c, g.GetGenerationId(), easelv1.WatchUntil_WATCH_UNTIL_TERMINAL)
	sums := map[string][]byte{}
	for form, as := range forms {
		sum, size := sha256.New(), counter(0)
		rise := peak(func() {
			err := as(s, s.key).download(t.Context(), &easelv1.DownloadGenerationRequest{GenerationId: g.GetGenerationId()}, io.MultiWriter(sum, &size))
			if err != nil || size < 60<<20 {
				t.Errorf("%s: %d bytes, %v", form, size, err)
			}
		})
		t.Logf("%s: the heap of client, facade and sandbox together rose by %.1f MiB", form, float64(rise)/(1<<20))
		if rise > 24<<20 {
			t.Errorf("%s: the heap rose by %d bytes", form, rise)
		}
		sums[form] = sum.Sum(nil)
	}
	if !bytes.Equal(sums["gRPC"], sums["REST"]) {
		t.Error("gRPC and REST returned different bytes")
	}
}

// counter counts the bytes that are written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
