package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// generations returns the states of n queued generations, keyed by ID, and the sorted IDs.
func generations(n int) (map[string]catalog.State, []string) {
	states, ids := map[string]catalog.State{}, make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("g%05d", i)
		states[ids[i]] = queued
	}
	return states, ids
}

// busiest returns the largest number of calls in any period of the given length.
func busiest(times []time.Time, window time.Duration) int {
	most, from := 0, 0
	for i, at := range times {
		for at.Sub(times[from]) > window {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}

// countWithin returns the number of times in the interval [from, to).
func countWithin(times []time.Time, from, to time.Time) int {
	return len(slices.DeleteFunc(slices.Clone(times), func(t time.Time) bool { return t.Before(from) || !t.Before(to) }))
}

var unreachable = &catalog.Error{Kind: catalog.KindUnavailable, Op: "GET /generations", Err: errors.New("connection refused")}

func TestPollsStayWithinRateDespiteIncompleteList(t *testing.T) {
	if testing.Short() {
		t.Skip("too slow with -short: .ci/nightly runs it")
	}
	for name, listed := range map[string]func(id string) bool{
		"empty list":                     func(string) bool { return false },
		"list of the newest generations": func(id string) bool { return id >= "g00900" },
		"list of one generation":         func(id string) bool { return id == "g00500" },
	} {
		t.Run(name, func(t *testing.T) {
			states, ids := generations(1000)
			inBubble(t, states, func(b *bench) {
				b.up.listed = listed
				for _, id := range ids {
					b.watch(id)
				}
				passTime(15 * time.Minute)
				times := b.up.callTimes()
				if most := busiest(times, 10*time.Second); most > 5*10+5 {
					t.Errorf("%d requests within 10 s, although the rate is 5 per second", most)
				}
				if len(times) < 5*850 {
					t.Errorf("only %d requests in a quarter of an hour: the rate is not used", len(times))
				}
				if least, most := b.up.reads(ids[501:900]); least < most/2 {
					t.Errorf("one generation was read %d times and another %d times", least, most)
				}
			})
		})
	}
}

func TestListedChangeIsReadWithPriority(t *testing.T) {
	if testing.Short() {
		t.Skip("too slow with -short: .ci/nightly runs it")
	}
	states, ids := generations(1000)
	inBubble(t, states, func(b *bench) {
		b.up.listed = func(id string) bool { return id >= "g00900" }
		for _, id := range ids[:999] {
			b.watch(id)
		}
		s := b.watch(ids[999])
		passTime(15 * time.Minute)
		b.up.set(ids[999], succeeded)
		passTime(4 * time.Minute)
		b.wantStates(s, "queued", "succeeded")
		if delay := s.copyEvents().at[1].Sub(b.up.changes[ids[999]]); delay > 5*time.Second {
			t.Errorf("the change was delivered after %v, want at most 5 s", delay)
		}
	})
}

func TestWatchOfThousandGenerationsDoesNotDelaySingleWatch(t *testing.T) {
	states, ids := generations(1000)
	states["single"] = queued
	inBubble(t, states, func(b *bench) {
		b.up.listed = func(string) bool { return false }
		b.watch(ids...)
		passTime(time.Minute)
		asked := time.Now()
		s := b.watch("single")
		passTime(5 * time.Second)
		if len(s.copyEvents().at) != 1 || s.copyEvents().at[0].Sub(asked) > time.Second {
			t.Fatalf("the watch of one generation got states at %v, want one within a second", s.copyEvents().at)
		}
		passTime(time.Minute)
		b.up.set("single", succeeded)
		passTime(20 * time.Second)
		b.wantStates(s, "queued", "succeeded")
		if delay := s.copyEvents().at[1].Sub(b.up.changes["single"]); delay > 10*time.Second {
			t.Errorf("the watch of one generation got the change after %v, want at most 10 s", delay)
		}
		passTime(5 * time.Minute)
		if least, _ := b.up.reads(ids); least < 1 {
			t.Error("one of the thousand generations was never read")
		}
	})
}

func TestNewOrderIsPolledDespiteManyOtherGenerations(t *testing.T) {
	states, ids := generations(100)
	inBubble(t, states, func(b *bench) {
		b.up.listed = func(string) bool { return false }
		for _, id := range ids {
			b.watch(id)
		}
		passTime(2 * time.Minute)
		b.up.set("mine", queued)
		b.hub.Created(context.Background(), testCred, b.up.record("mine", queued), "m", time.Now())
		s := b.watch("mine")
		passTime(time.Minute)
		if reads, _ := b.up.reads([]string{"mine"}); reads == 0 {
			t.Error("the generation was not read within a minute")
		}
		b.up.set("mine", succeeded)
		passTime(time.Minute)
		b.wantStates(s, "queued", "succeeded")
	})
}

func TestManyFinishedGenerationsDoNotDelayUpdates(t *testing.T) {
	states, ids := generations(60)
	for i := range 1000 {
		states[fmt.Sprintf("old%04d", i)] = succeeded
	}
	states["live"] = queued
	inBubble(t, states, func(b *bench) {
		b.up.listed = func(id string) bool { return id[0] != 'g' }
		all := b.watch()
		passTime(5 * time.Second)
		b.up.with(func(u *upstream) { u.listed = func(string) bool { return false } })
		for _, id := range ids { // polling each generation by ID would need four times the poll rate
			b.watch(id)
		}
		passTime(2 * time.Minute)
		b.up.set("live", succeeded)
		passTime(time.Minute)
		if last := all.copyEvents().updates[len(all.copyEvents().updates)-1]; last.ID != "live" || last.State != succeeded {
			b.t.Error("a watch of all generations did not get the terminal state of its only active generation while sixty others were watched")
		}
	})
}

func TestOutageDoesNotCauseBurstOfPolls(t *testing.T) {
	if testing.Short() {
		t.Skip("too slow with -short: .ci/nightly runs it")
	}
	for name, listed := range map[string]func(string) bool{"complete list": nil, "empty list": func(string) bool { return false }} {
		t.Run(name, func(t *testing.T) {
			states, ids := generations(2000)
			inBubble(t, states, func(b *bench) {
				b.up.listed = listed
				var watches []*seen
				for _, id := range ids {
					watches = append(watches, b.watch(id))
				}
				passTime(7 * time.Minute)
				began := time.Now()
				normal := countWithin(b.up.callTimes(), began.Add(-5*time.Minute), began)
				b.up.with(func(u *upstream) { u.fail = unreachable })
				passTime(5 * time.Minute)
				ended := time.Now()
				during := countWithin(b.up.callTimes(), began, ended)
				b.up.with(func(u *upstream) { u.fail = nil })
				for _, id := range ids {
					b.up.set(id, succeeded)
				}
				passTime(2 * 2000 / 5 * time.Second)
				after := slices.DeleteFunc(b.up.callTimes(), func(t time.Time) bool { return t.Before(ended) })
				for _, s := range watches {
					b.wantEnd(s, nil)
				}
				b.t.Logf("%d requests during an outage of 5 minutes, and %d in the 5 minutes before it", during, normal)
				if during*10 > normal {
					t.Errorf("%d requests during an outage, and %d in the same time before it", during, normal)
				}
				if most := busiest(after, 10*time.Second); most > 5*10+5 {
					t.Errorf("%d requests within 10 s after the outage, want at most 55", most)
				}
			})
		})
	}
}

func TestRateLimitedCallDelaysPollsOfNewWatch(t *testing.T) {
	inBubble(t, map[string]catalog.State{"g": queued}, func(b *bench) {
		throttled := &catalog.Error{Kind: catalog.KindRateLimited, RetryAfter: 100 * time.Second}
		b.hub.callCatalog(b.ctx, testCred, func() error { return throttled })
		passTime(40 * time.Second)
		s := b.watch("g")
		passTime(59 * time.Second)
		if n := b.up.calls(); n != 0 {
			t.Errorf("%d polls during the pause, want 0", n)
		}
		passTime(20 * time.Second)
		b.wantStates(s, "queued")
	})
}

func TestHeartbeatsReportRateLimitingOfCalls(t *testing.T) {
	inBubble(t, map[string]catalog.State{"g": queued}, func(b *bench) {
		s := b.watchWith(b.ctx, Request{IDs: []string{"g"}, Heartbeat: 5 * time.Second})
		passTime(time.Second)
		b.hub.callCatalog(b.ctx, testCred, func() error { return &catalog.Error{Kind: catalog.KindRateLimited, RetryAfter: 20 * time.Second} })
		passTime(30 * time.Second)
		b.hub.callCatalog(b.ctx, testCred, func() error { return nil })
		passTime(30 * time.Second)
		all := s.copyEvents().heartbeats
		if first, last := all[0], all[len(all)-1]; first.Condition != ConditionThrottled || first.LastError == "" || last.Condition != ConditionHealthy {
			t.Errorf("in the pause the heartbeat is %+v, and afterwards %+v", first, last)
		}
	})
}

func TestPollerWithoutWatchersStopsAndIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		states, ids := generations(50)
		up := newUpstream(states)
		hub := newHub(t, Config{Upstream: withLimiters(up)})
		_ = hub.Watch(t.Context(), &Request{Credential: testCred, IDs: ids}, func(Event) error { return errEnough })
		before := up.calls()
		passTime(24 * time.Hour)
		if n := up.calls() - before; n > 1 {
			t.Errorf("%d polls without watchers, want at most 1", n)
		}
		if n := hub.Stats().Pollers; n != 0 {
			t.Errorf("%d pollers are left", n)
		}
	})
}
