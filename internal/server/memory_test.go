package server_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// peak returns the maximum growth of the heap in bytes while f runs. This includes garbage that has not been collected
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

func TestLargeDownloadsUseBoundedMemory(t *testing.T) {
	if raceDetector {
		t.Skip("memory and the speed of the sandbox are not meaningful under the race detector")
	}
	s := newStack(t, func(o *options) { o.sandbox.Speed = 1e6 })
	c := grpcCaller{s, s.key}
	g := create(t, c, &easelv1.CreateGenerationRequest{
		ModelId: "studio/print", IdempotencyKey: "k", Inputs: inputs(t, map[string]any{"prompt": "x", "paper": "a3-plus"}),
	})
	awaitGeneration(t, c, g.GetGenerationId(), easelv1.WatchUntil_WATCH_UNTIL_TERMINAL)
	sums := map[string][]byte{}
	for form, as := range forms {
		sum, size := sha256.New(), counter(0)
		rise := peak(func() {
			err := as(s, s.key).download(t.Context(), &easelv1.DownloadGenerationRequest{GenerationId: g.GetGenerationId()}, io.MultiWriter(sum, &size))
			if err != nil || size < 60<<20 {
				t.Errorf("%s: downloaded %d bytes, %v", form, size, err)
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

// bombRise is the maximum growth of the heap, in bytes, while the server rejects compressed messages that
// unpack to 256 MiB.
const bombRise = 16 << 20

// compressedMessage returns a compressed gRPC message that has n bytes before compression.
func compressedMessage(t *testing.T, n int64) []byte {
	t.Helper()
	var out bytes.Buffer
	out.Write(make([]byte, 5))
	writer := gzip.NewWriter(&out)
	for block := make([]byte, 1<<20); n > 0; n -= int64(len(block)) {
		_, _ = writer.Write(block) // cannot fail, because it writes to memory
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	message := out.Bytes()
	message[0] = 1 // marks the message as compressed
	binary.BigEndian.PutUint32(message[1:], uint32(len(message)-5))
	return message
}

func TestDecompressionBombNeedsLittleMemory(t *testing.T) {
	if raceDetector {
		t.Skip("memory is not meaningful under the race detector")
	}
	s := newStack(t)
	bomb := compressedMessage(t, 256<<20)
	transport := &http.Transport{Protocols: new(http.Protocols), DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(s.grpc.Target(), "passthrough:///"))
	}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: transport}
	defer client.CloseIdleConnections()
	rise := peak(func() {
		for range 5 {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://easel.test"+easelv1.GenerationService_CreateGeneration_FullMethodName, bytes.NewReader(bomb))
			if err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}, "Grpc-Encoding": {"gzip"}, "Authorization": {"Bearer " + s.key}}
			answer, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, answer.Body) // reads the body first, because the trailers arrive after it
			answer.Body.Close()
			said := answer.Header.Get("Grpc-Status") + answer.Trailer.Get("Grpc-Status")
			if said != "8" || codes.ResourceExhausted != 8 {
				t.Errorf("a message of %d bytes that unpacks to 256 MiB returned the status %q", len(bomb), said)
			}
		}
	})
	t.Logf("%d bytes that unpack to 256 MiB cost %.1f MiB", len(bomb), float64(rise)/(1<<20))
	if rise > bombRise {
		t.Errorf("the heap rose by %d bytes", rise)
	}
}
