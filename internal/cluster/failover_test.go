package cluster

import (
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

func TestAFollowerTakesOverWithinTheLeaseAndOnePoll(t *testing.T) {
	states, ids := many(20, queued)
	inWorld(t, 3, states, func(w *world) {
		var all []*watching
		for _, r := range w.replicas {
			all = append(all, r.watch(watch.Terminal, ids...))
		}
		advance(20 * time.Second)
		leader, _ := w.theLeader()
		leader.kill()
		died := time.Now()
		w.up.set(succeeded, ids...)
		for len(w.leaders()) == 0 || w.leaders()[0] == leader {
			advance(50 * time.Millisecond)
			if time.Since(died) > leaseTTL+time.Second {
				t.Fatal("nobody took over")
			}
		}
		t.Logf("taken over after %v", time.Since(died))
		advance(leaseTTL)
		for i, s := range all {
			if s == leader.watches[0] {
				continue
			}
			if !s.ended {
				t.Errorf("watch %d did not end", i)
			}
			for _, id := range ids {
				if late := s.at[id].Sub(died); late > leaseTTL+2*time.Second {
					t.Errorf("%s came after %v", id, late)
				}
			}
			s.check(t)
		}
	})
}

func TestALeaderThatLeavesIsFollowedAtOnce(t *testing.T) {
	inWorld(t, 3, map[string]catalog.State{"a": queued}, func(w *world) {
		for _, r := range w.replicas {
			r.watch(watch.Terminal, "a")
		}
		advance(10 * time.Second)
		leader, others := w.theLeader()
		leader.close()
		advance(100 * time.Millisecond)
		if next, _ := w.theLeader(); next == leader {
			t.Error("the lease was not given back")
		}
		before := time.Now()
		advance(time.Second)
		if n := w.up.since(before, others[0]) + w.up.since(before, others[1]); n > 3 {
			t.Errorf("%d polls in the second after", n)
		}
	})
}

func TestALeaderThatHasJustStartedHasSavedNothingUp(t *testing.T) {
	states, ids := many(60, queued)
	inWorld(t, 1, states, func(w *world) {
		w.up.thin = true // each is read by itself
		w.replicas[0].watch(watch.Terminal, ids...)
		advance(time.Minute)
		began := time.Now()
		for i := range 5 {
			w.replicas[i].close()
			w.start().watch(watch.Terminal, ids...)
			advance(300 * time.Millisecond)
		}
		n, allowed := w.up.since(began, nil), 5*(time.Since(began).Seconds()+1)
		t.Logf("%d requests in %v", n, time.Since(began))
		if float64(n) > allowed {
			t.Errorf("%d requests in %v, want at most %.0f: the rate, and what one replica may ask at once", n, time.Since(began), allowed)
		}
	})
}

func TestWithoutNATSEachPollsForItselfAtItsShareOfTheRate(t *testing.T) {
	if testing.Short() {
		t.Skip("it is of scale and races nothing: make test runs it without the race detector")
	}
	states, ids := many(400, queued)
	inWorld(t, 4, states, func(w *world) {
		w.up.thin = true // each is read by itself: there is always more to do than the rate allows
		var all []*watching
		for i, r := range w.replicas {
			all = append(all, r.watch(watch.Terminal, ids[i*100:(i+1)*100]...))
		}
		check := func(what string, d time.Duration) {
			t.Helper()
			before := time.Now()
			advance(d)
			n, most := w.up.since(before, nil), 5*d.Seconds()*1.05+10
			t.Logf("%s: %d requests in %v", what, n, d)
			if float64(n) > most || float64(n) < most/3 {
				t.Errorf("%s: %d requests in %v", what, n, d)
			}
		}
		advance(2 * time.Minute)
		check("with NATS", time.Minute)
		w.fabric.with(func() { w.fabric.down = true })
		check("without NATS", 2*time.Minute)
		w.up.set(succeeded, ids...)
		check("at the end", 3*time.Minute)
		w.fabric.with(func() { w.fabric.down = false })
		w.fabric.restart()
		advance(5 * time.Minute)
		for i, s := range all {
			if !s.ended {
				t.Errorf("watch %d did not end", i)
			}
			s.check(t)
		}
	})
}

func TestAReplicaStartsWithoutNATSAndJoinsLater(t *testing.T) {
	inWorld(t, 2, map[string]catalog.State{"a": queued}, func(w *world) {
		w.fabric.with(func() { w.fabric.down = true })
		var all []*watching
		for _, r := range w.replicas {
			all = append(all, r.watch(watch.Terminal, "a"))
		}
		advance(100 * time.Millisecond)
		for _, s := range all {
			if s.last("a") != queued {
				t.Error("the first state waited for NATS")
			}
		}
		advance(time.Minute)
		w.fabric.with(func() { w.fabric.down = false })
		advance(10 * time.Second)
		_, others := w.theLeader()
		before := time.Now()
		advance(20 * time.Second)
		if n := w.up.since(before, others[0]); n > 1 {
			t.Errorf("the follower made %d polls", n)
		}
	})
}

func TestAPartitionEndsWithOneLeaderAndEveryEnd(t *testing.T) {
	states, ids := many(50, queued)
	inWorld(t, 3, states, func(w *world) {
		var all []*watching
		for _, r := range w.replicas {
			all = append(all, r.watch(watch.Terminal, ids...))
		}
		advance(15 * time.Second)
		leader, _ := w.theLeader()
		w.fabric.with(func() { leader.net.cut = true })
		before := time.Now()
		advance(leaseTTL + time.Second)
		next, _ := w.theLeader()
		if next == leader {
			t.Fatal("nobody took over")
		}
		w.up.set(succeeded, ids[:25]...)
		advance(20 * time.Second)
		for _, s := range all {
			if s.last(ids[0]) != succeeded {
				t.Errorf("delivered %v in the partition", s.last(ids[0]))
			}
		}
		if n := w.up.since(before, nil); float64(n) > 5*1.05*time.Since(before).Seconds()+10 {
			t.Errorf("%d requests in %v of partition", n, time.Since(before))
		}
		w.fabric.with(func() { leader.net.cut = false })
		advance(5 * time.Second)
		if got, _ := w.theLeader(); got != next {
			t.Error("the lease passed on again")
		}
		w.up.set(succeeded, ids...)
		advance(20 * time.Second)
		for _, s := range all {
			if !s.ended {
				t.Error("a watch did not end")
			}
			s.check(t)
		}
	})
}

func TestANewLeaderStartsFromTheLastStates(t *testing.T) {
	states, ids := many(300, queued)
	inWorld(t, 1, states, func(w *world) {
		w.up.thin = true
		w.up.set(running, ids...)
		old := w.replicas[0]
		first := old.watch(watch.Terminal, ids...)
		advance(3 * time.Minute)
		if len(first.delivered) != 300 {
			t.Fatalf("%d delivered", len(first.delivered))
		}
		old.close()
		advance(10 * time.Second)
		next := w.start()
		before := time.Now()
		s := next.watch(watch.Terminal, ids...)
		advance(time.Second)
		if n := w.up.since(before, nil); len(s.delivered) != 300 || n > 10 {
			t.Errorf("%d of 300 delivered after a second and %d requests", len(s.delivered), n)
		}
		for _, id := range ids[:10] {
			if len(s.etags[id]) != 1 || s.etags[id][0] != first.etags[id][len(first.etags[id])-1] {
				t.Fatalf("%s is delivered as %v, and was %v before", id, s.etags[id], first.etags[id])
			}
		}
		if n := next.hub.Stats().Restored; n != 300 {
			t.Errorf("%d recalled", n)
		}
		w.up.set(succeeded, ids...)
		advance(3 * time.Minute)
		if !s.ended {
			t.Error("the watch did not end")
		}
		s.check(t)
	})
}

func TestStatesOfMoreThanTwoMinutesAgoAreReadAnew(t *testing.T) {
	inWorld(t, 1, map[string]catalog.State{"a": queued}, func(w *world) {
		w.replicas[0].watch(watch.Terminal, "a")
		advance(time.Minute)
		w.replicas[0].kill()
		advance(130 * time.Second)
		next := w.start()
		before := time.Now()
		next.watch(watch.Terminal, "a")
		advance(time.Second)
		if n := w.up.since(before, next); n == 0 {
			t.Error("what is more than two minutes old was delivered as new")
		}
	})
}
