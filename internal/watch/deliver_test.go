package watch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

func TestWatcherPanicDoesNotAffectOtherWatchers(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": queued}, func(b *bench) {
		other := b.watch("a")
		caught := make(chan any, 1)
		go func() {
			defer func() { caught <- recover() }()
			_ = b.hub.Watch(b.ctx, &Request{Credential: testCred, IDs: []string{"a"}}, func(Event) error {
				panic("the watcher panics")
			})
		}()
		passTime(time.Second)
		if text := fmt.Sprint(<-caught); !strings.Contains(text, "the watcher panics") {
			b.t.Errorf("the panic has the value %s", text)
		}
		b.up.set("a", succeeded)
		passTime(10 * time.Second)
		b.wantStates(other, "queued", "succeeded")
		if n := b.hub.Stats().Watches; n != 0 {
			b.t.Errorf("%d watches are left", n)
		}
	})
}

func TestNoEventIsDeliveredAfterWatchEnds(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			hub := newHub(t, Config{Upstream: withLimiters(newUpstream(map[string]catalog.State{"a": queued}))})
			ctx, cancel := context.WithCancel(t.Context())
			for range 100 {
				go func() {
					delivered := 0 // needs no lock: deliveries are not concurrent, and a watch that has ended delivers nothing
					_ = hub.Watch(ctx, &Request{Credential: testCred, IDs: []string{"a"}}, func(Event) error {
						if delivered++; delivered < 0 {
							t.Error("an event was delivered after the watch ended")
						}
						return nil
					})
					delivered = -1000
				}()
			}
			passTime(time.Second)
			hub.Observe(ctx, testCred, catalog.Generation{ID: "a", State: running, ObserveTime: time.Now()}.Version(), true)
			cancel() // at this point, some watches have not received anything yet
			synctest.Wait()
		})
	}
}

func TestVeryShortHeartbeatIntervalDoesNotBreakWatch(t *testing.T) { // with an interval of 1 ns, a heartbeat is due before the first state
	hub := newHub(t, Config{Upstream: withLimiters(newUpstream(map[string]catalog.State{"a": queued}))})
	for range 2000 {
		delivered := 0
		err := hub.Watch(t.Context(), &Request{Credential: testCred, IDs: []string{"a"}, Heartbeat: 1}, func(Event) error {
			delivered++
			return errEnough
		})
		if delivered != 1 || !errors.Is(err, errEnough) {
			t.Fatalf("the watch delivers %d events and ends with %v", delivered, err)
		}
	}
}
