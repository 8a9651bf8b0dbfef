package orders_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/sandbox"
	"github.com/easel-grpc/easel/internal/watch"
)

// watchesOf counts the watches of a generation, on both replicas.
func watchesOf(id string, all ...*replica) (n int) {
	for _, r := range all {
		shown := r.orders.Hub.Snapshot().Generations
		if at := slices.IndexFunc(shown, func(g watch.PolledGeneration) bool { return g.ID == id }); at >= 0 {
			n += shown[at].Watches
		}
	}
	return n
}

func TestOneReplicaWatchesForThoseWhoAreTold(t *testing.T) {
	inShopOf(t, sandbox.Config{Speed: 1e-6}, 1000, func(s *shop) {
		var nobody atomic.Bool
		s.outbox = &ledger.Outbox{Teams: func() map[string]ledger.Team {
			if nobody.Load() {
				return nil
			}
			return teamsTold("studio")
		}}
		if err := s.ledger.Close(); err != nil {
			s.Fatal(err)
		}
		s.open()
		first, second := s.replica(), s.replica()
		mine, err := first.place("studio", "k", "a harbour")
		others, err2 := second.place("print", "k", "a harbour")
		if err != nil || err2 != nil {
			s.Fatal(err, err2)
		}
		watches := func(id string) int { return watchesOf(id, first, second) }
		ctx, stop := context.WithCancel(context.Background())
		var following, other sync.WaitGroup
		following.Go(func() { first.orders.Follow(ctx, first.held("")) })
		time.Sleep(5 * time.Second)
		rest, end := context.WithCancel(context.Background())
		other.Go(func() { second.orders.Follow(rest, second.held("")) })
		time.Sleep(time.Minute)
		if watches(mine.Generation.ID) != 1 || watches(others.Generation.ID) != 0 {
			s.Errorf("a render of those who are told has %d watchers, and another %d", watches(mine.Generation.ID), watches(others.Generation.ID))
		}
		stop()
		following.Wait()
		if watches(mine.Generation.ID) != 0 {
			s.Error("it is watched at the end")
		}
		time.Sleep(30 * time.Second)
		if watches(mine.Generation.ID) != 1 {
			s.Error("no other replica goes on")
		}
		nobody.Store(true)
		time.Sleep(5 * time.Second)
		if watches(mine.Generation.ID) != 0 {
			s.Error("it is watched for somebody who is told no more")
		}
		end()
		other.Wait()
	})
}
