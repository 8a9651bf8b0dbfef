package cluster

import (
	"flag"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

var discard = slog.New(slog.DiscardHandler)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOneReplicaPollsForAll(t *testing.T) {
	inWorld(t, 3, map[string]catalog.State{"a": queued}, func(w *world) {
		var all []*watching
		for _, r := range w.replicas {
			all = append(all, r.watch(watch.Terminal, "a"))
		}
		advance(5 * time.Second)
		leader, others := w.theLeader()
		before := time.Now()
		advance(30 * time.Second)
		if n := w.up.since(before, leader); n < 5 {
			t.Errorf("the leader made %d polls", n)
		}
		for _, r := range others {
			if n := w.up.since(before, r); n > 0 {
				t.Errorf("a follower made %d polls", n)
			}
		}
		w.up.set(running, "a")
		advance(10 * time.Second)
		w.up.set(succeeded, "a")
		advance(12 * time.Second)
		for i, s := range all {
			if got := s.states("a"); len(got) != 3 || !s.ended {
				t.Errorf("watch %d got %v", i, got)
			}
			s.check(t)
		}
	})
}

var generations = flag.Int("generations", 50, "generations in the measurement of the cost of replicas")

func TestEightReplicasCostThePollsOfOne(t *testing.T) {
	if testing.Short() {
		t.Skip("it is of scale and races nothing that any network does not: make test runs it without the race detector")
	}
	rate := func(n int) (perSecond float64) {
		states, ids := many(*generations, queued)
		inWorld(t, n, states, func(w *world) {
			for _, r := range w.replicas {
				r.watch(watch.Terminal, ids...)
			}
			advance(time.Minute)
			before := time.Now()
			advance(10 * time.Minute)
			perSecond = float64(w.up.since(before, nil)) / time.Since(before).Seconds()
		})
		return perSecond
	}
	one := rate(1)
	t.Logf("%d generations, 1 replica: %.3f requests a second", *generations, one)
	for _, n := range []int{2, 4, 8} {
		got := rate(n)
		t.Logf("%d replicas: %.3f requests a second", n, got)
		if got > one*1.1 || got < one*0.9 {
			t.Errorf("%d replicas make %.3f requests a second, and one %.3f", n, got, one)
		}
	}
}

func TestEachWatchIsCountedWhereItIsOpenAndNowhereElse(t *testing.T) {
	inWorld(t, 3, map[string]catalog.State{"a": running, "b": running}, func(w *world) {
		for _, r := range w.replicas {
			r.watch(watch.Terminal)
			r.watch(watch.Terminal, "a")
		}
		advance(time.Minute)
		w.theLeader() // it stands for the others' watches
		for i, r := range w.replicas {
			if n := r.hub.Stats().Watches; n != 2 {
				t.Errorf("replica %d counts %d watches", i, n)
			}
		}
	})
}
