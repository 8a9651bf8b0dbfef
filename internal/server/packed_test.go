package server_test

import (
	"compress/gzip"
	"context"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// laborious packs as gzip does, and takes ten seconds for what is more than a page of text.
type laborious struct{}

func init() { encoding.RegisterCompressor(laborious{}) }

func (laborious) Name() string                              { return "laborious" }
func (laborious) Decompress(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }
func (laborious) Compress(w io.Writer) (io.WriteCloser, error) {
	return &labour{Writer: gzip.NewWriter(w)}, nil
}

type labour struct {
	*gzip.Writer
	taken int
}

func (l *labour) Write(p []byte) (int, error) {
	l.taken += len(p)
	return l.Writer.Write(p)
}

func (l *labour) Close() error {
	if l.taken > 16<<10 {
		time.Sleep(10 * time.Second)
	}
	return l.Writer.Close()
}

// TestALargeUpdateIsPackedForOneWatchWhileOthersAreTold has both watches on one connection, so
// that they would be told by the same goroutine.
func TestALargeUpdateIsPackedForOneWatchWhileOthersAreTold(t *testing.T) {
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
				both.Go(func() { watchPacked(t, c, open) })
				told, late := 0, time.Duration(0)
				both.Go(func() {
					err := c.watch(t.Context(), &easelv1.WatchGenerationRequest{GenerationId: "gen_1"}, func(m *easelv1.WatchGenerationResponse) {
						late = max(late, time.Since(m.GetUpdate().GetGeneration().GetObserveTime().AsTime()))
						told++
					})
					if err != nil {
						t.Errorf("the other watch ended with %v", err)
					}
				})
				time.Sleep(time.Minute)
				catalog.done.Store(true)
				both.Wait()
				if late > 0 || told < 55 {
					t.Errorf("the other watch was told %d changes, the latest %v late", told, late)
				}
			})
		})
	}
}

// watchPacked watches until the end, which comes in order with all else.
func watchPacked(t *testing.T, c grpcCaller, open func(context.Context, easelv1.GenerationServiceClient) (func() error, error)) {
	next, err := open(c.keyed(t.Context()), easelv1.NewGenerationServiceClient(c.grpc))
	told := 0
	for ; err == nil; told++ {
		err = next()
	}
	if err != io.EOF || told < 6 {
		t.Errorf("the packed watch was told %d times, and ended with %v", told-1, err)
	}
}
