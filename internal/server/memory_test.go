package server_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
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
	for form, stream := range map[string]func(hash.Hash) (int64, error){
		"gRPC": func(h hash.Hash) (int64, error) { return streamGRPC(t, c, g.GetGenerationId(), h) },
		"REST": func(h hash.Hash) (int64, error) { return streamREST(t, s, g.GetGenerationId(), h) },
	} {
		sum := sha256.New()
		rise := peak(func() {
			n, err := stream(sum)
			if err != nil || n < 60<<20 {
				t.Errorf("%s: %d bytes, %v", form, n, err)
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

func streamGRPC(t *testing.T, c grpcCaller, id string, into hash.Hash) (n int64, err error) {
	stream, err := easelv1.NewGenerationServiceClient(c.grpc).DownloadGeneration(c.keyed(t.Context()), &easelv1.DownloadGenerationRequest{GenerationId: id})
	if err != nil {
		return 0, err
	}
	said := ""
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return n, err
		}
		into.Write(m.GetChunk().GetData())
		n += int64(len(m.GetChunk().GetData()))
		said += m.GetChunk().GetSummary().GetSha256()
	}
	if got := fmt.Sprintf("%x", into.Sum(nil)); got != said {
		return n, fmt.Errorf("the summary has the checksum %s, the bytes have %s", said, got)
	}
	return n, nil
}

func streamREST(t *testing.T, s *stack, id string, into hash.Hash) (int64, error) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.restURL+"/v1/generations/"+id+"/content", nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+s.key)
	answer, err := s.http.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	return io.Copy(into, answer.Body)
}
