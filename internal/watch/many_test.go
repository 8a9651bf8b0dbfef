package watch_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

func TestManyGenerationsAreServedByOneListCallATick(t *testing.T) {
	states := map[string]catalog.State{}
	var ids []string
	for i := range 1000 {
		id := fmt.Sprintf("g%04d", i)
		states[id], ids = queued, append(ids, id)
	}
	inBubble(t, states, func(b *bench) {
		s := b.watch(ids...)
		pass(2 * time.Second)
		if len(s.look().updates) != 1000 || !slices.Equal(s.look().caughtUp, []int{1000}) {
			b.t.Fatalf("%d updates and caught up %v after 2 s", len(s.look().updates), s.look().caughtUp)
		}
		before := b.up.calls()
		pass(time.Minute)
		// Ages of up to a minute: an interval of 1 s that grows to 6 s.
		if n := b.up.calls() - before; n > 60 {
			b.t.Errorf("%d requests in a minute for 1000 generations", n)
		}
		for _, id := range ids {
			b.up.set(id, succeeded)
		}
		pass(20 * time.Second)
		if len(s.look().updates) != 2000 {
			b.t.Errorf("%d updates, want 2000", len(s.look().updates))
		}
		b.wantEnd(s, nil)
	})
}

func TestAListThatDoesNotCarryTheGenerationsIsReplacedByReads(t *testing.T) {
	states := map[string]catalog.State{}
	var ids []string
	for i := range 20 {
		id := fmt.Sprintf("g%02d", i)
		states[id], ids = queued, append(ids, id)
	}
	inBubble(t, states, func(b *bench) {
		b.up.listed = func(string) bool { return false }
		s := b.watch(ids...)
		pass(time.Minute)
		if len(s.look().updates) != 20 {
			b.t.Fatalf("%d of 20 delivered", len(s.look().updates))
		}
		lists := b.up.listCalls()
		if lists > 6 {
			b.t.Errorf("%d list calls in a minute for a list that never helps", lists)
		}
		for _, id := range ids {
			b.up.set(id, succeeded)
		}
		pass(time.Minute)
		b.wantEnd(s, nil)
	})
}

func TestPollsNeverExceedTheConfiguredRate(t *testing.T) {
	states := map[string]catalog.State{}
	for i := range 200 {
		states[fmt.Sprintf("g%03d", i)] = queued
	}
	inBubble(t, states, func(b *bench) {
		b.up.listed = func(string) bool { return false }
		for id := range states {
			b.watch(id)
		}
		pass(2 * time.Minute)
		times := b.up.callTimes()
		for i := range times {
			n := 0
			for _, at := range times[i:] {
				if at.Sub(times[i]) <= 10*time.Second {
					n++
				}
			}
			if n > 5*10+5+1 { // the rate, and a burst of one second
				b.t.Fatalf("%d polls within 10 s from %v", n, times[i])
			}
		}
		if len(times) < 500 {
			b.t.Errorf("only %d polls: the load did not run", len(times))
		}
	})
}

func TestAWatchOfEverythingFollowsTheListAndOrdersOfOurs(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": queued, "b": succeeded}, func(b *bench) {
		s := b.watch()
		pass(time.Second / 2)
		b.wantStates(s, "queued", "succeeded")
		if !slices.Equal(s.look().caughtUp, []int{2}) {
			b.t.Errorf("caught up %v", s.look().caughtUp)
		}
		b.up.set("c", queued) // started elsewhere
		pass(10 * time.Second)
		b.hub.Created(context.Background(), tenant, b.up.record("d", queued), "m", time.Now())
		b.up.set("d", queued)
		pass(0)
		b.wantStates(s, "queued", "succeeded", "queued", "queued")
		if s.look().updates[2].Initial || s.look().updates[3].Initial {
			b.t.Error("a generation that came later is marked as initial")
		}
		for _, id := range []string{"a", "c", "d"} {
			b.up.set(id, succeeded)
		}
		pass(10 * time.Second)
		if n := len(s.look().updates); n != 7 {
			b.t.Errorf("%d updates %v, want 7", n, s.states())
		}
		if ended, _ := s.done(); ended {
			b.t.Error("a watch of everything has no goal, and ended")
		}
	})
}

func TestAWatchOfEverythingCoversNamedUnlistedGenerationsToo(t *testing.T) {
	inBubble(t, map[string]catalog.State{"listed": queued, "hidden": queued}, func(b *bench) {
		b.up.with(func(u *upstream) { u.listed = func(id string) bool { return id == "listed" } })
		s := b.watchWith(b.ctx, watch.Request{IDs: []string{"hidden", "listed"}, Everything: true})
		pass(5 * time.Second)
		b.wantStates(s, "queued", "queued")
		if !slices.Equal(s.look().caughtUp, []int{2}) {
			b.t.Errorf("caught up %v", s.look().caughtUp)
		}
		b.up.with(func(u *upstream) { u.listed = nil }) // now it is listed too, and comes once
		pass(20 * time.Second)
		for _, id := range []string{"listed", "hidden"} {
			b.up.set(id, succeeded)
		}
		b.up.set("new", queued)
		pass(20 * time.Second)
		if n := len(s.look().updates); n != 5 {
			b.t.Errorf("%d updates %v, want 5", n, s.states())
		}
	})
}
