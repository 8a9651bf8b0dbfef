package watch

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

func TestWatchEndsAtItsMaximumAge(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": queued}, func(b *bench) {
		young := b.watch("a")
		old := b.watchWith(b.ctx, Request{IDs: []string{"a"}, Until: time.Now().Add(time.Hour)})
		all := b.watchWith(b.ctx, Request{Until: time.Now().Add(time.Hour), Heartbeat: 2 * time.Hour})
		passTime(time.Hour - time.Nanosecond)
		for _, s := range []*seen{old, all} {
			if ended, err := s.done(); ended {
				t.Errorf("the watch ends before its maximum age: %v", err)
			}
		}
		passTime(time.Nanosecond)
		b.wantEnd(old, ErrExpired)
		b.wantEnd(all, ErrExpired)
		if ended, _ := young.done(); ended {
			t.Error("the watch without a maximum age ended")
		}
	})
}

func TestDrainDeliversPendingChangesBeforeEndingWatches(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": queued, "b": queued}, func(b *bench) {
		one, many, all := b.watch("a"), b.watch("a", "b"), b.watch()
		passTime(10 * time.Second)
		b.hub.Observe(b.ctx, testCred, catalog.Generation{ID: "a", State: running, ObserveTime: time.Now()}.Version(), true)
		b.hub.Drain()
		synctest.Wait()
		for _, s := range []*seen{one, many, all} {
			b.wantEnd(s, ErrDraining)
			if states := s.states(); states[len(states)-1] != "running" {
				t.Errorf("the watch got %v", states)
			}
		}
		late := b.watch("a")
		synctest.Wait()
		b.wantEnd(late, ErrDraining)
		if n := b.hub.Stats().Watches; n != 0 {
			t.Errorf("%d watches are left", n)
		}
	})
}

func TestDrainEndsWatchWithoutGenerations(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		all := b.watch()
		passTime(10 * time.Second)
		b.hub.Drain()
		synctest.Wait()
		b.wantEnd(all, ErrDraining)
	})
}

func TestLongHeartbeatIntervalDoesNotDelayEndOfWatch(t *testing.T) {
	states, ids := generations(7)
	inBubble(t, states, func(b *bench) {
		beats := func(id string, each time.Duration) *seen {
			return b.watchWith(b.ctx, Request{IDs: []string{id}, Goal: Settled, Heartbeat: each})
		}
		for i := range 6 {
			beats(ids[i], 40*time.Minute+time.Duration(i)*time.Minute)
		}
		passTime(time.Minute) // starts the next watch later, so that its heartbeat is due after all others
		fails := beats(ids[6], time.Hour)
		passTime(time.Minute)
		b.up.set(ids[6], failed)
		passTime(11 * time.Minute) // longer than the refund window, which is ten minutes
		b.wantStates(fails, "queued", "failed")
		b.wantEnd(fails, nil)
	})
}

func TestHeartbeatsOfManyWatchesArriveOnTime(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": queued}, func(b *bench) {
		all := map[*seen]time.Duration{}
		begin := func(beat time.Duration) {
			all[b.watchWith(b.ctx, Request{IDs: []string{"a"}, Heartbeat: beat})] = beat
		}
		for range 1000 {
			begin(10 * time.Second)
		}
		for beat := time.Second; beat <= 50*time.Second; beat += 700 * time.Millisecond {
			begin(beat)
		}
		passTime(time.Minute)
		for s, beat := range all {
			if n := len(s.copyEvents().heartbeats); n != int(time.Minute/beat) {
				t.Errorf("a watch with the interval %v got %d heartbeats in a minute", beat, n)
			}
		}
	})
}

// errEnough is an error that deliver returns to end a watch.
var errEnough = errors.New("enough")

func TestConstantChangesDoNotDelayTheEndOfASlowWatch(t *testing.T) {
	for name, want := range map[string]error{"maximum age": ErrExpired, "drain": ErrDraining} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, map[string]catalog.State{"a": queued, "b": queued}, func(b *bench) {
				began, n := time.Now(), 0
				req := Request{Credential: testCred, IDs: []string{"a", "b"}}
				if want == ErrExpired {
					req.Until = began.Add(10 * time.Second)
				}
				end := b.hub.Watch(b.ctx, &req, func(Event) error {
					n++
					time.Sleep(time.Second)
					for _, id := range []string{"a", "b"} {
						b.hub.Observe(b.ctx, testCred, catalog.Generation{ID: id, State: queued, FailureMessage: fmt.Sprint(n), ObserveTime: time.Now()}.Version(), true)
					}
					if n == 10 && want == ErrDraining {
						b.hub.Drain()
					}
					if n == 100 {
						return errEnough
					}
					return nil
				})
				if !errors.Is(end, want) || time.Since(began) > 15*time.Second {
					t.Errorf("the watch got %d events in %v and ended with %v", n, time.Since(began), end)
				}
			})
		})
	}
}
