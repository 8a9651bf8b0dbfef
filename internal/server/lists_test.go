package server_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// largeLists makes the inputs of each listed render large.
func largeLists(s *stack, bytes int) *sandbox.Injected {
	return s.sandbox.Inject(sandbox.Fault{Route: "GET /generations", Set: map[string]any{"inputs": map[string]any{"prompt": strings.Repeat("x", bytes)}}})
}

func TestLargeRendersOfOneTeamSilenceNoOther(t *testing.T) { // D8
	if testing.Short() {
		t.Skip("it is of scale: .ci/nightly runs it")
	}
	file := crowd(t, 3)
	synctest.Test(t, func(t *testing.T) {
		s := heldStackFrom(t, file, func(o *options) { o.memory = true })
		large := largeLists(s, 900<<10)
		elsewhere(s, 10) // so that the list has more than it may
		own, foreign := everythingOf(t, grpcCaller{s, "team-0"}, 1), everythingOf(t, grpcCaller{s, "team-1"}, 1)
		ids := map[string]bool{}
		for i := range 6 {
			ids[create(t, grpcCaller{s, "team-0"}, order(t, text, fmt.Sprint("k", i), "a lake")).GetGenerationId()] = true
		}
		ended := new(atomic.Int64)
		for id := range ids {
			go func() {
				if wait(t, grpcCaller{s, "team-0"}, id, easelv1.WatchUntil_WATCH_UNTIL_TERMINAL).GetState() == easelv1.State_STATE_SUCCEEDED {
					ended.Add(1)
				}
			}()
		}
		time.Sleep(5 * time.Second)
		if own.Load() < int64(len(ids)) || foreign.Load() != 0 || ended.Load() != int64(len(ids)) || large.Fired() == 0 {
			t.Errorf("of %d renders %d have ended; a watch is told %d updates, and another team's %d; %d lists were large",
				len(ids), ended.Load(), own.Load(), foreign.Load(), large.Fired())
		}
		for _, g := range listAll(t, grpcCaller{s, "team-0"}, nil, 0) {
			if !ids[g.GetGenerationId()] || g.GetState() != easelv1.State_STATE_SUCCEEDED || g.GetInputs() != nil || !slices.Contains(g.GetOmittedFields(), "inputs") {
				t.Errorf("the list has %.300v", g)
			}
		}
	})
}

func TestWatchesOfATeamWithoutAnOrderCostNobodyALook(t *testing.T) { // D9
	file := crowd(t, 2)
	synctest.Test(t, func(t *testing.T) {
		s := heldStackFrom(t, file, func(o *options) { o.memory = true })
		elsewhere(s, 30)
		own := everythingOf(t, grpcCaller{s, "team-0"}, 1)
		none := everythingOf(t, grpcCaller{s, "team-1"}, 30)
		time.Sleep(time.Minute)
		beats := new(atomic.Int64)
		create(t, grpcCaller{s, "team-0"}, order(t, text, "k", "a lake"))
		go func() {
			_ = grpcCaller{s, "team-1"}.watchMany(t.Context(), &easelv1.WatchGenerationsRequest{}, func(m *easelv1.WatchGenerationsResponse) bool {
				if m.GetHeartbeat() != nil {
					beats.Add(1)
				}
				return true
			})
		}()
		time.Sleep(time.Minute + time.Second)
		if own.Load() < 1 || none.Load() != 0 || beats.Load() != 4 {
			t.Errorf("the owner is told %d updates, the others %d, and %d heartbeats in a minute", own.Load(), none.Load(), beats.Load())
		}
		if n := s.hub.Stats().Generations; n > 1 {
			t.Errorf("%d generations are kept of 31 that the catalog lists, want the one that somebody owns", n)
		}
	})
}
