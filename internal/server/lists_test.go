package server_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

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
