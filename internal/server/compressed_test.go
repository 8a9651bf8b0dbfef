package server_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// laborious compresses as gzip does, and takes ten seconds for what is more than a page of text.
type laborious struct{}

func init() {
	encoding.RegisterCompressor(laborious{})
}

func (laborious) Name() string                              { return "laborious" }
func (laborious) Decompress(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }
func (laborious) Compress(w io.Writer) (io.WriteCloser, error) {
	return &labour{Writer: gzip.NewWriter(w)}, nil
}

type labour struct {
	*gzip.Writer
	received int
}

func (l *labour) Write(p []byte) (int, error) {
	l.received += len(p)
	return l.Writer.Write(p)
}

func (l *labour) Close() error {
	if l.received > 16<<10 {
		time.Sleep(10 * time.Second)
	}
	return l.Writer.Close()
}

// TestACallerThatCompressesIsAnsweredAsOthers has both watches on one connection: an answer is never compressed, as nothing
// would say when it has left.
func TestACallerThatCompressesIsAnsweredAsOthers(t *testing.T) {
	for name, open := range map[string]func(context.Context, easelv1.GenerationServiceClient) (func() error, error){
		"of one": func(ctx context.Context, client easelv1.GenerationServiceClient) (func() error, error) {
			stream, err := client.WatchGeneration(ctx, &easelv1.WatchGenerationRequest{GenerationId: "gen_1"}, grpc.UseCompressor("laborious"))
			return func() error { return stream.RecvMsg(&easelv1.WatchGenerationResponse{}) }, err
		},
		"of many": func(ctx context.Context, client easelv1.GenerationServiceClient) (func() error, error) {
			stream, err := client.WatchGenerations(ctx, &easelv1.WatchGenerationsRequest{GenerationIds: []string{"gen_1"}}, grpc.UseCompressor("laborious"))
			return func() error { return stream.RecvMsg(&easelv1.WatchGenerationsResponse{}) }, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				catalog := &busyCatalog{size: 20 << 10}
				s := newStack(t, busy(catalog))
				c := grpcCaller{s, s.key}
				var both sync.WaitGroup
				both.Go(func() { watchCompressed(t, c, open) })
				delivered, late := 0, time.Duration(0)
				both.Go(func() {
					err := c.watch(t.Context(), &easelv1.WatchGenerationRequest{GenerationId: "gen_1"}, func(m *easelv1.WatchGenerationResponse) {
						late = max(late, time.Since(m.GetUpdate().GetGeneration().GetObserveTime().AsTime()))
						delivered++
					})
					if err != nil {
						t.Errorf("the other watch ended with %v", err)
					}
				})
				time.Sleep(time.Minute)
				catalog.done.Store(true)
				both.Wait()
				if late > 0 || delivered < 55 {
					t.Errorf("the other watch got %d changes, the latest %v late", delivered, late)
				}
			})
		})
	}
}

// watchCompressed watches until the end, which comes in order with all else.
func watchCompressed(t *testing.T, c grpcCaller, open func(context.Context, easelv1.GenerationServiceClient) (func() error, error)) {
	next, err := open(c.keyed(t.Context()), easelv1.NewGenerationServiceClient(c.grpc))
	delivered := 0
	for ; err == nil; delivered++ {
		err = next()
	}
	if err != io.EOF || delivered < 6 {
		t.Errorf("the compressed watch got %d times, and ended with %v", delivered-1, err)
	}
}

// endsLarge is a catalog whose render has a long text at its end.
type endsLarge struct{ done atomic.Bool }

func (c *endsLarge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	record := `{"id":"gen_1","modelId":"m","status":"queued"}`
	if c.done.Load() {
		record = fmt.Sprintf(`{"id":"gen_1","modelId":"m","status":"succeeded","note":%q}`, strings.Repeat("x", 20<<10))
	}
	if strings.HasSuffix(r.URL.Path, "/generations") {
		record = "[" + record + "]"
	}
	_, _ = io.WriteString(w, record)
}

// compressedWatches are the watches of one render and of many, by the states that they tell.
var compressedWatches = map[string]func(context.Context, easelv1.GenerationServiceClient, string) (func() (*easelv1.GenerationUpdate, error), error){
	"of one": func(ctx context.Context, client easelv1.GenerationServiceClient, name string) (func() (*easelv1.GenerationUpdate, error), error) {
		stream, err := client.WatchGeneration(ctx, &easelv1.WatchGenerationRequest{GenerationId: "gen_1"}, grpc.UseCompressor(name))
		return func() (*easelv1.GenerationUpdate, error) { m, err := stream.Recv(); return m.GetUpdate(), err }, err
	},
	"of many": func(ctx context.Context, client easelv1.GenerationServiceClient, name string) (func() (*easelv1.GenerationUpdate, error), error) {
		stream, err := client.WatchGenerations(ctx, &easelv1.WatchGenerationsRequest{GenerationIds: []string{"gen_1"}}, grpc.UseCompressor(name))
		return func() (*easelv1.GenerationUpdate, error) { m, err := stream.Recv(); return m.GetUpdate(), err }, err
	},
}

func TestTheLastCompressedUpdateArrivesBeforeTheEnd(t *testing.T) {
	for name, open := range compressedWatches {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				catalog := &endsLarge{}
				s := newStack(t, busy(nil, func(o *options) {
					o.wrap = func(http.RoundTripper) http.RoundTripper { return handled{catalog} }
				}))
				time.AfterFunc(5*time.Second, func() { catalog.done.Store(true) })
				next, err := open(grpcCaller{s, s.key}.keyed(t.Context()), easelv1.NewGenerationServiceClient(s.grpc), "laborious")
				var delivered []easelv1.State
				for err == nil {
					var update *easelv1.GenerationUpdate
					if update, err = next(); update != nil {
						delivered = append(delivered, update.GetGeneration().GetState())
					}
				}
				if want := []easelv1.State{easelv1.State_STATE_QUEUED, easelv1.State_STATE_SUCCEEDED}; err != io.EOF || !slices.Equal(delivered, want) {
					t.Errorf("delivered are %v, and ended with %v", delivered, err)
				}
			})
		})
	}
}
