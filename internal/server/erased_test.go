package server_test

import (
	"context"
	"maps"
	"strings"
	"sync"
	"testing"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// servedLabels calls every method that returns labels. It returns the given generation's labels in each response, keyed
// by a short description of the call.
func servedLabels(t *testing.T, c caller, id string) map[string]map[string]string {
	t.Helper()
	var got easelv1.GetGenerationResponse
	if err := c.call(t.Context(), "GenerationService/GetGeneration", &easelv1.GetGenerationRequest{GenerationId: id}, &got); err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]string{"get": got.GetGeneration().GetLabels(), "list": listAll(t, c, nil, 0)[0].GetLabels()}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	_ = c.watch(ctx, &easelv1.WatchGenerationRequest{GenerationId: id}, func(m *easelv1.WatchGenerationResponse) {
		all["a watch"] = m.GetUpdate().GetGeneration().GetLabels()
		leave()
	})
	for name, named := range map[string][]string{"a watch of one generation": {id}, "a watch of all generations": nil} {
		all[name] = catchUp(t, c, &easelv1.WatchGenerationsRequest{GenerationIds: named}).updates[id].GetLabels()
	}
	return all
}

func TestErasedLabelsAreNotReturned(t *testing.T) {
	t.Parallel()
	url := ""
	overTeams(t, func(t *testing.T, s *stack, as func(string) caller) {
		id := create(t, as("poster"), labeledOrder(t, text, "a", map[string]string{"patient": "jane-doe"})).GetGenerationId()
		awaitGeneration(t, as("poster"), id, easelv1.WatchUntil_WATCH_UNTIL_TERMINAL)
		followAll(t, as("poster")) // keeps a watch open during the test
		for _, who := range []string{"poster", "ops"} {
			for name, labels := range servedLabels(t, as(who), id) {
				if labels["patient"] != "jane-doe" {
					t.Errorf("before the erasure, %s for %s returned the labels %v", name, who, labels)
				}
			}
		}
		led := s.ledger
		if strings.HasPrefix(url, "postgres") { // with PostgreSQL, another replica erases the order
			other, err := ledger.Open(t.Context(), ledger.Config{URL: url, Catalog: s.catalog})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = other.Close() }()
			led = other
		}
		found, err := led.Own(t.Context(), nil, id)
		if err == nil {
			_, err = led.Erase(t.Context(), found[id])
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, who := range []string{"poster", "ops"} {
			for name, labels := range servedLabels(t, as(who), id) {
				if len(labels) > 0 {
					t.Errorf("after the erasure, %s for %s returned the labels %v", name, who, labels)
				}
			}
		}
	}, func(o *options) { url, o.sandbox.Speed = o.ledger, 100 })
}

// lastLabels stores the state and labels that each open watch has received in its latest update of a generation.
type lastLabels struct {
	mu  sync.Mutex
	all map[string]*easelv1.Generation
}

func (l *lastLabels) note(watch string, u *easelv1.GenerationUpdate) {
	if u == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[watch] = u.GetGeneration()
}

// haveReached reports whether all three watches have received the given state and labels in their latest update.
func (l *lastLabels) haveReached(state easelv1.State, labels map[string]string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.all {
		if g.GetState() != state || !maps.Equal(g.GetLabels(), labels) {
			return false
		}
	}
	return len(l.all) == 3
}

// follow opens three watches that receive a generation's updates: a watch of only this generation, a watch of a list
// that contains it, and a watch of all generations.
func (l *lastLabels) follow(t *testing.T, c caller, id string) {
	ctx, leave := context.WithCancel(t.Context())
	var open sync.WaitGroup
	t.Cleanup(func() { leave(); open.Wait() })
	open.Go(func() {
		_ = c.watch(ctx, &easelv1.WatchGenerationRequest{GenerationId: id}, func(m *easelv1.WatchGenerationResponse) { l.note("one", m.GetUpdate()) })
	})
	for name, ids := range map[string][]string{"named": {id}, "everything": nil} {
		open.Go(func() {
			_ = c.watchMany(ctx, &easelv1.WatchGenerationsRequest{GenerationIds: ids}, func(m *easelv1.WatchGenerationsResponse) bool {
				l.note(name, m.GetUpdate())
				return true
			})
		})
	}
}

func TestWatchUpdateOmitsErasedLabels(t *testing.T) {
	t.Parallel()
	overTeams(t, func(t *testing.T, s *stack, as func(string) caller) {
		labels := map[string]string{"patient": "jane-doe"}
		id := create(t, as("poster"), labeledOrder(t, text, "a", labels)).GetGenerationId()
		open := &lastLabels{all: map[string]*easelv1.Generation{}}
		open.follow(t, as("poster"), id)
		eventually(t, "the watches have started", func() bool {
			return open.haveReached(easelv1.State_STATE_QUEUED, labels) || open.haveReached(easelv1.State_STATE_RUNNING, labels)
		})
		found, err := s.ledger.Own(t.Context(), nil, id)
		if err == nil {
			_, err = s.ledger.Erase(t.Context(), found[id])
		}
		if err == nil {
			err = as("poster").call(t.Context(), "GenerationService/DeleteGeneration", &easelv1.DeleteGenerationRequest{GenerationId: id, Force: true}, &easelv1.DeleteGenerationResponse{})
		}
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the next update has no labels", func() bool { return open.haveReached(easelv1.State_STATE_DELETED, nil) })
	}, func(o *options) { o.sandbox.Speed = 0.01 })
}

func TestWatchedGenerationKeepsOwnerDuringLedgerOutage(t *testing.T) {
	t.Parallel()
	overTeams(t, func(t *testing.T, s *stack, as func(string) caller) {
		if strings.Contains(t.Name(), "memory") {
			t.Skip("a ledger in memory is always available")
		}
		labels := map[string]string{"patient": "jane-doe"}
		running := s.sandbox.Inject(sandbox.Fault{Route: "GET /generations/{id}", Set: map[string]any{"status": "running"}})
		s.sandbox.Inject(sandbox.Fault{Route: "GET /generations", Status: 503})
		first := create(t, as("poster"), labeledOrder(t, text, "a", labels))
		open := &lastLabels{all: map[string]*easelv1.Generation{}}
		open.follow(t, as("poster"), first.GetGenerationId())
		eventually(t, "the watches have started", func() bool {
			return open.haveReached(easelv1.State_STATE_QUEUED, labels) || open.haveReached(easelv1.State_STATE_RUNNING, labels)
		})
		if err := s.ledger.Close(); err != nil {
			t.Fatal(err)
		}
		running.Remove()
		eventually(t, "the watches have the terminal state without labels", func() bool { return open.haveReached(easelv1.State_STATE_SUCCEEDED, nil) })
		open.mu.Lock()
		defer open.mu.Unlock()
		if g := open.all["one"]; first.GetOwner() == "" || g.GetOwner() != first.GetOwner() || g.GetCaller() != first.GetCaller() {
			t.Errorf("the watch has the owner %q and the caller %q", g.GetOwner(), g.GetCaller())
		}
	}, func(o *options) { o.sandbox.Speed = 20 })
}
