package watch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// notebook is a tracer that records its calls. It uses strings as trace references: "poll N" for the Nth poll, and for
// any other call the name in its context.
type notebook struct {
	mu        sync.Mutex
	polls     []Poll
	outcomes  []Outcome
	delivered []string // trace references of the polls and calls that found the delivered states
}

type nameKey struct{}

func named(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, nameKey{}, name)
}

func (n *notebook) TraceRef(ctx context.Context) TraceRef { return ctx.Value(nameKey{}) }

func (n *notebook) PollBegins(ctx context.Context, p Poll) (context.Context, TraceRef, func(Outcome)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.polls = append(n.polls, p)
	return ctx, fmt.Sprint("poll ", len(n.polls)), func(out Outcome) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.outcomes = append(n.outcomes, out)
	}
}

func (n *notebook) Delivery(ctx context.Context, watching TraceRef, event Event, found TraceRef) func() {
	if event.Update == nil {
		return nil
	}
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.delivered = append(n.delivered, fmt.Sprint(ctx.Value(nameKey{}), ": ", event.Update.State, " by ", found))
	}
}

// withTracer runs a test in virtual time, and returns the tracer of the test's hub. The test's catalog has
// generations with the given states. In the test, startWatch watches generations in a new goroutine, and uses the
// given name as the trace reference.
func withTracer(t *testing.T, states map[string]catalog.State, test func(hub *Hub, up *upstream, startWatch func(name string, ids ...string))) *notebook {
	t.Helper()
	heard := &notebook{}
	synctest.Test(t, func(t *testing.T) {
		up := newUpstream(states)
		hub := newHub(t, Config{Upstream: withLimiters(up), Tracer: heard})
		t.Cleanup(synctest.Wait)
		test(hub, up, func(name string, ids ...string) {
			go func() { _ = hub.Watch(named(t.Context(), name), &Request{Credential: testCred, IDs: ids}, ignoreEvent) }()
		})
	})
	return heard
}

// ignoreEvent discards the event.
func ignoreEvent(Event) error { return nil }

func TestPollTraceLinksToOrderAndWatches(t *testing.T) {
	heard := withTracer(t, map[string]catalog.State{"a": catalog.StateQueued}, func(hub *Hub, up *upstream, watch func(string, ...string)) {
		hub.Created(named(context.Background(), "order"), testCred, up.record("a", queued), "m", time.Now())
		for i := range 30 {
			watch(fmt.Sprint("watch ", i), "a")
		}
		synctest.Wait() // waits until all watches have started; the first poll is not due yet
		time.Sleep(10 * time.Second)
		synctest.Wait()
	})
	if len(heard.polls) == 0 {
		t.Fatal("nothing was polled")
	}
	for _, p := range heard.polls {
		marks := slices.Clone(p.Open)
		slices.SortFunc(marks, func(a, b TraceRef) int { return len(a.(string)) - len(b.(string)) })
		if p.ID != "a" || p.Generations != 1 || p.Watches != 30 || len(p.Orders) != 1 || p.Orders[0] != "order" || len(slices.Compact(marks)) != maxRefs {
			t.Errorf("a poll for 30 watches is %+v", p)
		}
	}
	if len(heard.outcomes) != len(heard.polls) {
		t.Errorf("%d polls started, and %d ended", len(heard.polls), len(heard.outcomes))
	}
}

func TestListPollTraceLinksToEachWatchOnce(t *testing.T) {
	states, ids := generations(8)
	heard := withTracer(t, states, func(_ *Hub, _ *upstream, watch func(string, ...string)) {
		watch("of one", ids[3]) // a watch of a single generation needs no request for the list
		synctest.Wait()
		watch("of many", ids...)
		time.Sleep(10 * time.Second)
		synctest.Wait()
	})
	sweeps := 0
	for _, p := range heard.polls {
		if p.ID != "" {
			continue
		}
		sweeps++
		if p.Generations != 8 || p.Watches != 9 || len(p.Open) != 2 || p.Open[0] == p.Open[1] {
			t.Errorf("a list request is %+v, want 8 generations, 9 watches and 2 traces", p)
		}
	}
	if sweeps == 0 {
		t.Error("no list request was sent")
	}
}

func TestUpdateTraceIdentifiesPollOrCall(t *testing.T) {
	heard := withTracer(t, map[string]catalog.State{"a": catalog.StateQueued, "b": catalog.StateQueued}, func(hub *Hub, up *upstream, watch func(string, ...string)) {
		watch("one", "a")
		watch("two", "b")
		time.Sleep(time.Second / 2) // long enough to read both generations, but too short for their next polls
		synctest.Wait()
		up.set("a", catalog.StateSucceeded)
		up.set("b", catalog.StateSucceeded)
		hub.Observe(named(context.Background(), "a call"), testCred, up.record("b", succeeded).Version(), true)
		time.Sleep(time.Minute)
		synctest.Wait()
	})
	if want := "two: succeeded by a call"; !slices.Contains(heard.delivered, want) {
		t.Errorf("%q is not among %q", want, heard.delivered)
	}
	for i, out := range heard.outcomes {
		if len(out.Changes) != 1 {
			continue
		}
		if want := fmt.Sprint("one: succeeded by poll ", i+1); !slices.Contains(heard.delivered, want) || out.State != catalog.StateSucceeded {
			t.Errorf("poll %d found %v, and the watches received %q", i+1, out, heard.delivered)
		}
		return
	}
	t.Errorf("no poll found the change: %+v", heard.outcomes)
}
