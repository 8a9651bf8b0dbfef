package cluster

import (
	"flag"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

var everySize = flag.Bool("every-size", false, "let 2, 4 and 8 replicas lose each other, and not only 3")

// partitions are ways in which replicas lose each other.
var partitions = map[string]func(f *fabric, all []*replica){
	"NATS is away":                     func(f *fabric, _ []*replica) { f.down = true },
	"each is cut off":                  func(_ *fabric, all []*replica) { cutOff(all) },
	"one is cut off":                   func(_ *fabric, all []*replica) { cutOff(all[:1]) },
	"all but one are cut off":          func(_ *fabric, all []*replica) { cutOff(all[1:]) },
	"NATS is in two halves":            func(_ *fabric, all []*replica) { strand(all[:len(all)/2]) },
	"NATS is in two, and one is alone": func(_ *fabric, all []*replica) { strand(all[1:]) },
}

func cutOff(some []*replica) {
	for _, r := range some {
		r.net.cut = true
	}
}

// strand leaves replicas connected to a NATS that the others can't reach, and that has no tables.
func strand(some []*replica) {
	for _, r := range some {
		r.net.island = 1
	}
}

func (w *world) part(how func(*fabric, []*replica)) {
	w.fabric.with(func() { how(w.fabric, w.replicas) })
}

func (w *world) join() {
	w.fabric.with(func() {
		w.fabric.down = false
		for _, r := range w.replicas {
			r.net.cut, r.net.island = r.closed, 0
		}
	})
}

// overload watches more generations than the rate allows to read, some of them at every replica.
func (w *world) overload(ids []string) (all []*watching) {
	w.up.thin = true // each is read by itself
	for i, r := range w.replicas {
		own := slices.Clone(ids[i*len(ids)/len(w.replicas) : (i+1)*len(ids)/len(w.replicas)])
		if i > 0 {
			own = append(own, ids[0])
		}
		all = append(all, r.watch(watch.Terminal, own...))
	}
	return all
}

// measure passes time, and sees that the catalog was asked as often as one replica may, give or take
// a twentieth; in no minute more than that and what is on its way when the roles change.
func (w *world) measure(what string, d time.Duration) {
	w.t.Helper()
	began := time.Now()
	most := 0
	for time.Since(began) < d {
		minute := time.Now()
		advance(time.Minute)
		most = max(most, w.up.since(minute, nil))
	}
	n, allowed := w.up.since(began, nil), 5*d.Seconds()
	w.t.Logf("%s: %d requests in %v, %.3f of the budget; at most %d in a minute", what, n, d, float64(n)/allowed, most)
	if share := float64(n) / allowed; share > 1.05 || share < 0.5 {
		w.t.Errorf("%s: %d requests in %v, want at most %.0f and half of it", what, n, d, 1.05*allowed)
	}
	if most > 5*60*105/100+30 {
		w.t.Errorf("%s: %d requests in a minute", what, most)
	}
}

func TestPartitionedReplicasKeepToOneBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("it is of scale and races nothing that any network does not: make test runs it without the race detector")
	}
	sizes := []int{3}
	if *everySize {
		sizes = []int{2, 3, 4, 8}
	}
	for _, n := range sizes {
		for how, cut := range partitions {
			t.Run(fmt.Sprintf("%d replicas, %s", n, how), func(t *testing.T) {
				states, ids := many(160, queued)
				inWorld(t, n, states, func(w *world) {
					w.fabric.with(func() { w.fabric.loss, w.fabric.twice, w.fabric.delay = 0.1, 0.1, 500*time.Millisecond })
					all := w.overload(ids)
					advance(2 * time.Minute)
					w.part(cut)
					w.measure("apart", 30*time.Minute)
					w.join()
					w.measure("together", 5*time.Minute)
					w.up.set(succeeded, ids...)
					advance(10 * time.Minute)
					for _, s := range all {
						if !s.ended {
							t.Error("a watch did not end")
						}
						s.check(t)
					}
				})
			})
		}
	}
}

func TestWatchesThatBeginAnewWhileNATSIsAwayKeepToTheBudget(t *testing.T) {
	states, ids := many(160, queued)
	inWorld(t, 4, states, func(w *world) {
		all := w.overload(ids)
		advance(2 * time.Minute)
		w.fabric.with(func() { w.fabric.down = true })
		began := time.Now()
		for range 10 { // no watch is left, until all that a replica knows of the credential is forgotten
			for _, s := range all {
				s.cancel()
			}
			advance(time.Minute)
			all = w.overload(ids)
			advance(2 * time.Minute)
		}
		d := time.Since(began)
		if n := w.up.since(began, nil); float64(n) > 1.05*5*d.Seconds() || n < 5*60*10 {
			t.Errorf("%d requests in %v", n, d)
		}
	})
}

func TestARotatedAPIKeyIsSharedWithoutNATS(t *testing.T) {
	var key atomic.Pointer[catalog.Secret]
	rotate := func(text string) { secret := catalog.NewSecret(text); key.Store(&secret) }
	rotate("first")
	states, ids := many(160, queued)
	inWorld(t, 4, states, func(w *world) {
		w.up.thin = true
		for i, r := range w.replicas {
			r.watchAs(catalog.Held(func() catalog.Secret { return *key.Load() }), watch.Terminal, ids[i*40:(i+1)*40]...)
		}
		advance(2 * time.Minute)
		w.fabric.with(func() { w.fabric.down = true })
		advance(time.Minute)
		rotate("second")
		w.measure("after a rotation without NATS", 10*time.Minute)
	})
}

func TestAReplicaStartedForACrashedOneTakesItsPlace(t *testing.T) {
	if testing.Short() {
		t.Skip("it is of scale and races nothing: make test runs it without the race detector")
	}
	states, ids := many(160, queued)
	inWorld(t, 3, states, func(w *world) {
		w.overload(ids)
		advance(2 * time.Minute)
		for range 12 { // whoever leads
			leader, _ := w.theLeader()
			leader.kill()
			advance(10 * time.Second)
			w.start().watch(watch.Terminal, ids...)
			advance(20 * time.Second)
		}
		w.measure("after twelve crashes", 3*time.Minute)
		before := time.Now()
		advance(time.Minute)
		if n := w.up.since(before, nil); n < 5*60*9/10 {
			t.Errorf("%d requests in a minute: those that crashed still have a share", n)
		}
	})
}

func TestAReplicaGoneForAnHourHasNoShareAnyMore(t *testing.T) {
	if testing.Short() {
		t.Skip("it is of scale and races nothing: make test runs it without the race detector")
	}
	states, ids := many(160, queued)
	inWorld(t, 2, states, func(w *world) {
		w.overload(ids)
		advance(2 * time.Minute)
		leader, others := w.theLeader()
		leader.kill()
		minute := func() int {
			before := time.Now()
			advance(time.Minute)
			return w.up.since(before, others[0])
		}
		advance(30 * time.Minute)
		if n := minute(); n > 5*60*55/100 || n < 5*60*45/100 {
			t.Errorf("%d requests in a minute, want half of the rate: the other may be polling alone", n)
		}
		advance(30 * time.Minute)
		if n := minute(); n < 5*60*9/10 {
			t.Errorf("%d requests in a minute, an hour after the other was last heard", n)
		}
	})
}

func TestAReplicaThatSaysFarewellHasNoShareAtOnce(t *testing.T) {
	states, ids := many(160, queued)
	inWorld(t, 4, states, func(w *world) {
		w.overload(ids)
		advance(2 * time.Minute)
		for _, r := range w.replicas[:3] {
			r.close()
			advance(time.Second)
		}
		advance(10 * time.Second)
		w.replicas[3].watch(watch.Terminal, ids...)
		w.measure("of the last", 3*time.Minute)
		if n := len(w.replicas[3].cluster.history.sizes); n != 0 {
			t.Errorf("%d credentials remembered of one that shares none", n)
		}
	})
}

func TestALateMessageAfterAFarewellBringsNobodyBack(t *testing.T) {
	c, now := membership{}, time.Now()
	c.accept(message{From: "a", Seq: 1}, "all", now)
	c.accept(message{From: "a", Seq: 4}, "all", now)
	c.depart(message{From: "a", Seq: 4})
	for seq, subject := range map[uint64]string{2: "leader", 3: "all"} {
		if m := (message{From: "a", Seq: seq}); c.accept(m, subject, now) || !c.beforeFarewell(m) {
			t.Errorf("message %d counts", seq)
		}
	}
	if got := c.size(now); got.Live != 1 || got.Suspected != 0 {
		t.Errorf("counts %+v", got)
	}
	if !c.accept(message{From: "a", Seq: 5}, "all", now) || c.size(now).Live != 2 { // it only gave the lease back
		t.Error("it goes on, and does not count")
	}
	c.depart(message{From: "a", Seq: 5})
	if c.size(now.Add(silence)); len(c) != 1 {
		t.Error("who has left is forgotten while what it said proves to be of now")
	}
	if c.size(now.Add(departedTime)); len(c) != 0 {
		t.Error("who has left is remembered for ever")
	}
}

func TestTheSizeOfAGroupIsForgottenAfterAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &history{}
		p.remember("a", 3, time.Now())
		p.remember("b", 2, time.Now())
		p.remember("b", 1, time.Now())
		for name, want := range map[string]int{"a": 3, "b": 0, "c": 0} {
			if got := p.size(name, time.Now()); got != want {
				t.Errorf("%s: %d, want %d", name, got, want)
			}
		}
		time.Sleep(suspectTime)
		if got := p.size("a", time.Now()); got != 0 {
			t.Errorf("%d after %v", got, suspectTime)
		}
		p.remember("d", 2, time.Now())
		if len(p.sizes) != 1 {
			t.Errorf("%d are kept", len(p.sizes))
		}
	})
}

func TestInventedMembersTakeBoundedMemory(t *testing.T) {
	c, now := membership{}, time.Now()
	for i := range 10 * maxMembers {
		c.accept(message{From: fmt.Sprint(i), Seq: 1}, "all", now)
	}
	if got := c.size(now); got.Live != maxMembers+1 || len(c) != maxMembers {
		t.Errorf("%d live, %d kept", got.Live, len(c))
	}
}
