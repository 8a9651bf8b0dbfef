package cluster

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

func TestAPauseThatTheCatalogAsksOfOneHoldsForAll(t *testing.T) {
	inWorld(t, 3, map[string]catalog.State{"a": queued}, func(w *world) {
		for _, r := range w.replicas {
			r.watch(watch.Terminal, "a")
		}
		advance(10 * time.Second)
		_, others := w.theLeader()
		others[0].hub.Called(tenant, &catalog.Error{Kind: catalog.KindRateLimited, Op: "x", RetryAfter: 30 * time.Second})
		advance(2 * time.Second)
		before := time.Now()
		advance(25 * time.Second)
		if n := w.up.since(before, nil); n > 0 {
			t.Errorf("%d polls in a pause that the catalog asked for", n)
		}
		before = time.Now()
		advance(time.Minute)
		if n := w.up.since(before, nil); n < 5 {
			t.Errorf("%d polls in the minute after: the pause never ends", n)
		}
	})
}

func TestCallsOfAllReplicasTakeFromOneBudget(t *testing.T) {
	states, ids := many(200, queued)
	inWorld(t, 3, states, func(w *world) {
		w.up.thin = true
		w.replicas[0].watch(watch.Terminal, ids...)
		advance(2 * time.Minute)
		leader, _ := w.theLeader()
		for _, r := range w.replicas[1:] {
			r.watch(watch.Terminal, ids[0])
		}
		advance(10 * time.Second)
		before := time.Now()
		for range 60 { // three a second and follower
			for _, r := range w.replicas {
				for range 3 {
					if r != leader {
						r.hub.Called(tenant, nil)
					}
				}
			}
			advance(time.Second)
		}
		if n := w.up.since(before, leader); n > 60*2 || n < 60 {
			t.Errorf("the leader made %d polls in a minute in which others made 360 calls, want a quarter of the rate", n)
		}
	})
}

func TestAnOrderIsNotGoneBecauseTheLeaderDoesNotSeeItYet(t *testing.T) { // U10
	inWorld(t, 2, map[string]catalog.State{"b": queued}, func(w *world) {
		for _, r := range w.replicas {
			r.watch(watch.Terminal, "b")
		}
		advance(5 * time.Second)
		leader, others := w.theLeader()
		others[0].hub.Created(t.Context(), tenant, record("new", queued), "m", time.Now())
		var both []*watching
		for _, r := range []*replica{others[0], leader} {
			both = append(both, r.watch(watch.Terminal, "new"))
			advance(time.Second)
		}
		advance(10 * time.Second)
		if got := both[0].states("new"); len(got) != 1 || got[0] != queued {
			t.Errorf("delivered %v", got)
		}
		w.up.set(succeeded, "new")
		advance(10 * time.Second)
		for _, s := range both {
			if got := s.states("new"); s.last("new") != succeeded || got[0] == catalog.StateDeleted {
				t.Errorf("delivered %v", got)
			}
		}
	})
}

func TestTheLeaderPollsForAFollowersWatch(t *testing.T) {
	inWorld(t, 2, map[string]catalog.State{"a": queued, "b": queued}, func(w *world) {
		for _, r := range w.replicas {
			r.watch(watch.Terminal, "a")
		}
		advance(5 * time.Second)
		leader, others := w.theLeader()
		s := others[0].watch(watch.Terminal, "b")
		advance(12 * time.Second)
		before := time.Now()
		for i := range 8 { // at different times of the rounds in which interests are repeated
			advance(9*time.Second + time.Duration(i)*time.Second)
			w.up.restless("b", i)
			changed := time.Now()
			advance(7 * time.Second)
			if delivered := s.at["b"]; delivered.Before(changed) {
				t.Errorf("change %d was not delivered within 7 s", i)
			}
		}
		w.up.set(succeeded, "b")
		advance(10 * time.Second)
		if s.last("b") != succeeded {
			t.Errorf("delivered %v", s.states("b"))
		}
		// It reads the end, and for its own sake one of the two generations every minute, give or take a tenth.
		own := 1 + int(time.Since(before)/(54*time.Second))
		if n := w.up.since(before, others[0]); n < 1 || n > 1+own {
			t.Errorf("the follower made %d requests, want the one that shows the end, and up to %d of its own", n, own)
		}
		if w.up.since(before, leader) < 10 {
			t.Error("the leader did not poll")
		}
	})
}

func TestAFollowerThatTheLeaderDoesNotHearPollsItself(t *testing.T) {
	inWorld(t, 2, map[string]catalog.State{"a": queued, "b": queued}, func(w *world) {
		for _, r := range w.replicas {
			r.watch(watch.Terminal, "a")
		}
		advance(5 * time.Second)
		_, others := w.theLeader()
		s := others[0].watch(watch.Terminal, "b")
		advance(12 * time.Second)
		w.fabric.with(func() { w.fabric.deaf = others[0].net })
		advance(time.Minute)
		w.up.set(succeeded, "b")
		advance(15 * time.Second)
		if s.last("b") != succeeded {
			t.Errorf("delivered %v", s.states("b"))
		}
		if w.fabric.ignored == 0 {
			t.Error("nothing was asked: the fault did not happen")
		}
	})
}

func TestAFollowersWatchOfEverythingGetsTheLeadersFinds(t *testing.T) {
	inWorld(t, 2, map[string]catalog.State{"a": queued}, func(w *world) {
		for _, r := range w.replicas {
			r.watch(watch.Terminal, "a")
		}
		advance(5 * time.Second)
		_, others := w.theLeader()
		s := others[0].watch(watch.Terminal)
		advance(12 * time.Second)
		before := time.Now()
		w.up.set(queued, "b")
		advance(20 * time.Second)
		if n := w.up.since(before, others[0]); s.last("b") != queued || n > 0 {
			t.Errorf("delivered %v of what is new, after %d requests of its own", s.states("b"), n)
		}
		w.up.set(succeeded, "b")
		advance(15 * time.Second)
		if s.last("b") != succeeded {
			t.Errorf("delivered %v", s.states("b"))
		}
		s.check(t)
	})
}

func TestAFailureIsFollowedUntilItsRefund(t *testing.T) {
	inWorld(t, 2, map[string]catalog.State{"a": queued}, func(w *world) {
		var all []*watching
		for _, r := range w.replicas {
			all = append(all, r.watch(watch.Settled, "a"))
		}
		advance(10 * time.Second)
		w.up.set(failed, "a")
		advance(30 * time.Second)
		w.up.set(refunded, "a")
		advance(30 * time.Second)
		for _, s := range all {
			if got := s.states("a"); len(got) != 3 || got[2] != refunded || !s.ended {
				t.Errorf("delivered %v", got)
			}
		}
	})
}

func TestARejectedAPIKeyEndsTheWatchesOfEveryReplica(t *testing.T) {
	inWorld(t, 3, map[string]catalog.State{"a": queued}, func(w *world) {
		var all []*watching
		for _, r := range w.replicas {
			all = append(all, r.watch(watch.Terminal, "a"))
		}
		advance(10 * time.Second)
		w.up.mu.Lock()
		w.up.fail = &catalog.Error{Kind: catalog.KindCredentialRejected, Op: "x"}
		w.up.mu.Unlock()
		advance(15 * time.Second)
		for _, s := range all {
			if !s.ended || catalog.KindOf(s.err) != catalog.KindCredentialRejected {
				t.Errorf("ended %v with %v", s.ended, s.err)
			}
		}
	})
}

func TestTheGroupOfARotatedAPIKeyIsJoinedAnew(t *testing.T) {
	var key atomic.Pointer[catalog.Secret]
	rotate := func(text string) { secret := catalog.NewSecret(text); key.Store(&secret) }
	rotate("first")
	inWorld(t, 1, map[string]catalog.State{"a": queued}, func(w *world) {
		r := w.replicas[0]
		s := r.watchAs(catalog.Held(func() catalog.Secret { return *key.Load() }), watch.Terminal, "a")
		advance(5 * time.Second)
		rotate("second")
		advance(5 * time.Second)
		if n := r.cluster.Stats().Acquired; n != 2 {
			t.Errorf("%d leases taken, want one for each key", n)
		}
		w.up.set(succeeded, "a")
		advance(15 * time.Second)
		if s.last("a") != succeeded {
			t.Errorf("delivered %v", s.states("a"))
		}
	})
}
