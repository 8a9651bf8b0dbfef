package cluster

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

func TestMessagesOfAnOldLeaderAreNotApplied(t *testing.T) {
	states, ids := many(10, queued)
	inWorld(t, 3, states, func(w *world) {
		for _, r := range w.replicas {
			r.watch(watch.Terminal, ids...)
		}
		advance(10 * time.Second)
		w.up.set(running, ids[:5]...)
		advance(20 * time.Second)
		leader, others := w.theLeader()
		leader.kill()
		advance(2 * leaseTTL)
		if next, _ := w.theLeader(); next == leader {
			t.Fatal("nobody took over")
		}
		delivered := others[0].hub.Stats().Applied + others[1].hub.Stats().Applied
		dropped := func() (n int64) {
			for _, r := range others {
				n += r.cluster.Stats().Fenced + r.cluster.Stats().Refused
			}
			return n
		}
		before := dropped()
		w.fabric.with(func() {
			for _, k := range w.fabric.recorded {
				w.fabric.deliver(leader.net, k.subject, k.data)
			}
		})
		advance(time.Second / 10)
		if now := others[0].hub.Stats().Applied + others[1].hub.Stats().Applied; now != delivered {
			t.Errorf("%d old states were applied", now-delivered)
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

func TestAForgedEndReachesNobodyAndCostsOneRead(t *testing.T) {
	inWorld(t, 3, map[string]catalog.State{"a": queued}, func(w *world) {
		var all []*watching
		for _, r := range w.replicas {
			all = append(all, r.watch(watch.Terminal, "a"))
		}
		advance(10 * time.Second)
		_, others := w.theLeader()
		end := packState(watch.State{Generation: record("a", succeeded), Etag: "x"}, time.Now())
		before := time.Now()
		for seq := range 100 {
			m := message{From: "mallory", Seq: uint64(seq + 1), Fence: fence{Epoch: 1 << 62}, Leads: true, States: []json.RawMessage{end}}
			subject, data := forge(t, tenant.APIKey(), m)
			w.fabric.with(func() { w.fabric.deliver(nil, subject, data) })
		}
		advance(time.Second)
		for _, r := range others {
			if n, stats := w.up.since(before, r), r.hub.Stats(); n != 1 || stats.Refuted != 1 {
				t.Errorf("%d reads, and %d ends refuted", n, stats.Refuted)
			}
		}
		advance(time.Minute)
		for _, s := range all {
			if got := s.states("a"); len(got) != 1 {
				t.Errorf("delivered %v", got)
			}
		}
		w.up.set(succeeded, "a")
		advance(15 * time.Second)
		for _, s := range all {
			if got := s.last("a"); got != succeeded || !s.ended {
				t.Errorf("delivered %v after the forgery", got)
			}
		}
	})
}

func TestWithoutTheAPIKeyNoMessageIsAccepted(t *testing.T) {
	inWorld(t, 2, map[string]catalog.State{"a": queued}, func(w *world) {
		for _, r := range w.replicas {
			r.watch(watch.Terminal, "a")
		}
		advance(5 * time.Second)
		var subject string
		var sealed []byte
		w.fabric.with(func() { subject, sealed = w.fabric.recorded[0].subject, w.fabric.recorded[0].data })
		_, other := forge(t, catalog.NewSecret("another key"), message{From: "eve", Seq: 1, Leads: true, Fence: fence{Epoch: 1 << 62}})
		broken := append([]byte{}, sealed...)
		broken[len(broken)-1] ^= 1
		w.fabric.with(func() {
			for _, data := range [][]byte{other, broken, nil, []byte("x")} {
				w.fabric.deliver(nil, subject, data)
			}
			w.fabric.deliver(nil, subject[:len(subject)-3]+"leader", sealed) // from another subject
		})
		advance(time.Second / 10)
		var refused int64
		for _, r := range w.replicas {
			refused += r.cluster.Stats().Refused
		}
		if refused != 9 {
			t.Errorf("%d messages refused, want 4 by each and one by the leader", refused)
		}
	})
}

func TestAMessageThatComesTwiceIsAppliedOnce(t *testing.T) {
	inWorld(t, 2, map[string]catalog.State{"a": queued}, func(w *world) {
		for _, r := range w.replicas {
			r.watch(watch.Terminal, "a")
		}
		advance(10 * time.Second)
		leader, others := w.theLeader()
		before := others[0].cluster.Stats().Refused + others[0].cluster.Stats().Fenced
		n := 0
		w.fabric.with(func() {
			for _, k := range w.fabric.recorded {
				if k.from == leader.net && k.subject[len(k.subject)-3:] == "all" {
					w.fabric.deliver(leader.net, k.subject, k.data)
					n++
				}
			}
		})
		advance(time.Second / 10)
		if got := others[0].cluster.Stats(); got.Refused+got.Fenced-before < int64(n) || n < 5 {
			t.Errorf("%d of %d repeats were refused", got.Refused+got.Fenced-before, n)
		}
	})
}

func TestAttackMessagesOfReplicasThatHaveLeftTakeNoShare(t *testing.T) { // A16
	if testing.Short() {
		t.Skip("it is of scale and races nothing that any network does not: make test runs it without the race detector")
	}
	for name, gone := range map[string]time.Duration{"a moment ago": 5 * time.Second, "long ago": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			states, ids := many(160, queued)
			inWorld(t, 6, states, func(w *world) {
				w.overload(ids)
				advance(2 * time.Minute)
				left := map[*modelNet]bool{}
				for _, r := range w.replicas[:5] {
					left[r.net] = true
					r.close()
					advance(time.Second)
				}
				last := w.replicas[5]
				last.watch(watch.Terminal, ids...)
				advance(gone)
				var recorded []recordedMessage
				w.fabric.with(func() {
					for i, k := range w.fabric.recorded { // without the farewell, which is the last
						if later := w.fabric.recorded[i+1:]; left[k.from] && slices.ContainsFunc(later, func(l recordedMessage) bool { return l.from == k.from }) {
							recorded = append(recorded, k)
						}
					}
				})
				for range 20 { // all that they ever said, again and again
					w.fabric.with(func() {
						for _, k := range recorded {
							w.fabric.deliver(k.from, k.subject, k.data)
						}
					})
					advance(time.Second)
				}
				before := time.Now()
				advance(2 * time.Minute)
				if n := w.up.since(before, nil); n < 2*5*60*9/10 {
					t.Errorf("%d requests in two minutes: those that have left have a share", n)
				}
				if len(recorded) < 100 {
					t.Errorf("%d messages were sent again", len(recorded))
				}
			})
		})
	}
}
