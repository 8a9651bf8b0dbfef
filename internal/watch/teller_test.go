package watch_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

func always() bool { return true }

func TestAWatchThatMightWaitGoesOnByItselfAndMissesNothing(t *testing.T) {
	for quickly := range 5 {
		t.Run(fmt.Sprintf("after %d events", quickly), func(t *testing.T) {
			left := quickly
			bubble(t, map[string]catalog.State{"a": queued}, func() bool { left--; return left >= 0 }, func(b *bench) {
				s := b.watchWith(b.ctx, watch.Request{IDs: []string{"a"}, Goal: watch.Settled, Heartbeat: time.Minute})
				for _, state := range []catalog.State{running, failed, refunded} {
					pass(20 * time.Second)
					b.up.set("a", state)
				}
				pass(20 * time.Second)
				b.wantStates(s, "queued", "running", "failed", "refunded")
				b.wantEnd(s, nil)
			})
		})
	}
}

func TestEverybodyIsToldOfAnEndBeforeAnybodyLeaves(t *testing.T) {
	const watchers = 200
	bubble(t, map[string]catalog.State{"a": running}, nil, func(b *bench) {
		var told, gone atomic.Int64
		for range watchers {
			go func() {
				for event := range b.hub.Watch(b.ctx, watch.Request{Credential: tenant, IDs: []string{"a"}, Quick: always}) {
					if event.Update != nil && event.Update.Generation.State.Terminal() {
						told.Add(1)
					}
				}
				if n := told.Load(); gone.Add(1) == 1 && n != watchers {
					b.t.Errorf("the first leaves when %d of %d are told", n, watchers)
				}
			}()
		}
		pass(time.Second)
		b.up.set("a", succeeded)
		pass(10 * time.Second)
		if gone.Load() != watchers {
			b.t.Errorf("%d of %d have left", gone.Load(), watchers)
		}
	})
}

func TestAPanicOfAWatcherIsItsOwn(t *testing.T) {
	bubble(t, map[string]catalog.State{"a": queued}, always, func(b *bench) {
		other := b.watch("a")
		caught := make(chan any, 1)
		go func() {
			defer func() { caught <- recover() }()
			for range b.hub.Watch(b.ctx, watch.Request{Credential: tenant, IDs: []string{"a"}, Quick: always}) {
				panic("a fault of the watcher")
			}
		}()
		pass(time.Second)
		if text := fmt.Sprint(<-caught); !strings.Contains(text, "a fault of the watcher") || !strings.Contains(text, "TestAPanicOfAWatcherIsItsOwn") {
			b.t.Errorf("the panic says %s", text)
		}
		b.up.set("a", succeeded)
		pass(10 * time.Second)
		b.wantStates(other, "queued", "succeeded")
		if n := b.hub.Stats().Watches; n != 0 {
			b.t.Errorf("%d watches are left", n)
		}
	})
}

func TestWhoHasLeftIsToldNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newUpstream(map[string]catalog.State{"a": queued})
		hub, err := watch.New(watch.Config{Upstream: up, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer hub.Close()
		const watchers = 100
		var out [watchers]atomic.Bool
		ctx, cancel := context.WithCancel(t.Context())
		for i := range watchers {
			go func() {
				for event, err := range hub.Watch(ctx, watch.Request{Credential: tenant, IDs: []string{"a"}, Heartbeat: time.Second, Quick: always}) {
					if out[i].Load() || err != nil && event != (watch.Event{}) {
						t.Errorf("watcher %d is told %v, %v after it has left", i, event, err)
					}
					if err != nil {
						out[i].Store(true)
					}
				}
				out[i].Store(true)
			}()
		}
		pass(10 * time.Second) // the next heartbeats and the end come at one moment
		cancel()
		pass(time.Minute)
		for i := range out {
			if !out[i].Load() {
				t.Errorf("watcher %d has not left", i)
			}
		}
	})
}

func TestWhoLeavesAsAChangeComesIsNotTouchedAnyMore(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			hub, err := watch.New(watch.Config{Upstream: newUpstream(map[string]catalog.State{"a": queued}), Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer hub.Close()
			ctx, cancel := context.WithCancel(t.Context())
			for range 100 {
				go func() {
					told := 0 // with no lock: who has ended is alone with it
					w := hub.Begin(ctx, watch.Request{Credential: tenant, IDs: []string{"a"}, Quick: always}, func(watch.Event, error) bool {
						if told++; told < 0 {
							t.Error("told after its end")
						}
						return true
					})
					w.Wait()
					w.End()
					told = -1000
				}()
			}
			pass(time.Second)
			hub.Observe(ctx, tenant, catalog.Generation{ID: "a", State: running, ObserveTime: time.Now()})
			cancel() // at once: some stand in the queue still
			synctest.Wait()
		})
	}
}

func TestAHeartbeatMayBeDueWhenAWatchBegins(t *testing.T) { // as where the process was held up there
	hub, err := watch.New(watch.Config{Upstream: newUpstream(map[string]catalog.State{"a": queued}), Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer hub.Close()
	for range 2000 {
		told := 0
		for range hub.Watch(t.Context(), watch.Request{Credential: tenant, IDs: []string{"a"}, Heartbeat: 1, Quick: always}) {
			told++
			break
		}
		if told != 1 {
			t.Fatalf("it is told %d times", told)
		}
	}
}
