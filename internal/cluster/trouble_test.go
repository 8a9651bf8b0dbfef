package cluster

import (
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

func TestWhereTheLeaderDiesAnotherTakesOverWithinTheLeaseAndOnePoll(t *testing.T) {
	states, ids := many(20, queued)
	inWorld(t, 3, states, func(w *world) {
		var all []*watching
		for _, r := range w.replicas {
			all = append(all, r.watch(watch.Terminal, ids...))
		}
		pass(20 * time.Second)
		leader, others := w.theLeader()
		leader.kill()
		died := time.Now()
		w.up.set(succeeded, ids...)
		for len(w.leaders()) == 0 || w.leaders()[0] == leader {
			pass(50 * time.Millisecond)
			if time.Since(died) > leaseTTL+time.Second {
				t.Fatal("nobody took over")
			}
		}
		t.Logf("taken over after %v", time.Since(died))
		pass(leaseTTL)
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
		_ = others
	})
}

func TestALeaderThatLeavesIsFollowedAtOnce(t *testing.T) {
	inWorld(t, 3, map[string]catalog.State{"a": queued}, func(w *world) {
		for _, r := range w.replicas {
			r.watch(watch.Terminal, "a")
		}
		pass(10 * time.Second)
		leader, others := w.theLeader()
		leader.close()
		pass(100 * time.Millisecond)
		if next, _ := w.theLeader(); next == leader {
			t.Error("the lease was not given back")
		}
		before := time.Now()
		pass(time.Second)
		if n := w.up.since(before, others[0]) + w.up.since(before, others[1]); n > 3 {
			t.Errorf("%d polls in the second after", n)
		}
	})
}

func TestWhatAnOldLeaderSaidIsNotTakenInOnceAnotherLeads(t *testing.T) {
	states, ids := many(10, queued)
	inWorld(t, 3, states, func(w *world) {
		for _, r := range w.replicas {
			r.watch(watch.Terminal, ids...)
		}
		pass(10 * time.Second)
		w.up.set(running, ids[:5]...)
		pass(20 * time.Second)
		leader, others := w.theLeader()
		leader.kill()
		pass(2 * leaseTTL)
		if next, _ := w.theLeader(); next == leader {
			t.Fatal("nobody took over")
		}
		told := others[0].hub.Stats().Told + others[1].hub.Stats().Told
		dropped := func() (n int64) {
			for _, r := range others {
				n += r.cluster.Stats().Fenced + r.cluster.Stats().Refused
			}
			return n
		}
		before := dropped()
		w.fabric.with(func() {
			for _, k := range w.fabric.kept {
				w.fabric.deliver(leader.net, k.subject, k.data)
			}
		})
		pass(time.Second / 10)
		if now := others[0].hub.Stats().Told + others[1].hub.Stats().Told; now != told {
			t.Errorf("%d old words were taken in", now-told)
		}
		if dropped() == before {
			t.Error("nothing was dropped: the replay did not happen")
		}
	})
}

// forge makes a message as a holder of the key could.
func forge(t *testing.T, key catalog.Secret, m message) (subject string, data []byte) {
	t.Helper()
	seal, err := newSeal(key, "s")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	subject = "easel." + seal.name + ".all"
	return subject, seal.close(subject, text)
}

func TestAForgedEndIsToldToNobodyAndCostsOneRead(t *testing.T) {
	inWorld(t, 3, map[string]catalog.State{"a": queued}, func(w *world) {
		var all []*watching
		for _, r := range w.replicas {
			all = append(all, r.watch(watch.Terminal, "a"))
		}
		pass(10 * time.Second)
		_, others := w.theLeader()
		end := packWord(watch.Word{Generation: record("a", succeeded), Etag: "x"}, time.Now())
		before := time.Now()
		for seq := range 100 {
			m := message{From: "mallory", Seq: uint64(seq + 1), Fence: fence{Epoch: 1 << 62}, Leads: true, Words: []json.RawMessage{end}}
			subject, data := forge(t, tenant.Key(), m)
			w.fabric.with(func() { w.fabric.deliver(nil, subject, data) })
		}
		pass(time.Second)
		for _, r := range others {
			if n, stats := w.up.since(before, r), r.hub.Stats(); n != 1 || stats.Refuted != 1 {
				t.Errorf("%d reads, and %d ends refuted", n, stats.Refuted)
			}
		}
		pass(time.Minute)
		for _, s := range all {
			if got := s.states("a"); len(got) != 1 {
				t.Errorf("told %v", got)
			}
		}
		w.up.set(succeeded, "a")
		pass(15 * time.Second)
		for _, s := range all {
			if got := s.last("a"); got != succeeded || !s.ended {
				t.Errorf("told %v after the forgery", got)
			}
		}
	})
}

func TestWithoutTheKeyNothingCanBeSaid(t *testing.T) {
	inWorld(t, 2, map[string]catalog.State{"a": queued}, func(w *world) {
		for _, r := range w.replicas {
			r.watch(watch.Terminal, "a")
		}
		pass(5 * time.Second)
		var subject string
		var sealed []byte
		w.fabric.with(func() { subject, sealed = w.fabric.kept[0].subject, w.fabric.kept[0].data })
		_, other := forge(t, catalog.NewSecret("another key"), message{From: "eve", Seq: 1, Leads: true, Fence: fence{Epoch: 1 << 62}})
		broken := append([]byte{}, sealed...)
		broken[len(broken)-1] ^= 1
		w.fabric.with(func() {
			for _, data := range [][]byte{other, broken, nil, []byte("x")} {
				w.fabric.deliver(nil, subject, data)
			}
			w.fabric.deliver(nil, subject[:len(subject)-3]+"leader", sealed) // from another subject
		})
		pass(time.Second / 10)
		var refused int64
		for _, r := range w.replicas {
			refused += r.cluster.Stats().Refused
		}
		if refused != 9 {
			t.Errorf("%d messages refused, want 4 by each and one by the leader", refused)
		}
	})
}

func TestWithoutNATSEachPollsForItselfAtItsShareOfTheRate(t *testing.T) {
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
			pass(d)
			n, most := w.up.since(before, nil), 5*d.Seconds()*1.05+10
			t.Logf("%s: %d requests in %v", what, n, d)
			if float64(n) > most || float64(n) < most/3 {
				t.Errorf("%s: %d requests in %v", what, n, d)
			}
		}
		pass(2 * time.Minute)
		check("with NATS", time.Minute)
		w.fabric.with(func() { w.fabric.down = true })
		check("without NATS", 2*time.Minute)
		w.up.set(succeeded, ids...)
		check("at the end", 3*time.Minute)
		w.fabric.with(func() { w.fabric.down = false })
		w.fabric.restart()
		pass(5 * time.Minute)
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
		pass(100 * time.Millisecond)
		for _, s := range all {
			if s.last("a") != queued {
				t.Error("the first state waited for NATS")
			}
		}
		pass(time.Minute)
		w.fabric.with(func() { w.fabric.down = false })
		pass(10 * time.Second)
		_, others := w.theLeader()
		before := time.Now()
		pass(20 * time.Second)
		if n := w.up.since(before, others[0]); n > 1 {
			t.Errorf("the follower made %d polls", n)
		}
	})
}

func TestAPartitionEndsWithOneLeaderAndEveryEndIsTold(t *testing.T) {
	states, ids := many(50, queued)
	inWorld(t, 3, states, func(w *world) {
		var all []*watching
		for _, r := range w.replicas {
			all = append(all, r.watch(watch.Terminal, ids...))
		}
		pass(15 * time.Second)
		leader, _ := w.theLeader()
		w.fabric.with(func() { leader.net.cut = true })
		before := time.Now()
		pass(leaseTTL + time.Second)
		next, _ := w.theLeader()
		if next == leader {
			t.Fatal("nobody took over")
		}
		w.up.set(succeeded, ids[:25]...)
		pass(20 * time.Second)
		for _, s := range all {
			if s.last(ids[0]) != succeeded {
				t.Errorf("told %v in the partition", s.last(ids[0]))
			}
		}
		if n := w.up.since(before, nil); float64(n) > 5*1.05*time.Since(before).Seconds()+10 {
			t.Errorf("%d requests in %v of partition", n, time.Since(before))
		}
		w.fabric.with(func() { leader.net.cut = false })
		pass(5 * time.Second)
		if got, _ := w.theLeader(); got != next {
			t.Error("the lease passed on again")
		}
		w.up.set(succeeded, ids...)
		pass(20 * time.Second)
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
		pass(3 * time.Minute)
		if len(first.told) != 300 {
			t.Fatalf("%d told", len(first.told))
		}
		old.close()
		pass(10 * time.Second)
		next := w.start()
		before := time.Now()
		s := next.watch(watch.Terminal, ids...)
		pass(time.Second)
		if n := w.up.since(before, nil); len(s.told) != 300 || n > 10 {
			t.Errorf("%d of 300 told after a second and %d requests", len(s.told), n)
		}
		for _, id := range ids[:10] {
			if len(s.etags[id]) != 1 || s.etags[id][0] != first.etags[id][len(first.etags[id])-1] {
				t.Fatalf("%s is told as %v, and was %v before", id, s.etags[id], first.etags[id])
			}
		}
		if n := next.hub.Stats().Recalled; n != 300 {
			t.Errorf("%d recalled", n)
		}
		w.up.set(succeeded, ids...)
		pass(3 * time.Minute)
		if !s.ended {
			t.Error("the watch did not end")
		}
		s.check(t)
	})
}

func TestStatesOfMoreThanTwoMinutesAgoAreReadAnew(t *testing.T) {
	inWorld(t, 1, map[string]catalog.State{"a": queued}, func(w *world) {
		w.replicas[0].watch(watch.Terminal, "a")
		pass(time.Minute)
		w.replicas[0].kill()
		pass(130 * time.Second)
		next := w.start()
		before := time.Now()
		next.watch(watch.Terminal, "a")
		pass(time.Second)
		if n := w.up.since(before, next); n == 0 {
			t.Error("what is more than two minutes old was told as new")
		}
	})
}

func TestAPauseThatTheCatalogAsksOfOneHoldsForAll(t *testing.T) {
	inWorld(t, 3, map[string]catalog.State{"a": queued}, func(w *world) {
		for _, r := range w.replicas {
			r.watch(watch.Terminal, "a")
		}
		pass(10 * time.Second)
		_, others := w.theLeader()
		others[0].hub.Called(tenant, &catalog.Error{Kind: catalog.KindRateLimited, Op: "x", RetryAfter: 30 * time.Second})
		pass(2 * time.Second)
		before := time.Now()
		pass(25 * time.Second)
		if n := w.up.since(before, nil); n > 0 {
			t.Errorf("%d polls in a pause that the catalog asked for", n)
		}
		before = time.Now()
		pass(time.Minute)
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
		pass(2 * time.Minute)
		leader, _ := w.theLeader()
		for _, r := range w.replicas[1:] {
			r.watch(watch.Terminal, ids[0])
		}
		pass(10 * time.Second)
		before := time.Now()
		for range 60 { // three a second and follower
			for _, r := range w.replicas {
				for range 3 {
					if r != leader {
						r.hub.Called(tenant, nil)
					}
				}
			}
			pass(time.Second)
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
		pass(5 * time.Second)
		leader, others := w.theLeader()
		others[0].hub.Created(t.Context(), tenant, record("new", queued), "m", time.Now())
		var both []*watching
		for _, r := range []*replica{others[0], leader} {
			both = append(both, r.watch(watch.Terminal, "new"))
			pass(time.Second)
		}
		pass(10 * time.Second)
		if got := both[0].states("new"); len(got) != 1 || got[0] != queued {
			t.Errorf("told %v", got)
		}
		w.up.set(succeeded, "new")
		pass(10 * time.Second)
		for _, s := range both {
			if got := s.states("new"); s.last("new") != succeeded || got[0] == catalog.StateDeleted {
				t.Errorf("told %v", got)
			}
		}
	})
}

func TestWhatOnlyAFollowerWatchesIsPolledByTheLeader(t *testing.T) {
	inWorld(t, 2, map[string]catalog.State{"a": queued, "b": queued}, func(w *world) {
		for _, r := range w.replicas {
			r.watch(watch.Terminal, "a")
		}
		pass(5 * time.Second)
		leader, others := w.theLeader()
		s := others[0].watch(watch.Terminal, "b")
		pass(12 * time.Second)
		before := time.Now()
		for i := range 8 { // at different times of the rounds in which interest is told again
			pass(9*time.Second + time.Duration(i)*time.Second)
			w.up.restless("b", i)
			changed := time.Now()
			pass(7 * time.Second)
			if told := s.at["b"]; told.Before(changed) {
				t.Errorf("change %d was not told within 7 s", i)
			}
		}
		w.up.set(succeeded, "b")
		pass(10 * time.Second)
		if s.last("b") != succeeded {
			t.Errorf("told %v", s.states("b"))
		}
		// It reads the end, and for its own sake one of the two renders every minute, give or take a tenth.
		own := 1 + int(time.Since(before)/(54*time.Second))
		if n := w.up.since(before, others[0]); n < 1 || n > 1+own {
			t.Errorf("the follower made %d requests, want the one that shows the end, and up to %d of its own", n, own)
		}
		if w.up.since(before, leader) < 10 {
			t.Error("the leader did not poll")
		}
	})
}

func TestAFollowerWhomTheLeaderNoLongerHearsPollsForItself(t *testing.T) {
	inWorld(t, 2, map[string]catalog.State{"a": queued, "b": queued}, func(w *world) {
		for _, r := range w.replicas {
			r.watch(watch.Terminal, "a")
		}
		pass(5 * time.Second)
		_, others := w.theLeader()
		s := others[0].watch(watch.Terminal, "b")
		pass(12 * time.Second)
		w.fabric.with(func() { w.fabric.deaf = others[0].net })
		pass(time.Minute)
		w.up.set(succeeded, "b")
		pass(15 * time.Second)
		if s.last("b") != succeeded {
			t.Errorf("told %v", s.states("b"))
		}
		if w.fabric.ignored == 0 {
			t.Error("nothing was asked: the fault did not happen")
		}
	})
}

func TestAMessageThatComesTwiceIsTakenInOnce(t *testing.T) {
	inWorld(t, 2, map[string]catalog.State{"a": queued}, func(w *world) {
		for _, r := range w.replicas {
			r.watch(watch.Terminal, "a")
		}
		pass(10 * time.Second)
		leader, others := w.theLeader()
		before := others[0].cluster.Stats().Refused + others[0].cluster.Stats().Fenced
		n := 0
		w.fabric.with(func() {
			for _, k := range w.fabric.kept {
				if k.from == leader.net && k.subject[len(k.subject)-3:] == "all" {
					w.fabric.deliver(leader.net, k.subject, k.data)
					n++
				}
			}
		})
		pass(time.Second / 10)
		if got := others[0].cluster.Stats(); got.Refused+got.Fenced-before < int64(n) || n < 5 {
			t.Errorf("%d of %d repeats were refused", got.Refused+got.Fenced-before, n)
		}
	})
}

func TestAWatchOfEverythingAtAFollowerHearsWhatTheLeaderFinds(t *testing.T) {
	inWorld(t, 2, map[string]catalog.State{"a": queued}, func(w *world) {
		for _, r := range w.replicas {
			r.watch(watch.Terminal, "a")
		}
		pass(5 * time.Second)
		_, others := w.theLeader()
		s := others[0].watch(watch.Terminal)
		pass(12 * time.Second)
		before := time.Now()
		w.up.set(queued, "b")
		pass(20 * time.Second)
		if n := w.up.since(before, others[0]); s.last("b") != queued || n > 0 {
			t.Errorf("told %v of what is new, after %d requests of its own", s.states("b"), n)
		}
		w.up.set(succeeded, "b")
		pass(15 * time.Second)
		if s.last("b") != succeeded {
			t.Errorf("told %v", s.states("b"))
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
		pass(10 * time.Second)
		w.up.set(failed, "a")
		pass(30 * time.Second)
		w.up.set(refunded, "a")
		pass(30 * time.Second)
		for _, s := range all {
			if got := s.states("a"); len(got) != 3 || got[2] != refunded || !s.ended {
				t.Errorf("told %v", got)
			}
		}
	})
}

func TestARejectedKeyEndsTheWatchesOfEveryReplica(t *testing.T) {
	inWorld(t, 3, map[string]catalog.State{"a": queued}, func(w *world) {
		var all []*watching
		for _, r := range w.replicas {
			all = append(all, r.watch(watch.Terminal, "a"))
		}
		pass(10 * time.Second)
		w.up.mu.Lock()
		w.up.fail = &catalog.Error{Kind: catalog.KindCredentialRejected, Op: "x"}
		w.up.mu.Unlock()
		pass(15 * time.Second)
		for _, s := range all {
			if !s.ended || catalog.KindOf(s.err) != catalog.KindCredentialRejected {
				t.Errorf("ended %v with %v", s.ended, s.err)
			}
		}
	})
}

func TestARotatedKeyIsJoinedAnew(t *testing.T) {
	var key atomic.Pointer[catalog.Secret]
	rotate := func(text string) { secret := catalog.NewSecret(text); key.Store(&secret) }
	rotate("first")
	inWorld(t, 1, map[string]catalog.State{"a": queued}, func(w *world) {
		r := w.replicas[0]
		s := r.watchAs(catalog.Held(func() catalog.Secret { return *key.Load() }), watch.Terminal, "a")
		pass(5 * time.Second)
		rotate("second")
		pass(5 * time.Second)
		if n := r.cluster.Stats().Takings; n != 2 {
			t.Errorf("%d leases taken, want one for each key", n)
		}
		w.up.set(succeeded, "a")
		pass(15 * time.Second)
		if s.last("a") != succeeded {
			t.Errorf("told %v", s.states("a"))
		}
	})
}
