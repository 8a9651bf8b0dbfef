package watch

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

func TestOneListRequestPollsManyGenerations(t *testing.T) {
	states, ids := generations(1000)
	inBubble(t, states, func(b *bench) {
		s := b.watch(ids...)
		passTime(2 * time.Second)
		if len(s.copyEvents().updates) != 1000 || !slices.Equal(s.copyEvents().caughtUp, []int{1000}) {
			b.t.Fatalf("after 2 s: %d updates, caught up with %v; want 1000 and [1000]", len(s.copyEvents().updates), s.copyEvents().caughtUp)
		}
		before := b.up.calls()
		passTime(time.Minute)
		// List polls are at least 1 s apart, and their interval grows to 6 s. This minute therefore has at most 60
		// requests.
		n := b.up.calls() - before
		b.t.Logf("%.1f requests per second for 1000 generations", float64(n)/60)
		if n > 60 {
			b.t.Errorf("%d requests in a minute for 1000 generations, want at most 60", n)
		}
		for _, id := range ids {
			b.up.set(id, succeeded)
		}
		passTime(20 * time.Second)
		if len(s.copyEvents().updates) != 2000 {
			b.t.Errorf("%d updates, want 2000", len(s.copyEvents().updates))
		}
		b.wantEnd(s, nil)
	})
}

func TestGenerationsMissingFromTheListAreReadIndividually(t *testing.T) {
	states, ids := generations(20)
	inBubble(t, states, func(b *bench) {
		b.up.listed = func(string) bool { return false }
		s := b.watch(ids...)
		passTime(time.Minute)
		if len(s.copyEvents().updates) != 20 {
			b.t.Fatalf("%d of 20 generations were delivered", len(s.copyEvents().updates))
		}
		lists := b.up.listCalls()
		if lists > 6 {
			b.t.Errorf("%d list calls in a minute for an empty list, want at most 6", lists)
		}
		for _, id := range ids {
			b.up.set(id, succeeded)
		}
		passTime(time.Minute)
		b.wantEnd(s, nil)
	})
}

func TestWatchWithoutIDsIncludesNewGenerations(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": queued, "b": succeeded}, func(b *bench) {
		s := b.watch()
		passTime(time.Second / 2)
		b.wantStates(s, "queued", "succeeded")
		if !slices.Equal(s.copyEvents().caughtUp, []int{2}) {
			b.t.Errorf("caught up with %v generations, want [2]", s.copyEvents().caughtUp)
		}
		b.up.set("c", queued) // created by another client
		passTime(10 * time.Second)
		b.hub.Created(context.Background(), testCred, b.up.record("d", queued), "m", time.Now())
		b.up.set("d", queued)
		passTime(0)
		b.wantStates(s, "queued", "succeeded", "queued", "queued")
		if s.copyEvents().updates[2].Initial || s.copyEvents().updates[3].Initial {
			b.t.Error("a generation that came later is marked as initial")
		}
		for _, id := range []string{"a", "c", "d"} {
			b.up.set(id, succeeded)
		}
		passTime(10 * time.Second)
		if n := len(s.copyEvents().updates); n != 7 {
			b.t.Errorf("got %d updates with the states %v, want 7", n, s.states())
		}
		if ended, _ := s.done(); ended {
			b.t.Error("a watch of all generations ended, although it should continue")
		}
	})
}

func TestWatchIncludesRequestedGenerationsMissingFromList(t *testing.T) {
	inBubble(t, map[string]catalog.State{"listed": queued, "hidden": queued}, func(b *bench) {
		b.up.with(func(u *upstream) { u.listed = func(id string) bool { return id == "listed" } })
		s := b.watchWith(b.ctx, Request{IDs: []string{"hidden", "listed"}, Everything: true})
		passTime(5 * time.Second)
		b.wantStates(s, "queued", "queued")
		if !slices.Equal(s.copyEvents().caughtUp, []int{2}) {
			b.t.Errorf("caught up with %v generations, want [2]", s.copyEvents().caughtUp)
		}
		b.up.with(func(u *upstream) { u.listed = nil }) // from now on, the list also contains the generation "hidden", but each state must be delivered only once
		passTime(20 * time.Second)
		for _, id := range []string{"listed", "hidden"} {
			b.up.set(id, succeeded)
		}
		b.up.set("new", queued)
		passTime(20 * time.Second)
		if n := len(s.copyEvents().updates); n != 5 {
			b.t.Errorf("got %d updates with the states %v, want 5", n, s.states())
		}
	})
}

func TestUnlistedGenerationsAreReadWithinPollRate(t *testing.T) {
	states, ids := generations(300)
	for _, id := range ids {
		states[id] = succeeded
	}
	states["listed"], states["other"] = queued, queued
	delete(states, ids[7])
	inBubble(t, states, func(b *bench) {
		b.up.with(func(u *upstream) { u.listed = func(id string) bool { return id == "listed" } })
		known := map[string]string{"listed": b.up.record("listed", queued).Etag()}
		for _, id := range ids {
			known[id] = b.up.record(id, succeeded).Etag()
		}
		s := b.watchWith(b.ctx, Request{KnownEtags: known})
		passTime(time.Second / 2)
		other := b.watch("other")
		passTime(10 * time.Second)
		b.wantStates(other, "queued")
		b.up.set("other", succeeded)
		passTime(10 * time.Second)
		b.wantStates(other, "queued", "succeeded")
		if got := s.copyEvents(); len(got.caughtUp) > 0 {
			b.t.Fatal("the watch caught up within 20 s, too early for 300 reads at the poll rate")
		}
		passTime(2 * time.Minute)
		got := s.copyEvents()
		if len(got.updates) != 1 || got.updates[0].ID != ids[7] || !got.updates[0].Missing || !slices.Equal(got.caughtUp, []int{301}) {
			b.t.Errorf("delivered %v, and caught up with %v; want only %s, as deleted", s.states(), got.caughtUp, ids[7])
		}
		if least, most := b.up.reads(ids); least != 1 || most != 1 {
			b.t.Errorf("each generation was read %d to %d times, want once", least, most)
		}
		if n := busiest(b.up.callTimes(), 10*time.Second); n > 5*10+5+1 { // 5 polls per second for 10 s, a burst of 5, and one more because busiest counts both ends of the period
			b.t.Errorf("%d polls within 10 s, want at most 56", n)
		}
	})
}

func TestWatchExcludesGenerationsOfOtherModels(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": queued, "b": queued}, func(b *bench) {
		none := b.watchWith(b.ctx, Request{IDs: []string{"a", "b"}, ModelID: "another"})
		all := b.watchWith(b.ctx, Request{ModelID: "m"})
		passTime(5 * time.Second)
		if ended, err := none.done(); !ended || err != nil || len(none.copyEvents().updates) > 0 {
			b.t.Errorf("a watch without matching generations: ended: %v, error: %v, states: %v", ended, err, none.states())
		}
		b.wantStates(all, "queued", "queued")
	})
}
