package watch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

func TestWatchDeliversEachChangeUntilFinalState(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": queued}, func(b *bench) {
		s := b.watch("a")
		passTime(0)
		b.wantStates(s, "queued")
		if !s.copyEvents().updates[0].Initial {
			b.t.Error("the snapshot is not marked as initial")
		}
		b.up.set("a", running)
		passTime(2 * time.Second)
		b.up.set("a", succeeded)
		passTime(2 * time.Second)
		b.wantStates(s, "queued", "running", "succeeded")
		if s.copyEvents().updates[2].Initial {
			b.t.Error("a change is marked as initial")
		}
		b.wantEnd(s, nil)
	})
}

func TestStateWithAKnownEtagIsNotDeliveredAgain(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": queued}, func(b *bench) {
		first := b.watch("a")
		passTime(0)
		again := b.watchWith(b.ctx, Request{IDs: []string{"a"}, KnownEtags: map[string]string{"a": first.copyEvents().updates[0].Etag}})
		passTime(0)
		b.wantStates(again)
		if len(again.copyEvents().heartbeats) != 1 {
			b.t.Errorf("%d heartbeats at the start, want 1", len(again.copyEvents().heartbeats))
		}
		b.up.set("a", succeeded)
		passTime(2 * time.Second)
		b.wantStates(again, "succeeded")
		b.wantEnd(again, nil)
	})
}

func TestThousandWatchersCauseNoAdditionalPolls(t *testing.T) {
	polls := func(watchers int) (n int) {
		inBubble(t, map[string]catalog.State{"a": queued}, func(b *bench) {
			var all []*seen
			for range watchers {
				all = append(all, b.watch("a"))
			}
			passTime(20 * time.Second)
			b.up.set("a", succeeded)
			passTime(5 * time.Second)
			for _, s := range all {
				b.wantStates(s, "queued", "succeeded")
				b.wantEnd(s, nil)
			}
			n = b.up.calls()
		})
		return n
	}
	one, many := polls(1), polls(1000)
	if one != many || one == 0 {
		t.Errorf("%d requests for one watcher and %d for a thousand, want equal numbers", one, many)
	}
}

func TestHeartbeatsAreDeliveredWhileNothingChanges(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": queued}, func(b *bench) {
		s := b.watchWith(b.ctx, Request{IDs: []string{"a"}, Heartbeat: 5 * time.Second})
		passTime(21 * time.Second)
		if n := len(s.copyEvents().heartbeats); n != 4 {
			b.t.Fatalf("%d heartbeats in 21 s, want 4", n)
		}
		h := s.copyEvents().heartbeats[3]
		if h.Condition != ConditionHealthy || time.Since(h.ObserveTime) > 5*time.Second || h.NextPoll.IsZero() {
			b.t.Errorf("the fourth heartbeat is %+v, want a healthy one with a next poll", h)
		}
	})
}

func TestSkippedEventDoesNotDelayTheNextHeartbeat(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": queued}, func(b *bench) {
		ctx, cancel := context.WithTimeout(b.ctx, 21*time.Second)
		defer cancel()
		heartbeats := 0
		go func() {
			for at := 4 * time.Second; at < 20*time.Second; at += 4 * time.Second {
				passTime(4 * time.Second)
				b.hub.Observe(ctx, testCred, catalog.Generation{ID: "a", State: []catalog.State{queued, running}[at/(4*time.Second)%2], ObserveTime: time.Now()}.Version(), true)
			}
		}()
		_ = b.hub.Watch(ctx, &Request{Credential: testCred, IDs: []string{"a"}, Heartbeat: 5 * time.Second}, func(e Event) error {
			if e.Heartbeat == nil {
				return ErrSkipped
			}
			heartbeats++
			return nil
		})
		if heartbeats != 4 {
			b.t.Errorf("%d heartbeats in 21 s, want 4", heartbeats)
		}
	})
}

func TestHeartbeatsReportCatalogErrors(t *testing.T) {
	for _, trouble := range []struct {
		kind catalog.Kind
		want Condition
	}{
		{catalog.KindUnavailable, ConditionUnreachable},
		{catalog.KindRateLimited, ConditionThrottled},
		{catalog.KindMalformed, ConditionUnreachable},
		{catalog.KindForbidden, ConditionUnreachable},
	} {
		t.Run(trouble.kind.String(), func(t *testing.T) {
			inBubble(t, map[string]catalog.State{"a": queued}, func(b *bench) {
				s, many := b.watch("a"), b.watchWith(b.ctx, Request{Everything: true, Heartbeat: time.Minute})
				passTime(time.Second / 2)
				b.up.with(func(u *upstream) { u.fail = &catalog.Error{Kind: trouble.kind, Op: "x"} })
				passTime(5 * time.Minute)
				if ended, _ := s.done(); ended {
					b.t.Fatal("the watch ended")
				}
				if h := s.copyEvents().heartbeats[len(s.copyEvents().heartbeats)-1]; h.Condition != trouble.want || h.Failures == 0 || h.LastError == "" || !h.Own {
					b.t.Errorf("the last heartbeat does not show the failure: %+v", h)
				}
				if h := many.copyEvents().heartbeats[len(many.copyEvents().heartbeats)-1]; h.LastError == "" || h.Own {
					b.t.Errorf("the last heartbeat of the watch of all generations is %+v, want an error and Own false", h)
				}
				b.up.with(func(u *upstream) { u.fail = nil; u.states["a"] = succeeded })
				passTime(2 * time.Minute)
				b.wantStates(s, "queued", "succeeded")
				b.wantEnd(s, nil)
			})
		})
	}
}

func TestPollingPausesAfterRateLimitError(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": queued, "b": queued}, func(b *bench) {
		b.watch("a")
		b.watch("b")
		passTime(time.Second / 2)
		b.up.with(func(u *upstream) {
			u.fail = &catalog.Error{Kind: catalog.KindRateLimited, Op: "x", RetryAfter: 40 * time.Second}
		})
		before := b.up.calls()
		for b.up.calls() == before {
			passTime(10 * time.Millisecond)
		}
		hit := b.up.calls()
		passTime(39 * time.Second)
		if n := b.up.calls() - hit; n != 0 {
			b.t.Errorf("%d polls during the pause, want 0", n)
		}
		passTime(8 * time.Second)
		if b.up.calls() == hit {
			b.t.Error("no poll after the pause")
		}
	})
}

func TestRejectedForwardedAPIKeyEndsWatch(t *testing.T) {
	rejected := &catalog.Error{Kind: catalog.KindCredentialRejected, Op: "x"}
	inBubble(t, map[string]catalog.State{"a": queued}, func(b *bench) {
		held := catalog.Shared(func() catalog.Secret { return catalog.NewSecret("held") })
		own := b.watch("a")
		ours := b.watchWith(b.ctx, Request{IDs: []string{"a"}, Credential: held})
		passTime(time.Second / 2)
		b.up.with(func(u *upstream) { u.fail = rejected })
		passTime(3 * time.Second)
		b.wantEnd(own, rejected)
		before := b.up.calls()
		passTime(10 * time.Minute)
		if n := b.up.calls() - before; n < 5 || n > 11 {
			b.t.Errorf("%d probes in 10 minutes, want one a minute", n)
		}
		if h := ours.copyEvents().heartbeats[len(ours.copyEvents().heartbeats)-1]; h.Condition != ConditionCredentialRejected {
			b.t.Errorf("the last heartbeat is %+v, want a rejected credential", h)
		}
		b.up.with(func(u *upstream) { u.fail = nil; u.states["a"] = succeeded })
		passTime(2 * time.Minute)
		b.wantEnd(ours, nil)
	})
}

func TestStatesNeverGoBackwards(t *testing.T) {
	for _, row := range []struct {
		sent      []catalog.State
		delivered []string
	}{
		{[]catalog.State{running, queued, running, succeeded}, []string{"running", "succeeded"}},
		{[]catalog.State{catalog.StateUnrecognized, queued, succeeded}, []string{"unrecognized", "queued", "succeeded"}},
		{[]catalog.State{running, catalog.StateUnrecognized, queued, running, succeeded}, []string{"running", "unrecognized", "running", "succeeded"}},
	} {
		t.Run(fmt.Sprint(row.delivered), func(t *testing.T) {
			inBubble(t, map[string]catalog.State{"a": row.sent[0]}, func(b *bench) {
				s := b.watch("a")
				for _, state := range row.sent {
					b.up.set("a", state)
					passTime(3 * time.Second)
				}
				b.wantStates(s, row.delivered...)
				b.wantEnd(s, nil)
			})
		})
	}
}

func TestFailedStateChangesOnlyToRefunded(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": failed}, func(b *bench) {
		s := b.watchWith(b.ctx, Request{IDs: []string{"a"}, Goal: Settled})
		passTime(time.Second / 2)
		for _, state := range []catalog.State{queued, succeeded, running, refunded} {
			b.up.set("a", state)
			passTime(15 * time.Second)
		}
		b.wantStates(s, "failed", "refunded")
		b.wantEnd(s, nil)
		if n := b.hub.Stats().Regressions; n < 3 {
			b.t.Errorf("%d regressions counted, want at least 3", n)
		}
	})
}

func TestUnknownGenerationIsMarkedAsMissing(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": queued}, func(b *bench) {
		unknown, known := b.watch("x"), b.watch("a")
		passTime(time.Second / 2)
		b.wantStates(unknown, "deleted")
		if !unknown.copyEvents().updates[0].Missing {
			b.t.Error("an unknown ID is not marked as missing")
		}
		b.wantEnd(unknown, nil)
		b.up.with(func(u *upstream) { delete(u.states, "a") })
		passTime(50 * time.Second)
		b.wantStates(known, "queued") // the generation does not count as deleted yet
		passTime(30 * time.Second)
		b.wantStates(known, "queued", "deleted")
		if known.copyEvents().updates[1].Missing {
			b.t.Error("a deleted generation is marked as missing")
		}
		b.wantEnd(known, nil)
	})
}

func TestNewOrderIsPresumedDeletedOnlyAfterAGracePeriod(t *testing.T) {
	inBubble(t, map[string]catalog.State{}, func(b *bench) {
		b.hub.Created(context.Background(), testCred, b.up.record("a", queued), "m", time.Now())
		s := b.watch("a")
		passTime(20 * time.Second)
		b.wantStates(s, "queued")
		b.up.set("a", succeeded)
		passTime(5 * time.Second)
		b.wantStates(s, "queued", "succeeded")

		b.hub.Created(context.Background(), testCred, b.up.record("lost", queued), "m", time.Now())
		lost := b.watch("lost")
		passTime(80 * time.Second)
		b.wantStates(lost, "queued")
		passTime(40 * time.Second)
		b.wantStates(lost, "queued", "deleted")
		b.wantEnd(lost, nil)
	})
}

func TestCredentialsShareNoGenerationStates(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": queued}, func(b *bench) {
		other := catalog.Forwarded(catalog.NewSecret("key-two"))
		b.watch("a")
		passTime(time.Second / 2)
		if _, ok := b.hub.Peek(other, "a"); ok {
			b.t.Error("the hub returns a state that only another credential has watched")
		}
		before := b.up.calls()
		b.watchWith(b.ctx, Request{IDs: []string{"a"}, Credential: other})
		passTime(0)
		if b.up.calls() == before {
			b.t.Error("the state of one credential was served to another")
		}
	})
}

// deliverSlowly returns a function that calls deliver and then sleeps for 20 s.
func deliverSlowly(deliver func(Event) error) func(Event) error {
	return func(event Event) error {
		defer time.Sleep(20 * time.Second)
		return deliver(event)
	}
}

func TestSlowWatcherGetsOnlyLatestState(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": queued}, func(b *bench) {
		fast := b.watch("a")
		slow := &seen{}
		go func() {
			_ = b.hub.Watch(b.ctx, &Request{Credential: testCred, IDs: []string{"a"}}, deliverSlowly(slow.add))
		}()
		passTime(time.Second)
		b.up.set("a", running)
		passTime(4 * time.Second)
		b.up.set("a", succeeded)
		passTime(time.Minute)
		b.wantStates(fast, "queued", "running", "succeeded")
		b.wantStates(slow, "queued", "succeeded")
	})
}

func TestTypicalRemainingTimeIsLearnedFromEarlierGenerations(t *testing.T) {
	inBubble(t, map[string]catalog.State{}, func(b *bench) {
		for i := range 5 {
			id := fmt.Sprintf("old%d", i)
			b.up.set(id, queued)
			b.hub.Created(context.Background(), testCred, b.up.record(id, queued), "m", time.Now())
			b.watch(id)
			passTime(20 * time.Second)
			b.up.set(id, succeeded)
			passTime(5 * time.Second)
		}
		b.up.set("new", queued)
		s := b.watchWith(b.ctx, Request{IDs: []string{"new"}, Heartbeat: 5 * time.Second})
		passTime(6 * time.Second)
		h := s.copyEvents().heartbeats[0]
		if !h.HasTypical || h.TypicalRemaining < 13*time.Second || h.TypicalRemaining > 19*time.Second {
			b.t.Errorf("got the typical remaining time %v (known: %v), want 13 to 19 s", h.TypicalRemaining, h.HasTypical)
		}
	})
}

func TestWatchReturnsTheCauseOfItsCanceledContext(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": queued}, func(b *bench) {
		cause := errors.New("drain")
		ctx, cancel := context.WithCancelCause(b.ctx)
		s := b.watchWith(ctx, Request{IDs: []string{"a"}})
		passTime(time.Second)
		cancel(cause)
		synctest.Wait()
		b.wantEnd(s, cause)
	})
}

func TestConfigErrorListsAllInvalidFields(t *testing.T) {
	_, err := New(Config{MinInterval: 10, MaxInterval: 5, Rate: math.Inf(1)})
	if err == nil {
		t.Fatal("no error")
	}
	for _, name := range []string{"Upstream", "MaxInterval", "Rate"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%q does not mention %s", err, name)
		}
	}
}
