package watch_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/gate"
	"github.com/easel-grpc/easel/internal/watch"
)

func TestAStateThatAnotherHasJustPolledIsDeliveredWithoutARequest(t *testing.T) {
	for _, n := range []int{1, 20} {
		ids, states := manyIDs(n)
		inGroup(t, 2, states, func(g *group) {
			g.replicas[0].watch(ids...)
			pass(200 * time.Millisecond)
			before := time.Now()
			late := g.replicas[1].watch(ids...)
			pass(100 * time.Millisecond)
			if got := late.look(); len(got.updates) != n || len(got.caughtUp) != 1 {
				t.Errorf("of %d states %d are delivered at once", n, len(got.updates))
			}
			if calls := g.requests(before); calls != 0 {
				t.Errorf("they cost %d requests", calls)
			}
			if h := g.replicas[1].hub.Snapshot().Credentials[0]; h.Condition != watch.ConditionHealthy {
				t.Errorf("the catalog is told to be %v", h.Condition)
			}
		})
	}
}

func TestAnEndIsDeliveredByAllAndPolledByOne(t *testing.T) {
	for name, ids := range map[string][]string{"a read": {"a"}, "a sweep": {"a", "b", "c", "d"}} {
		states := map[string]catalog.State{}
		for _, id := range ids {
			states[id] = running
		}
		inGroup(t, 3, states, func(g *group) {
			all := g.watchAll(ids...)
			pass(20 * time.Second)
			for _, id := range ids {
				g.up.set(id, succeeded)
			}
			ended := time.Now()
			pass(15 * time.Second)
			for n, s := range all {
				r := g.replicas[n]
				r.wantEnd(s, nil)
				got := s.look()
				for i, u := range got.updates[len(ids):] {
					if u.State != succeeded || u.File == nil || got.at[len(ids)+i].Sub(got.at[len(ids)]) > time.Second {
						t.Errorf("%s: a watch ends with %+v", name, u)
					}
				}
			}
			if n := g.requests(ended); n > 16 { // the list has to be compared with one read
				t.Errorf("%s: the ends cost %d requests", name, n)
			}
		})
	}
}

func TestWhatOneReplicaFindsTheOthersDeliverWithinMilliseconds(t *testing.T) {
	inGroup(t, 4, map[string]catalog.State{"a": queued}, func(g *group) {
		all := g.watchAll("a")
		pass(time.Minute)
		g.up.set("a", running)
		pass(30 * time.Second)
		g.wantStates(all, "queued", "running")
		first := all[0].look().at[1]
		for _, s := range all {
			if d := s.look().at[1].Sub(first).Abs(); d > 10*time.Millisecond {
				t.Errorf("a change comes %v before or after it comes elsewhere", d)
			}
		}
	})
}

func TestWithoutNotificationsAChangeIsKnownAtTheNextTry(t *testing.T) {
	inGroup(t, 3, map[string]catalog.State{"a": queued, "b": queued, "c": queued, "d": queued}, func(g *group) {
		for _, r := range g.replicas {
			r.with(func(r *way) { r.deaf = true })
		}
		all := g.watchAll("a", "b", "c", "d")
		pass(time.Minute)
		before := time.Now()
		g.up.set("a", running)
		pass(15 * time.Second)
		for _, s := range all {
			if got := s.look(); len(got.updates) != 5 || got.at[4].Sub(before) > 12*time.Second {
				t.Errorf("the change is told as %v", s.states())
			}
		}
	})
}

func TestAPauseThatTheCatalogAsksOfOneHoldsForAll(t *testing.T) {
	inGroup(t, 3, map[string]catalog.State{"a": queued}, func(g *group) {
		g.watchAll("a")
		pass(10 * time.Second)
		g.replicas[1].hub.Call(g.ctx, tenant, &catalog.Error{Kind: catalog.KindRateLimited, Op: "x", RetryAfter: 30 * time.Second})
		pass(100 * time.Millisecond)
		before := time.Now()
		pass(29 * time.Second)
		if n := g.requests(before); n > 0 {
			t.Errorf("%d polls in a pause that the catalog asked for", n)
		}
		before = time.Now()
		pass(time.Minute)
		if n := g.requests(before); n < 5 {
			t.Errorf("%d polls in the minute after: the pause never ends", n)
		}
	})
}

func TestNoOrderWaitsForTheBookAfterAPause(t *testing.T) {
	inGroup(t, 1, map[string]catalog.State{"a": queued}, func(g *group) {
		r := g.replicas[0]
		r.watch("a")
		pass(10 * time.Second)
		r.with(func(r *way) { r.slow = 400 * time.Millisecond })
		claimed := 0
		for range 10 {
			r.hub.Call(g.ctx, tenant, &catalog.Error{Kind: catalog.KindRateLimited, Op: "x", RetryAfter: 30 * time.Second})
			over := time.Now().Add(30 * time.Second)
			for waits := time.Minute; r.requests(over) == 0 && waits > 0; waits -= 50 * time.Millisecond {
				pass(50 * time.Millisecond)
				before := r.claimsOf()
				if time.Now().Before(over) || before == claimed {
					continue
				}
				claimed = before
				asks := time.Now()
				turn, err := r.hub.GateOf(tenant).Enter(g.ctx, gate.Request{})
				if late := time.Since(asks); err != nil || late > 50*time.Millisecond {
					t.Errorf("an order waits for %v while the book is asked about a poll, %v", late, err)
				}
				turn.End(gate.Answer{})
			}
			pass(time.Minute)
			if r.requests(over) == 0 {
				t.Error("no poll is made after a pause")
			}
			claimed = r.claimsOf()
		}
	})
}

func TestAPauseIsKnownOfAReplicaThatWatchesNothing(t *testing.T) {
	inGroup(t, 2, map[string]catalog.State{"a": queued}, func(g *group) {
		held := catalog.Held(func() catalog.Secret { return catalog.NewSecret("key-of-all") })
		g.replicas[0].watchWith(g.ctx, watch.Request{Credential: held, IDs: []string{"a"}})
		pass(10 * time.Second)
		idle := g.replicas[1].hub
		for range 20 {
			idle.Call(g.ctx, held, &catalog.Error{Kind: catalog.KindRateLimited, Op: "x", RetryAfter: 30 * time.Second})
			pass(100 * time.Millisecond)
			before := time.Now()
			pass(29 * time.Second)
			if n := g.requests(before); n > 0 {
				t.Errorf("%d polls in a pause that the catalog asked of another replica", n)
			}
			pass(time.Minute)
		}
		pass(time.Hour)
		if n := idle.Stats().Pollers; n != 0 {
			t.Errorf("%d pollers are left where nothing is watched", n)
		}
	})
}

func TestAllReplicasKeepToOneRate(t *testing.T) {
	if testing.Short() {
		t.Skip("it is of scale: .ci/nightly runs it")
	}
	ids, states := manyIDs(300)
	inGroup(t, 4, states, func(g *group) {
		g.up.failList = &catalog.Error{Kind: catalog.KindUnavailable, Op: "GET /generations", Status: 503}
		g.watchAll(ids...)
		pass(30 * time.Second)
		before := time.Now()
		pass(time.Minute)
		if n := g.requests(before); n > 5*60+5 || n < 4*60 {
			t.Errorf("%d requests in a minute, where 300 are allowed and wanted", n)
		}
	})
}

func TestAnOrderIsNotGoneBecauseAnotherDoesNotSeeItYet(t *testing.T) { // U10
	inGroup(t, 2, map[string]catalog.State{}, func(g *group) {
		placed := catalog.Generation{ID: "a", State: queued, ObserveTime: time.Now()}
		one, two := g.replicas[0], g.replicas[1]
		one.hub.Created(g.ctx, tenant, placed, "m", time.Now())
		mine := one.watch("a")
		other := two.watchWith(g.ctx, watch.Request{IDs: []string{"a"}, Ordered: map[string]bool{"a": true}})
		pass(10 * time.Second)
		g.up.set("a", running)
		pass(20 * time.Second)
		one.wantStates(mine, "queued", "running")
		if got := other.states(); got[len(got)-1] != "running" {
			t.Errorf("the other is told %v", got)
		}
	})
}

func TestAWatchOfEverythingGetsWhatOthersFind(t *testing.T) {
	ids, states := manyIDs(10)
	inGroup(t, 2, states, func(g *group) {
		g.replicas[0].watch(ids...) // which sweeps each second, and the other every five
		all := g.replicas[1].watchWith(g.ctx, watch.Request{Everything: true})
		pass(30 * time.Second)
		g.up.set("new", queued)
		g.up.set("over", succeeded)
		pass(3 * time.Second)
		got := map[string]string{}
		for _, u := range all.look().updates {
			got[u.ID] = u.State.String()
		}
		if len(got) != 12 || got["new"] != "queued" || got["over"] != "succeeded" {
			t.Errorf("the watch has %v", got)
		}
		g.up.set("new", failed)
		g.up.with(func(u *upstream) { delete(u.states, ids[0]) })
		pass(10 * time.Minute)
		for _, u := range all.look().updates {
			got[u.ID] = u.State.String()
		}
		if got["new"] != "failed" || got[ids[0]] != "deleted" {
			t.Errorf("the watch has %v", got)
		}
	})
}

func TestAFailureIsFollowedUntilItsRefundEverywhere(t *testing.T) {
	inGroup(t, 3, map[string]catalog.State{"a": failed}, func(g *group) {
		var all []*seen
		for _, r := range g.replicas {
			all = append(all, r.watchWith(g.ctx, watch.Request{IDs: []string{"a"}, Goal: watch.Settled}))
		}
		pass(time.Minute)
		g.up.set("a", refunded)
		pass(15 * time.Second)
		g.wantStates(all, "failed", "refunded")
		for n, s := range all {
			g.replicas[n].wantEnd(s, nil)
		}
	})
}

func TestADeletionByACallIsKnownEverywhere(t *testing.T) {
	inGroup(t, 3, map[string]catalog.State{"a": running}, func(g *group) {
		all := g.watchAll("a")
		pass(5 * time.Second)
		before := time.Now()
		g.up.with(func(u *upstream) { delete(u.states, "a") })
		g.replicas[2].hub.Deleted(g.ctx, tenant, "a")
		pass(time.Second)
		g.wantStates(all, "running", "deleted")
		if n := g.requests(before); n > 1 {
			t.Errorf("%d requests for what a call has deleted", n)
		}
	})
}

func TestARejectedAPIKeyEndsTheWatchesOfEveryReplica(t *testing.T) {
	inGroup(t, 3, map[string]catalog.State{"a": queued}, func(g *group) {
		all := g.watchAll("a")
		pass(5 * time.Second)
		g.up.with(func(u *upstream) { u.fail = errRejected })
		pass(30 * time.Second)
		for n, s := range all {
			g.replicas[n].wantEnd(s, errRejected)
		}
	})
}

func TestStatesOfARotatedAPIKeyAreSharedAnew(t *testing.T) {
	inGroup(t, 2, map[string]catalog.State{"a": queued, "b": queued, "c": queued}, func(g *group) {
		key := &atomic.Value{}
		key.Store("old")
		held := catalog.Held(func() catalog.Secret { return catalog.NewSecret(key.Load().(string)) })
		var all []*seen
		for _, r := range g.replicas {
			all = append(all, r.watchWith(g.ctx, watch.Request{Credential: held, IDs: []string{"a", "b", "c"}}))
		}
		pass(time.Minute)
		key.Store("new")
		pass(time.Minute)
		before := time.Now()
		g.up.set("a", running)
		pass(time.Minute)
		for _, s := range all {
			if got := s.look(); len(got.updates) != 4 {
				t.Errorf("a watch is told %v", s.states())
			}
		}
		if n, one := g.requests(before), 12; n > 2*one {
			t.Errorf("%d requests in a minute after the rotation", n)
		}
	})
}
