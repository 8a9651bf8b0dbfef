package watch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// records is an in-memory ledger that a test can make unavailable.
type records struct {
	mu     sync.Mutex
	off    func(context.Context) // nil if the ledger is available; otherwise, each attempt to record states calls it and fails
	states []string
	tries  int
	before func(catalog.Credential, Sighting) // called before each state is recorded, while mu is not locked
}

// Record implements Recorder.
func (r *records) Record(ctx context.Context, cred catalog.Credential, seen []Sighting) map[string]bool {
	r.mu.Lock()
	r.tries++
	off := r.off
	r.mu.Unlock()
	if off != nil {
		off(ctx)
		return nil
	}
	for _, s := range seen {
		if r.before != nil {
			r.before(cred, s)
		}
		r.mu.Lock()
		r.states = append(r.states, fmt.Sprint(s.ID, " ", s.State, map[bool]string{true: " by a 404"}[s.NotFound]))
		r.mu.Unlock()
	}
	return noRecorder{}.Record(ctx, cred, seen)
}

// setOff sets r.off. If off is nil, the ledger is available. Otherwise, each attempt to record states calls off and
// then fails.
func (r *records) setOff(off func(context.Context)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.off = off
}

// all returns the recorded states.
func (r *records) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.states)
}

// attempts returns the number of calls of Record.
func (r *records) attempts() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tries
}

// inRecords runs a test in simulated time. The test's hub records states in a [records] instead of a ledger.
func inRecords(t *testing.T, states map[string]catalog.State, test func(*testing.T, *Hub, *upstream, *records)) {
	synctest.Test(t, func(t *testing.T) {
		up, ledger := newUpstream(states), &records{}
		hub := newHub(t, Config{Upstream: withLimiters(up), Recorder: ledger})
		t.Cleanup(synctest.Wait)
		test(t, hub, up, ledger)
	})
}

// follow watches a generation until the test ends. It calls deliver with each state.
func (h *Hub) follow(t *testing.T, id string, deliver func(catalog.State)) {
	go func() {
		_ = h.Watch(t.Context(), &Request{Credential: testCred, IDs: []string{id}, Goal: Settled}, func(e Event) error {
			if e.Update != nil {
				deliver(e.Update.State)
			}
			return nil
		})
	}()
}

func TestEachNewStateIsRecordedWithNoLockHeld(t *testing.T) {
	inRecords(t, map[string]catalog.State{"a": catalog.StateQueued}, func(t *testing.T, hub *Hub, up *upstream, ledger *records) {
		ledger.before = func(cred catalog.Credential, s Sighting) { hub.Peek(cred, s.ID) } // would deadlock if the hub held a lock now
		ctx := t.Context()
		hub.follow(t, "a", func(catalog.State) {})
		time.Sleep(10 * time.Second)
		up.set("a", catalog.StateFailed)
		time.Sleep(20 * time.Second)
		hub.Created(ctx, testCred, catalog.Generation{ID: "b", State: catalog.StateQueued}, "m", time.Now()) // the server makes this call after every order
		hub.Created(ctx, testCred, catalog.Generation{ID: "c", State: catalog.StateFailed}, "m", time.Now())
		running := catalog.Generation{ID: "d", State: catalog.StateRunning, ObserveTime: time.Now()}
		hub.Observe(ctx, testCred, running.Version(), false) // not recorded, because the ledger already has the state
		hub.Observe(ctx, testCred, running.Version(), true)
		hub.Created(ctx, testCred, catalog.Generation{ID: "d", State: catalog.StateQueued}, "m", time.Now()) // records "d running" again, because the ledger may not have this state yet
		hub.Deleted(ctx, testCred, "d")
		_ = hub.Watch(t.Context(), &Request{Credential: testCred, IDs: []string{"nobody knows"}}, ignoreEvent) // nothing is recorded for this generation, because a single 404 proves nothing
		if want := []string{"a queued", "a failed", "c failed", "d running", "d running", "d deleted"}; !slices.Equal(ledger.all(), want) {
			t.Errorf("the recorded states are %q", ledger.all())
		}
	})
}

func TestAStateIsRecordedBeforeItIsDelivered(t *testing.T) {
	inRecords(t, map[string]catalog.State{"a": catalog.StateSucceeded}, func(t *testing.T, hub *Hub, up *upstream, ledger *records) {
		var delivered atomic.Int64
		ledger.before = func(catalog.Credential, Sighting) { time.Sleep(recordTimeout / 2) }
		hub.follow(t, "a", func(catalog.State) {
			if delivered.Add(1); len(ledger.all()) == 0 {
				t.Error("a state was delivered before it was recorded")
			}
		})
		time.Sleep(10 * time.Second)
		if n := delivered.Load(); n != 1 {
			t.Errorf("%d states were delivered, want 1", n)
		}
	})
}

func TestUnavailableLedgerDoesNotBlockWatches(t *testing.T) {
	for name, off := range map[string]func(context.Context){
		"ledger fails":            func(context.Context) {},
		"ledger does not respond": func(ctx context.Context) { <-ctx.Done() },
	} {
		t.Run(name, func(t *testing.T) {
			inRecords(t, map[string]catalog.State{"a": catalog.StateRunning}, func(t *testing.T, hub *Hub, up *upstream, ledger *records) {
				got := make(chan catalog.State, 10)
				hub.follow(t, "a", func(s catalog.State) { got <- s })
				<-got
				ledger.setOff(off)
				up.set("a", catalog.StateFailed)
				began := time.Now()
				if s := <-got; s != catalog.StateFailed || time.Since(began) > hub.cfg.MaxInterval+2*recordTimeout {
					t.Errorf("the watch got %v after %v", s, time.Since(began))
				}
				hub.Observe(t.Context(), testCred, catalog.Generation{ID: "a", State: catalog.StateRefunded, ObserveTime: time.Now()}.Version(), true)
				hub.Observe(t.Context(), testCred, catalog.Generation{ID: "b", State: catalog.StateSucceeded, ObserveTime: time.Now()}.Version(), true) // this generation has no watch
				hub.Deleted(t.Context(), testCred, "b")
				before := ledger.attempts()
				time.Sleep(10 * time.Minute)
				if n := ledger.attempts() - before; n < 10 || n > 2*10*60/int(maxRecordRetry.Seconds())+30 {
					t.Errorf("%d attempts to record in ten minutes, want 10 to 70", n)
				}
				ledger.setOff(nil)
				time.Sleep(2 * maxRecordRetry)
				want := []string{"a running", "a failed", "a refunded", "b succeeded", "b deleted"}
				if all := slices.Sorted(slices.Values(ledger.all())); !slices.Equal(all, slices.Sorted(slices.Values(want))) {
					t.Errorf("the recorded states are %q", all)
				}
				for _, pair := range [][2]string{{"a failed", "a refunded"}, {"b succeeded", "b deleted"}} {
					if all := ledger.all(); slices.Index(all, pair[0]) > slices.Index(all, pair[1]) {
						t.Errorf("the states were recorded in the wrong order: %q", all)
					}
				}
				time.Sleep(2 * linger)
				if n := hub.Stats().Generations; n != 0 {
					t.Errorf("%d generations are kept after they are recorded", n)
				}
			})
		})
	}
}

func TestPendingStatesAreRecordedOnClose(t *testing.T) {
	inRecords(t, map[string]catalog.State{}, func(t *testing.T, hub *Hub, up *upstream, ledger *records) {
		ledger.setOff(func(context.Context) {})
		hub.Observe(t.Context(), testCred, catalog.Generation{ID: "a", State: catalog.StateSucceeded}.Version(), true)
		ledger.setOff(nil)
		hub.Close()
		if all := ledger.all(); !slices.Equal(all, []string{"a succeeded"}) {
			t.Errorf("the recorded states are %q", all)
		}
	})
}

func TestNumberOfUnrecordedGenerationsIsLimited(t *testing.T) {
	inRecords(t, nil, func(t *testing.T, hub *Hub, up *upstream, ledger *records) {
		ledger.setOff(func(context.Context) {})
		for n := range maxUnrecorded + 10 {
			hub.Observe(t.Context(), testCred, catalog.Generation{ID: fmt.Sprint(n), State: catalog.StateSucceeded}.Version(), true)
		}
		time.Sleep(2 * linger)
		if n := hub.Stats().Generations; n != maxUnrecorded {
			t.Errorf("%d generations are kept", n)
		}
	})
}

func TestUnrecordedFinalStatesAreNotOverwritten(t *testing.T) {
	version := func(s catalog.State, cents *int64) Sighting {
		return Sighting{Version: catalog.Generation{ID: "g", State: s, CostCents: cents}.Version()}
	}
	r, cents := &recording{}, int64(7)
	for _, s := range []Sighting{
		version(catalog.StateQueued, nil), version(catalog.StateRunning, &cents), version(catalog.StateFailed, nil), version(catalog.StateFailed, nil),
		version(catalog.StateRefunded, nil), version(catalog.StateDeleted, nil), version(catalog.StateRefunded, nil), version(catalog.StateDeleted, nil),
	} {
		r.addState(s)
	}
	var states []catalog.State
	for _, s := range r.unrecorded {
		states = append(states, s.State)
	}
	if want := []catalog.State{catalog.StateFailed, catalog.StateRefunded, catalog.StateDeleted}; !slices.Equal(states, want) {
		t.Fatalf("the unrecorded states are %v", states)
	}
	if cost := r.unrecorded[0].CostCents; cost == nil || *cost != cents {
		t.Errorf("the charge is %v", cost)
	}
}
