package watch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// notebook is a tracer that records its calls. A context's name is its trace reference.
type notebook struct {
	mu        sync.Mutex
	polls     []Poll
	outcomes  []Outcome
	delivered []string // delivered events, each with the trace reference of the poll or call that found the state
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

// shelf is a catalog whose generations change only when the test changes them.
type shelf struct {
	mu     sync.Mutex
	states map[string]catalog.State
}

func (s *shelf) set(id string, state catalog.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.states[id] = state
}

// Account fails, because the catalog has no accounts.
func (s *shelf) Account(context.Context, catalog.Credential) (catalog.Account, error) {
	return catalog.Account{}, &catalog.Error{Kind: catalog.KindContract}
}

func (s *shelf) Generation(_ context.Context, _ catalog.Credential, id string) (catalog.Version, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.states[id] == 0 {
		return catalog.Version{}, &catalog.Error{Kind: catalog.KindNotFound, Own: true}
	}
	return catalog.Generation{ID: id, ModelID: "m", State: s.states[id], ObserveTime: time.Now()}.Version(), nil
}

func (s *shelf) List(ctx context.Context, cred catalog.Credential, _ time.Time) (*catalog.List, error) {
	var all []catalog.Version
	s.mu.Lock()
	ids := slices.Collect(maps.Keys(s.states))
	s.mu.Unlock()
	for _, id := range ids {
		read, _ := s.Generation(ctx, cred, id)
		all = append(all, read)
	}
	return catalog.NewList(all), nil
}

// observed runs a test with a hub and a tracer in virtual time.
func observed(t *testing.T, states map[string]catalog.State, test func(hub *Hub, up *shelf, heard *notebook, watch func(name string, ids ...string))) *notebook {
	t.Helper()
	heard := &notebook{}
	synctest.Test(t, func(t *testing.T) {
		up := &shelf{states: states}
		hub, err := New(Config{Upstream: Limited(up), Seed: 1, Tracer: heard})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var watches sync.WaitGroup
		test(hub, up, heard, func(name string, ids ...string) {
			watches.Go(func() {
				_ = hub.Watch(named(ctx, name), &Request{Credential: testCred, IDs: ids}, ignore)
			})
		})
		cancel()
		watches.Wait()
		hub.Close()
	})
	return heard
}

// ignore discards the event.
func ignore(Event) error { return nil }

var testCred = catalog.Forwarded(catalog.NewSecret("key"))

func TestAPollCarriesTheOrderAndTheWatchesThatItServesUpToSixteen(t *testing.T) {
	heard := observed(t, map[string]catalog.State{"a": catalog.StateQueued}, func(hub *Hub, up *shelf, _ *notebook, watch func(string, ...string)) {
		placed, _ := up.Generation(t.Context(), testCred, "a")
		hub.Created(named(context.Background(), "order"), testCred, placed.Generation, "m", time.Now())
		for i := range 30 {
			watch(fmt.Sprint("watch ", i), "a")
		}
		synctest.Wait() // waits for the watches; the first poll is not due yet
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
			t.Errorf("a poll of 30 watches is %+v", p)
		}
	}
	if len(heard.outcomes) != len(heard.polls) {
		t.Errorf("%d polls started, and %d ended", len(heard.polls), len(heard.outcomes))
	}
}

func TestASweepNamesAWatchOfManyOnce(t *testing.T) {
	states := map[string]catalog.State{}
	var ids []string
	for i := range 8 {
		ids = append(ids, fmt.Sprint("g", i))
		states[ids[i]] = catalog.StateQueued
	}
	heard := observed(t, states, func(_ *Hub, _ *shelf, _ *notebook, watch func(string, ...string)) {
		watch("of one", "g3") // a single generation is polled without a list
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
			t.Errorf("a sweep is %+v", p)
		}
	}
	if sweeps == 0 {
		t.Error("nothing was swept")
	}
}

func TestAnUpdateNamesThePollOrTheCallThatFoundIt(t *testing.T) {
	heard := observed(t, map[string]catalog.State{"a": catalog.StateQueued, "b": catalog.StateQueued}, func(hub *Hub, up *shelf, _ *notebook, watch func(string, ...string)) {
		watch("one", "a")
		watch("two", "b")
		time.Sleep(time.Second / 2) // long enough to read both generations, but too short for their next polls
		synctest.Wait()
		up.set("a", catalog.StateSucceeded)
		up.set("b", catalog.StateSucceeded)
		seen, _ := up.Generation(t.Context(), testCred, "b")
		hub.Observe(named(context.Background(), "a call"), testCred, seen, true)
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
			t.Errorf("poll %d found %v, and delivered was %q", i+1, out, heard.delivered)
		}
		return
	}
	t.Errorf("no poll found the change: %+v", heard.outcomes)
}

func TestAWatchPaysNothingForAnObserverThatIsNotThere(t *testing.T) {
	hub, err := New(Config{Upstream: Limited(&shelf{}), Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hub.Close)
	d := delivery{tracer: hub.cfg.Tracer, ctx: t.Context(), watcher: &watcher{stream: stream{trace: hub.cfg.Tracer.TraceRef(t.Context())}}, deliver: ignore}
	s := step{event: &Event{Update: &Update{}}}
	if n := testing.AllocsPerRun(100, func() { _ = d.send(s) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
