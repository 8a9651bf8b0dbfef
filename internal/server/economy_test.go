package server_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// The tests in this file count the catalog requests that calls cause. Polls do not distort the counts: each
// generation is polled only once, when its first watch starts, and does not finish during the test.

func seldom(o *options) {
	o.hub.MinInterval, o.hub.MaxInterval = time.Hour, time.Hour
	o.sandbox.Speed = 0.001
}

// readCount returns the number of requests for single generations that the catalog has received.
func (s *stack) readCount() int { return s.sandbox.Requests()["GET /generations/{id}"] }

// underWatch orders a generation, and watches it until the test ends. It returns the generation's ID after the
// first update.
func underWatch(t *testing.T, c caller) (id string) {
	t.Helper()
	id = create(t, c, order(t, picture, "k", "a lake")).GetGenerationId()
	ctx, cancel := context.WithCancel(context.Background())
	told, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		var once sync.Once
		_ = c.watch(ctx, &easelv1.WatchGenerationRequest{GenerationId: id}, func(*easelv1.WatchGenerationResponse) {
			once.Do(func() { close(told) })
		})
	}()
	t.Cleanup(func() { cancel(); <-ended })
	<-told // the first update arrives without a poll, because the response to the order contained the generation's state
	return id
}

// getWithin calls GetGeneration with age as the maximum age of the state. If age is nil, there is no maximum.
func getWithin(t *testing.T, c caller, id string, age *durationpb.Duration) (*easelv1.Generation, error) {
	t.Helper()
	resp := &easelv1.GetGenerationResponse{}
	err := c.call(t.Context(), "GenerationService/GetGeneration", &easelv1.GetGenerationRequest{GenerationId: id, MaxStaleness: age}, resp)
	return resp.GetGeneration(), err
}

// withKeyOf returns a caller that uses the given key and the same protocol as c.
func withKeyOf(c caller, key string) caller {
	if rest, ok := c.(restCaller); ok {
		return restCaller{rest.stack, key}
	}
	return grpcCaller{c.(grpcCaller).stack, key}
}

func TestFreshStateIsReturnedWithoutCatalogRead(t *testing.T) {
	overBoth(t, func(t *testing.T, s *stack, c caller) {
		id := underWatch(t, c)
		for _, row := range []struct {
			name  string
			age   *durationpb.Duration
			calls int
			reads int
		}{
			{"of any age", nil, 100, 0},
			{"at most an hour old", durationpb.New(time.Hour), 100, 0},
			{"at most 0 s old", durationpb.New(0), 3, 3},
			{"at most a minute old, just after a read", durationpb.New(time.Minute), 100, 0},
			{"at most a nanosecond old", durationpb.New(time.Nanosecond), 3, 3},
		} {
			before := s.readCount()
			for range row.calls {
				time.Sleep(time.Microsecond) // makes the previously read state older than a nanosecond, the maximum age in the last row
				if g, err := getWithin(t, c, id, row.age); err != nil || g.GetGenerationId() != id || g.GetObserveTime() == nil {
					t.Fatal(row.name, g, err)
				}
			}
			if n := s.readCount() - before; n != row.reads {
				t.Errorf("%d calls for a state %s caused %d reads, want %d", row.calls, row.name, n, row.reads)
			}
		}
	}, seldom)
}

func TestGetReturnsWatchedStateDuringCatalogOutage(t *testing.T) {
	overBoth(t, func(t *testing.T, s *stack, c caller) {
		id := underWatch(t, c)
		known, err := getWithin(t, c, id, nil)
		if err != nil {
			t.Fatal(err)
		}
		away := s.sandbox.Inject(sandbox.Fault{Route: "GET /generations/{id}", Status: 503})
		_, err = getWithin(t, c, id, durationpb.New(0))
		wantStatus(t, err, codes.Unavailable, "UPSTREAM_UNAVAILABLE", 503)
		g, err := getWithin(t, c, id, nil)
		if err != nil || away.Fired() == 0 || !g.GetObserveTime().AsTime().Equal(known.GetObserveTime().AsTime()) {
			t.Errorf("got %v, %v after %d faults, want the state that was observed at %v", g, err, away.Fired(), known.GetObserveTime().AsTime())
		}
	}, seldom)
}
