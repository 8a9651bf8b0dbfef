package watch

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

func TestReconnectedWatcherGetsNoEarlierState(t *testing.T) {
	for _, row := range []struct {
		was, says catalog.State
		delivered string
	}{{failed, queued, "failed"}, {running, queued, "running"}} {
		inBubble(t, map[string]catalog.State{"a": row.was}, func(b *bench) {
			ctx, cancel := context.WithCancel(b.ctx)
			b.watchWith(ctx, Request{IDs: []string{"a"}})
			passTime(time.Second)
			cancel()
			b.up.set("a", row.says)
			passTime(5 * time.Second)
			again := b.watch("a")
			passTime(5 * time.Second)
			b.wantStates(again, row.delivered)
			if row.was.Terminal() {
				b.wantEnd(again, nil)
			}
		})
	}
}

func TestNewOrderIsDeliveredAsQueuedDespite404(t *testing.T) {
	for _, own := range []bool{true, false} { // whether the 404 has the form of the catalog's own errors
		inBubble(t, map[string]catalog.State{}, func(b *bench) {
			b.hub.Created(context.Background(), testCred, b.up.record("a", queued), "m", time.Now())
			b.up.with(func(u *upstream) {
				u.failOne["a"] = &catalog.Error{Kind: catalog.KindNotFound, Op: "x", Status: 404, Own: own}
			})
			passTime(2 * time.Second)
			s := b.watch("a")
			passTime(2 * time.Second)
			b.wantStates(s, "queued")
			if _, ok := b.hub.NotYetVisible(testCred, "a"); !ok {
				b.t.Error("NotYetVisible returns nothing soon after the order")
			}
			passTime(time.Minute)
			if _, ok := b.hub.NotYetVisible(testCred, "a"); ok {
				b.t.Error("NotYetVisible still returns the order after a minute")
			}
		})
	}
}

func TestReappearingGenerationIsNoLongerDeleted(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": queued}, func(b *bench) {
		first := b.watch("a")
		passTime(time.Second)
		b.up.with(func(u *upstream) { delete(u.states, "a") })
		passTime(50 * time.Second)
		b.wantStates(first, "queued")
		passTime(30 * time.Second)
		b.wantStates(first, "queued", "deleted")
		b.up.set("a", failed)
		again := b.watchWith(b.ctx, Request{IDs: []string{"a"}, Goal: Settled})
		passTime(9 * time.Minute)
		b.wantStates(again, "failed")
		if ended, _ := again.done(); ended {
			b.t.Error("the watch ended before the end of the refund window")
		}
		passTime(2 * time.Minute)
		b.wantEnd(again, nil)
	})
}

func TestFalse404DoesNotDeleteListedGeneration(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": queued}, func(b *bench) {
		all := b.watch()
		passTime(time.Second)
		b.up.with(func(u *upstream) {
			u.failOne["a"] = &catalog.Error{Kind: catalog.KindNotFound, Op: "x", Status: 404, Own: true}
		})
		b.up.set("a", running)
		passTime(10 * time.Minute)
		b.wantStates(all, "queued", "running") // the list still contains the generation, with its new state
		if n, _ := b.up.reads([]string{"a"}); n > 12 {
			b.t.Errorf("%d reads in ten minutes, want at most 12", n)
		}
		one := b.watch("a")
		b.up.set("a", succeeded)
		passTime(time.Minute)
		b.wantStates(all, "queued", "running", "succeeded")
		b.wantEnd(one, nil)
	})
}

// A misconfigured proxy returns 404 with its own page. The hub must report such a response as a failed
// read, and not as a deletion.
func TestProxy404DoesNotDeleteGeneration(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": queued, "b": queued}, func(b *bench) {
		s := b.watchWith(b.ctx, Request{IDs: []string{"a"}, Heartbeat: time.Second})
		passTime(time.Second)
		b.up.with(func(u *upstream) { u.failOne["a"] = &catalog.Error{Kind: catalog.KindNotFound, Op: "x", Status: 404} })
		passTime(10 * time.Minute)
		b.wantStates(s, "queued")
		if h := s.copyEvents().heartbeats; h[len(h)-1].Failures == 0 || h[len(h)-1].LastError == "" {
			b.t.Errorf("the last heartbeat is %+v", h[len(h)-1])
		}
		b.up.with(func(u *upstream) { delete(u.failOne, "a") })
		b.up.set("a", succeeded)
		passTime(time.Minute)
		b.wantStates(s, "queued", "succeeded")
	})
}

// A 404 proves that a generation is gone only if another read succeeds, for example a read of the account.
func TestDeletionIsInferredFrom404OnlyIfAnotherReadSucceeds(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": queued}, func(b *bench) {
		s := b.watch("a")
		passTime(time.Second)
		b.up.with(func(u *upstream) {
			delete(u.states, "a")
			u.failList, u.failAccount = &catalog.Error{Kind: catalog.KindUnavailable, Op: "x"}, &catalog.Error{Kind: catalog.KindUnavailable, Op: "x"}
		})
		passTime(10 * time.Minute)
		b.wantStates(s, "queued")
		b.up.with(func(u *upstream) { u.failAccount = nil })
		passTime(2 * time.Minute)
		b.wantStates(s, "queued", "deleted")
	})
}

func TestOrderNotYetVisibleIsNotReportedAsMissing(t *testing.T) {
	inBubble(t, map[string]catalog.State{}, func(b *bench) {
		s := b.watchWith(b.ctx, Request{IDs: []string{"a"}, Ordered: map[string]bool{"a": true}})
		passTime(30 * time.Second)
		b.wantStates(s)
		b.up.set("a", running)
		passTime(30 * time.Second)
		b.wantStates(s, "running")
		b.up.with(func(u *upstream) { delete(u.states, "a") })
		passTime(2 * time.Minute)
		b.wantStates(s, "running", "deleted")
		if s.copyEvents().updates[1].Missing {
			b.t.Error("a deleted order is marked as missing")
		}
	})
}

func TestOutdatedResponseDoesNotUndoDeletion(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": queued}, func(b *bench) {
		all := b.watch()
		passTime(time.Second)
		late := b.up.record("a", queued)
		b.up.with(func(u *upstream) { delete(u.states, "a") })
		passTime(90 * time.Second)
		b.hub.Observe(context.Background(), testCred, late.Version(), true)
		passTime(time.Second)
		b.wantStates(all, "queued", "deleted")
	})
}

func TestDeletedGenerationIsNotRestoredByLateResponse(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": queued}, func(b *bench) {
		first := b.watch("a")
		passTime(time.Second)
		b.hub.Deleted(context.Background(), testCred, "a")
		passTime(0)
		b.wantStates(first, "queued", "deleted")
		b.wantEnd(first, nil)
		b.hub.Observe(context.Background(), testCred, b.up.record("a", queued).Version(), true) // simulates the response to a read that was in flight during the deletion
		s := b.watch("a")
		passTime(0)
		b.wantStates(s, "deleted")
	})
}

func TestPresumedDeletionOfNewOrderIsIgnored(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": queued}, func(b *bench) {
		b.hub.Created(context.Background(), testCred, b.up.record("a", queued), "m", time.Now())
		s := b.watch("a")
		passTime(time.Second)
		b.hub.PresumedDeleted(context.Background(), testCred, "a")
		passTime(0)
		b.wantStates(s, "queued")
		passTime(time.Minute)
		b.hub.PresumedDeleted(context.Background(), testCred, "a")
		passTime(0)
		b.wantStates(s, "queued", "deleted")
	})
}

func TestWatchDeliversRefundsAndDeletions(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": queued, "b": succeeded}, func(b *bench) {
		s := b.watch()
		passTime(time.Second)
		b.up.set("a", failed)
		passTime(10 * time.Second)
		b.up.set("a", refunded)
		passTime(30 * time.Second)
		b.wantStates(s, "queued", "succeeded", "failed", "refunded")
		b.hub.Deleted(context.Background(), testCred, "b")
		passTime(0)
		b.wantStates(s, "queued", "succeeded", "failed", "refunded", "deleted")
		calls := b.up.calls()
		passTime(time.Minute)
		if n := b.up.calls() - calls; n > 14 {
			b.t.Errorf("%d requests in a minute without active generations, want at most 14", n)
		}
	})
}

func TestOldUnfinishedGenerationIsPolledLessOften(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": queued}, func(b *bench) {
		b.watch()
		passTime(10 * time.Minute)
		calls := b.up.calls()
		passTime(10 * time.Minute)
		if n := b.up.calls() - calls; n > 150 {
			b.t.Errorf("%d requests in ten minutes for one generation that is ten minutes old, want at most 150", n)
		}
	})
}

func TestRemainingTimeEstimateIgnoresUnknownDurations(t *testing.T) {
	inBubble(t, map[string]catalog.State{"x": succeeded, "y": succeeded, "z": succeeded, "new": queued}, func(b *bench) {
		for _, id := range []string{"x", "y", "z"} {
			old := b.up.record(id, succeeded)
			old.CreateTime = time.Now().Add(-720 * time.Hour)
			b.hub.Created(context.Background(), testCred, old, "m", time.Now())
		}
		s := b.watchWith(b.ctx, Request{IDs: []string{"new"}, Heartbeat: time.Second})
		passTime(2 * time.Second)
		if h := s.copyEvents().heartbeats[0]; h.HasTypical {
			b.t.Errorf("got the typical remaining time %v from generations that had already ended, want none", h.TypicalRemaining)
		}
	})
}

func TestWatchConfirmsUnchangedState(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": succeeded}, func(b *bench) {
		first := b.watch("a")
		passTime(0)
		again := b.watchWith(b.ctx, Request{IDs: []string{"a"}, KnownEtags: map[string]string{"a": first.copyEvents().updates[0].Etag}})
		passTime(0)
		if known := again.copyEvents().known; len(known) != 1 || known[0].File == nil {
			b.t.Errorf("the known states are %+v", known)
		}
		b.wantEnd(again, nil)
	})
}

func TestRemainingTimeEstimateCountsEachGenerationOnce(t *testing.T) {
	inBubble(t, map[string]catalog.State{"new": queued}, func(b *bench) {
		for range 5 {
			old := b.up.record("old", succeeded)
			old.CreateTime, old.TerminalTime = time.Now().Add(-time.Hour), time.Now().Add(-time.Hour+time.Minute)
			b.hub.Created(context.Background(), testCred, old, "m", time.Now())
			passTime(time.Hour)
		}
		s := b.watchWith(b.ctx, Request{IDs: []string{"new"}, Heartbeat: time.Second})
		passTime(2 * time.Second)
		if h := s.copyEvents().heartbeats[0]; h.HasTypical {
			b.t.Errorf("got the typical remaining time %v after a single generation, want none", h.TypicalRemaining)
		}
	})
}

func TestNewOrderIsNotPolledInItsFirstSecond(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": queued}, func(b *bench) {
		b.hub.Created(context.Background(), testCred, b.up.record("a", queued), "m", time.Now())
		s := b.watch("a")
		passTime(time.Second)
		b.wantStates(s, "queued")
		if n := b.up.calls(); n != 0 {
			b.t.Errorf("%d polls within a second after the response to the order, want 0", n)
		}
		b.up.set("a", succeeded)
		passTime(5 * time.Second)
		b.wantEnd(s, nil)
	})
}

func TestErrorAfterFinalStateDoesNotFailWatch(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": queued, "b": queued}, func(b *bench) {
		b.watch("b")
		slow := &seen{}
		go func() {
			slow.end(b.hub.Watch(b.ctx, &Request{Credential: testCred, IDs: []string{"a"}}, deliverSlowly(slow.add)))
		}()
		passTime(time.Second)
		b.up.set("a", succeeded)
		passTime(5 * time.Second)
		b.up.with(func(u *upstream) { u.fail = &catalog.Error{Kind: catalog.KindCredentialRejected, Op: "x"} })
		passTime(time.Minute)
		b.wantStates(slow, "queued", "succeeded")
		b.wantEnd(slow, nil)
	})
}

func TestRepeatedStateRegressionIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		up := newUpstream(map[string]catalog.State{"a": failed})
		hub := newHub(t, Config{Upstream: withLimiters(up), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		b := &bench{t, up, hub, t.Context()}
		b.watchWith(t.Context(), Request{IDs: []string{"a"}, Goal: Settled})
		passTime(time.Second)
		b.up.set("a", queued)
		passTime(5 * time.Minute)
		hub.Close()
		if n := hub.Stats().Regressions; n < 10 || strings.Count(log.String(), "older state dropped") != 1 {
			t.Errorf("%d records were dropped, and the log is\n%s", n, log.String())
		}
	})
}
