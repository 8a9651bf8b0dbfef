package watch

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// blocked is a watcher whose deliver function blocks until the channel free is closed.
type blocked struct {
	free  chan struct{}
	calls atomic.Int32
}

func (b *blocked) deliver(Event) error {
	b.calls.Add(1)
	<-b.free
	return nil
}

// withDispatcher runs a test in virtual time with a hub, one generation and a single dispatcher. The test calls
// startWatch to start a watch of the generation. startWatch returns a channel that receives the watch's error when
// the watch ends.
func withDispatcher(t *testing.T, test func(t *testing.T, hub *Hub, up *upstream, startWatch func(req Request, deliver func(Event) error) chan error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		up := newUpstream(map[string]catalog.State{"a": queued})
		hub := newHub(t, Config{Upstream: withLimiters(up)})
		t.Cleanup(synctest.Wait)
		hub.dispatchers = hub.dispatchers[:1] // all watches share one dispatcher
		test(t, hub, up, func(req Request, deliver func(Event) error) chan error {
			ended := make(chan error, 1)
			req.Credential, req.IDs = testCred, []string{"a"}
			go func() { ended <- hub.Watch(t.Context(), &req, deliver) }()
			return ended
		})
	})
}

func TestStalledDeliveryEndsWatch(t *testing.T) {
	withDispatcher(t, func(t *testing.T, hub *Hub, up *upstream, watch func(Request, func(Event) error) chan error) {
		stuck, began := &blocked{free: make(chan struct{})}, time.Now()
		err := <-watch(Request{Stall: 30 * time.Second}, stuck.deliver)
		if took := time.Since(began); !errors.Is(err, ErrStalled) || took < 30*time.Second || took > 30*time.Second+2*handoff {
			t.Errorf("after %v the watch ended with %v", took, err)
		}
		if n := hub.Stats().Watches; n != 0 {
			t.Errorf("%d watches are left", n)
		}
		close(stuck.free)
	})
}

func TestSlowDeliveryDoesNotEndWatch(t *testing.T) {
	withDispatcher(t, func(t *testing.T, hub *Hub, up *upstream, watch func(Request, func(Event) error) chan error) {
		var last catalog.State
		ended := watch(Request{Stall: 30 * time.Second}, func(event Event) error {
			time.Sleep(29 * time.Second)
			if event.Update != nil {
				last = event.Update.State
			}
			return nil
		})
		time.Sleep(time.Minute)
		up.set("a", catalog.StateSucceeded)
		if err := <-ended; err != nil || last != catalog.StateSucceeded {
			t.Errorf("the watch ends with %v after the state %v", err, last)
		}
	})
}

func TestCanceledWatchWaitsForItsRunningDelivery(t *testing.T) {
	withDispatcher(t, func(t *testing.T, hub *Hub, up *upstream, _ func(Request, func(Event) error) chan error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		inside := false
		time.AfterFunc(time.Second, cancel)
		err := hub.Watch(ctx, &Request{Credential: testCred, IDs: []string{"a"}}, func(Event) error {
			inside = true
			time.Sleep(3 * time.Second)
			inside = false
			return nil
		})
		if !errors.Is(err, context.Canceled) || inside {
			t.Errorf("the watch ended with %v; the delivery function is still running: %v", err, inside)
		}
	})
}

func TestAllWatchersGetTheFinalStateBeforeAnyWatchEnds(t *testing.T) {
	withDispatcher(t, func(t *testing.T, hub *Hub, up *upstream, watch func(Request, func(Event) error) chan error) {
		const watches = 200
		var delivered, left atomic.Int32
		for range watches {
			ended := watch(Request{}, func(event Event) error {
				if u := event.Update; u != nil && u.State == catalog.StateSucceeded {
					if delivered.Add(1); left.Load() > 0 {
						t.Errorf("%d watches had already ended at delivery %d", left.Load(), delivered.Load())
					}
				}
				return nil
			})
			go func() { <-ended; left.Add(1) }()
		}
		synctest.Wait()
		hub.Observe(t.Context(), testCred, up.record("a", succeeded).Version(), true)
		synctest.Wait()
		if delivered.Load() != watches || left.Load() != watches {
			t.Errorf("%d of %d watches received the event, and %d have ended", delivered.Load(), watches, left.Load())
		}
	})
}

func TestStallAfterSlowDeliveryEndsWatch(t *testing.T) {
	withDispatcher(t, func(t *testing.T, hub *Hub, up *upstream, _ func(Request, func(Event) error) chan error) {
		up.set("b", catalog.StateQueued)
		var calls atomic.Int32
		free, began := make(chan struct{}), time.Now()
		err := hub.Watch(t.Context(), &Request{Credential: testCred, IDs: []string{"a", "b"}, Stall: 30 * time.Second}, func(Event) error {
			if calls.Add(1) == 1 {
				time.Sleep(handoff + time.Millisecond)
				return nil
			}
			<-free
			return nil
		})
		if took := time.Since(began); !errors.Is(err, ErrStalled) || took > 31*time.Second || calls.Load() != 2 {
			t.Errorf("after %v and %d deliveries the watch ended with %v", took, calls.Load(), err)
		}
		close(free)
	})
}

func TestReplacingAnIdleWorkerStartsNoStallTimer(t *testing.T) {
	d := &dispatcher{}
	one := &delivery{dispatcher: d, watcher: &watcher{stall: time.Second}}
	w := &worker{serving: one} // no delivery is running, because the worker is between two deliveries
	d.worker, w.timer = w, time.NewTimer(time.Hour)
	d.inspectWorker(w)
	if d.worker != nil || one.stallTimer != nil {
		t.Errorf("worker replaced: %v; watch has a stall timer: %v", d.worker == nil, one.stallTimer != nil)
	}
}

func TestBlockedWatchersDelayOtherWatchersOnlyBriefly(t *testing.T) {
	withDispatcher(t, func(t *testing.T, hub *Hub, up *upstream, watch func(Request, func(Event) error) chan error) {
		stuck := &blocked{free: make(chan struct{})}
		for range 200 {
			watch(Request{Stall: time.Minute}, stuck.deliver)
		}
		began, delivered := time.Now(), time.Time{}
		watch(Request{}, func(event Event) error {
			if event.Update != nil {
				delivered = time.Now()
			}
			return nil
		})
		time.Sleep(time.Second)
		synctest.Wait()
		if took := delivered.Sub(began); delivered.IsZero() || took > 50*time.Millisecond || stuck.calls.Load() != 200 {
			t.Errorf("the event was delivered after %v while %d readers were blocked", took, stuck.calls.Load())
		}
		close(stuck.free)
	})
}
