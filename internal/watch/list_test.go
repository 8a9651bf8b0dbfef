package watch

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

var broken = &catalog.Error{Kind: catalog.KindMalformed, Op: "GET /generations", Err: errors.New("not a list")}

func TestFailingListRequestIsRetriedRarely(t *testing.T) {
	for name, failure := range map[string]error{"malformed": broken, "unreachable": unreachable} {
		for _, everything := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, with a watch of everything: %v", name, everything), func(t *testing.T) {
				states, ids := generations(10)
				inBubble(t, states, func(b *bench) {
					b.up.with(func(u *upstream) { u.failList = failure })
					s := b.watch(ids...)
					if everything {
						b.watch()
					}
					passTime(15 * time.Second)
					if got := s.copyEvents(); len(got.updates) != 10 || len(got.caughtUp) != 1 {
						b.t.Fatalf("%d of 10 generations were delivered while the list fails; caught up with %v", len(got.updates), got.caughtUp)
					}
					passTime(45 * time.Second)
					for _, id := range ids {
						b.up.set(id, succeeded)
					}
					passTime(30 * time.Second)
					b.wantEnd(s, nil)
					if n := b.up.listCalls(); n > 20 || n < 2 {
						b.t.Errorf("%d list calls in 90 s for a list that fails, want 2 to 20", n)
					}
				})
			})
		}
	}
}

func TestConstantlyChangingListAtMostDoublesTheRequests(t *testing.T) {
	calls := map[bool]int{}
	for _, restless := range []bool{false, true} {
		states, ids := generations(4)
		inBubble(t, states, func(b *bench) {
			b.up.with(func(u *upstream) {
				u.listed = func(string) bool { return restless }
				u.restless = restless
			})
			s := b.watch(ids...)
			passTime(2 * time.Minute)
			calls[restless] = b.up.calls()
			for _, id := range ids {
				b.up.set(id, succeeded)
			}
			passTime(20 * time.Second)
			b.wantEnd(s, nil)
		})
	}
	if calls[true] > 2*calls[false] {
		t.Errorf("%d requests with a list that keeps changing, want at most twice the %d with an empty list", calls[true], calls[false])
	}
}

func TestSlowListRequestDoesNotDelayNewWatches(t *testing.T) {
	states, ids := generations(10)
	states["a"], states["b"], states["c"], states["d"] = queued, queued, queued, queued
	inBubble(t, states, func(b *bench) {
		b.watch(ids...)
		passTime(3 * time.Second)
		b.up.with(func(u *upstream) { u.listDelay = 20 * time.Second })
		passTime(3 * time.Second) // long enough for a list poll to be in flight
		s := b.watch("a", "b", "c", "d")
		passTime(3 * time.Second)
		b.wantStates(s, "queued", "queued", "queued", "queued")
	})
}

func TestNewWatchGetsLatestStateOfUnlistedGeneration(t *testing.T) {
	for name, c := range map[string]struct {
		known              catalog.State
		updates, confirmed int
	}{
		"a known state":   {succeeded, 0, 1},
		"a changed state": {queued, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, map[string]catalog.State{"old": queued, "new": queued}, func(b *bench) {
				b.up.with(func(u *upstream) { u.listed = func(id string) bool { return id == "new" } })
				b.hub.Created(b.ctx, testCred, b.up.record("old", queued), "m", time.Now())
				one := b.watch("old")
				passTime(2 * forgetAfter)
				b.up.set("old", succeeded)
				passTime(15 * time.Second)
				b.wantEnd(one, nil)
				s := b.watchWith(b.ctx, Request{Everything: true, KnownEtags: map[string]string{"old": b.up.record("old", c.known).Etag()}})
				passTime(time.Minute)
				got := s.copyEvents()
				if len(got.updates) != 1+c.updates || len(got.known) != c.confirmed || !slices.Equal(got.caughtUp, []int{2}) {
					b.t.Errorf("delivered %v and %d known states, caught up with %v", s.states(), len(got.known), got.caughtUp)
				}
			})
		})
	}
}

func TestSlowWatcherGetsChangeOfUnlistedGeneration(t *testing.T) {
	inBubble(t, map[string]catalog.State{"old": queued, "new": queued}, func(b *bench) {
		b.up.with(func(u *upstream) { u.listed = func(id string) bool { return id == "new" } })
		b.hub.Created(b.ctx, testCred, b.up.record("old", queued), "m", time.Now())
		s := &seen{}
		go func() {
			s.end(b.hub.Watch(b.ctx, &Request{Credential: testCred}, func(event Event) error {
				if event.Update != nil && event.Update.State == running {
					time.Sleep(defaultStall - time.Second) // several lists arrive in the meantime
				}
				return s.add(event)
			}))
		}()
		passTime(2 * forgetAfter)
		b.up.set("new", running)
		passTime(5 * time.Second)
		b.up.set("old", succeeded)
		passTime(time.Minute)
		b.wantStates(s, "queued", "queued", "running", "succeeded")
	})
}

func TestFinishedUnlistedGenerationsAreRemovedFromMemory(t *testing.T) {
	inBubble(t, map[string]catalog.State{"old": succeeded, "failing": failed}, func(b *bench) {
		s := b.watch()
		passTime(time.Second)
		b.up.with(func(u *upstream) { u.listed = func(id string) bool { return id == "new" } })
		b.up.set("new", succeeded)
		passTime(20 * time.Minute)
		b.wantStates(s, "succeeded", "failed", "succeeded") // the states of the generations named old, failing and new
		if n := b.hub.Stats().Generations; n != 1 {
			b.t.Errorf("%d generations are kept, want the listed one", n)
		}
		b.up.with(func(u *upstream) { u.listed = nil })
		passTime(time.Minute)
		if n := b.hub.Stats().Generations; n != 3 {
			b.t.Errorf("%d generations are kept, want all that are listed", n)
		}
	})
}
