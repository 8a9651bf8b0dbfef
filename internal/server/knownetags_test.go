package server_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/prototext"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// unknownID is the ID of a generation that does not exist.
const unknownID = "0123456789abcdef"

// The type first is a summary of the messages in a WatchGenerations stream, up to and including caught_up.
type first struct {
	updates map[string]*easelv1.Generation
	count   int32 // number of generations in the caught_up message
}

// etags returns the etag of each generation that the stream delivered, by generation ID. It omits deleted generations.
func (f first) etags() map[string]string {
	etags := map[string]string{}
	for id, g := range f.updates {
		if g.GetState() != easelv1.State_STATE_DELETED {
			etags[id] = g.GetEtag()
		}
	}
	return etags
}

// catchUp opens a WatchGenerations stream and cancels it when the stream has caught up. It returns a summary of the
// messages.
func catchUp(t *testing.T, c caller, req *easelv1.WatchGenerationsRequest) (received first) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	received = first{map[string]*easelv1.Generation{}, -1}
	err := c.watchMany(ctx, req, func(m *easelv1.WatchGenerationsResponse) (more bool) {
		if g := m.GetUpdate().GetGeneration(); g != nil {
			if received.updates[g.GetGenerationId()] != nil || !m.GetUpdate().GetInitial() {
				t.Errorf("a generation is delivered twice: %v", m)
			}
			received.updates[g.GetGenerationId()] = g
		}
		if m.GetCaughtUp() != nil {
			received.count = m.GetCaughtUp().GetGenerationCount()
		}
		return received.count < 0
	})
	if err != nil || received.count < 0 {
		t.Fatalf("caught up with %d generations, and ended with %v", received.count, err)
	}
	return received
}

// checkStates checks the states that the stream delivered, and the count in its caught_up message. label describes the
// stream in the failure message.
func (f first) checkStates(t *testing.T, label string, count int, states map[string]easelv1.State) {
	t.Helper()
	got := map[string]easelv1.State{}
	for id, g := range f.updates {
		got[id] = g.GetState()
	}
	if !maps.Equal(got, states) || int(f.count) != count {
		t.Errorf("%s: received %v, and caught up with %d; want %v and %d", label, got, f.count, states, count)
	}
}

const (
	succeeded = easelv1.State_STATE_SUCCEEDED
	deleted   = easelv1.State_STATE_DELETED
)

// finishedTexts orders n texts, waits until they are finished, and returns their IDs.
func finishedTexts(t *testing.T, c caller, n int) (ids []string) {
	t.Helper()
	for i := range n {
		id := create(t, c, order(t, text, fmt.Sprint("finished-", i), "a lake")).GetGenerationId()
		awaitGeneration(t, c, id, easelv1.WatchUntil_WATCH_UNTIL_TERMINAL)
		ids = append(ids, id)
	}
	return ids
}

func erase(t *testing.T, c caller, id string) {
	t.Helper()
	req := &easelv1.DeleteGenerationRequest{GenerationId: id, Force: true}
	if err := c.call(t.Context(), "GenerationService/DeleteGeneration", req, &easelv1.DeleteGenerationResponse{}); err != nil {
		t.Fatal(err)
	}
}

func TestReopenedWatchSendsOnlyChangedGenerations(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, s *stack, c caller) {
		ids := finishedTexts(t, c, 4)
		for what, named := range map[string][]string{"all generations": nil, "listed generations": ids} {
			all := catchUp(t, c, &easelv1.WatchGenerationsRequest{GenerationIds: named})
			again := &easelv1.WatchGenerationsRequest{GenerationIds: named, KnownEtags: all.etags()}
			catchUp(t, c, again).checkStates(t, what+", unchanged", 4, nil)
			if named != nil {
				again.KnownEtags["not-named"] = "it is ignored"
				began := time.Now()
				if err := c.watchMany(t.Context(), again, toTheEnd); err != nil || time.Since(began) > time.Second {
					t.Errorf("a watch of finished renders with known etags ended with %v after %v", err, time.Since(began))
				}
			}
			time.Sleep(10 * time.Minute) // long enough for the server to drop the delivered states
			catchUp(t, c, again).checkStates(t, what+", later", 4, nil)
			again.KnownEtags[ids[1]] = "another"
			delete(again.KnownEtags, ids[2])
			catchUp(t, c, again).checkStates(t, what+", partly known", 4, map[string]easelv1.State{ids[1]: succeeded, ids[2]: succeeded})
		}
		all := catchUp(t, c, &easelv1.WatchGenerationsRequest{}).etags()
		young := create(t, c, order(t, picture, "young", "a lake")).GetGenerationId()
		erase(t, c, ids[0])
		time.Sleep(time.Minute)
		changed := map[string]easelv1.State{ids[0]: deleted, young: succeeded}
		catchUp(t, c, &easelv1.WatchGenerationsRequest{KnownEtags: all}).checkStates(t, "all generations", 4, changed)
		catchUp(t, c, &easelv1.WatchGenerationsRequest{GenerationIds: append(ids, young), KnownEtags: all}).checkStates(t, "listed generations", 5, changed)
	})
}

func TestWatchWithInvalidAPIKeyCausesNoCatalogReads(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, s *stack, c caller) {
		known := map[string]string{}
		for n := range 1000 {
			known[fmt.Sprintf("%d", n)] = "e"
		}
		before := s.readCount()
		err := withKeyOf(c, "made-up").watchMany(t.Context(), &easelv1.WatchGenerationsRequest{KnownEtags: known}, toTheEnd)
		if st := statusOf(t, err); st.Code() != codes.Unauthenticated {
			t.Error(err)
		}
		if n := s.readCount() - before; n != 0 {
			t.Errorf("got %d reads with a rejected API key, want none", n)
		}
		known["one more"] = "e"
		wantStatus(t, c.watchMany(t.Context(), &easelv1.WatchGenerationsRequest{KnownEtags: known}, toTheEnd), codes.InvalidArgument, "INVALID_REQUEST", http.StatusBadRequest)
	})
}

func TestFilteredWatchSendsOnlyMatchingGenerations(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, s *stack, c caller) {
		a := create(t, c, order(t, text, "a", "a lake")).GetGenerationId()
		b := create(t, c, order(t, picture, "b", "a lake")).GetGenerationId()
		for _, id := range []string{a, b} {
			awaitGeneration(t, c, id, easelv1.WatchUntil_WATCH_UNTIL_TERMINAL)
		}
		of := &easelv1.GenerationFilter{ModelId: text}
		received := catchUp(t, c, &easelv1.WatchGenerationsRequest{Filter: of})
		received.checkStates(t, "all generations", 1, map[string]easelv1.State{a: succeeded})
		known := received.etags()
		known[b] = "it is of another model"
		catchUp(t, c, &easelv1.WatchGenerationsRequest{Filter: of, KnownEtags: known}).checkStates(t, "known etags", 1, nil)
		named := &easelv1.WatchGenerationsRequest{GenerationIds: []string{a, b, unknownID}, Filter: of}
		catchUp(t, c, named).checkStates(t, "listed generations", 2, map[string]easelv1.State{a: succeeded, unknownID: deleted})
		if err := c.watchMany(t.Context(), &easelv1.WatchGenerationsRequest{GenerationIds: []string{b}, Filter: of}, toTheEnd); err != nil {
			t.Errorf("a watch of a generation that the filter excludes ended with %v", err)
		}
		var seen []string
		err := c.watchMany(t.Context(), &easelv1.WatchGenerationsRequest{Filter: of, KnownEtags: known}, func(m *easelv1.WatchGenerationsResponse) (more bool) {
			if m.GetCaughtUp() != nil {
				create(t, c, order(t, picture, "other", "a lake"))
				create(t, c, order(t, text, "new", "a lake"))
			}
			if g := m.GetUpdate().GetGeneration(); g != nil {
				if seen = append(seen, g.GetModelId()); g.GetTerminal() {
					return false
				}
			}
			return true
		})
		if err != nil || len(seen) == 0 || slices.ContainsFunc(seen, func(model string) bool { return model != text }) {
			t.Errorf("received renders of the models %q, then %v", seen, err)
		}
	})
}

func TestWatchedGenerationsAreFilteredByOwnerAndLabels(t *testing.T) {
	t.Parallel()
	overTeams(t, func(t *testing.T, _ *stack, as func(string) caller) {
		job := map[string]string{"job": "7"}
		a := create(t, as("poster"), labeledOrder(t, text, "a", job)).GetGenerationId()
		b := create(t, as("banner"), labeledOrder(t, picture, "b", map[string]string{"job": "7", "cost.center": "x y"})).GetGenerationId()
		c := create(t, as("shop"), labeledOrder(t, text, "a", job)).GetGenerationId()
		d := create(t, as("poster"), order(t, text, "d", "a lake")).GetGenerationId()
		all := []string{a, b, c, d}
		for name, row := range map[string]struct {
			by     string
			filter *easelv1.GenerationFilter
			want   []string
		}{
			"team":                        {"banner", nil, []string{a, b, d}},
			"operator":                    {"ops", nil, all},
			"owner filter":                {"ops", &easelv1.GenerationFilter{Owner: "studio"}, []string{a, b, d}},
			"label filter of a team":      {"poster", &easelv1.GenerationFilter{Labels: job}, []string{a, b}},
			"label filter of an operator": {"ops", &easelv1.GenerationFilter{Labels: job}, []string{a, b, c}},
			"filter by two labels":        {"ops", &easelv1.GenerationFilter{Labels: map[string]string{"job": "7", "cost.center": "x y"}}, []string{b}},
			"model filter of a team":      {"poster", &easelv1.GenerationFilter{ModelId: text}, []string{a, d}},
			"filter without matches":      {"shop", &easelv1.GenerationFilter{Labels: map[string]string{"job": "8"}}, nil},
		} {
			received := catchUp(t, as(row.by), &easelv1.WatchGenerationsRequest{Filter: row.filter})
			if got := slices.Sorted(maps.Keys(received.updates)); !slices.Equal(got, slices.Sorted(slices.Values(row.want))) || int(received.count) != len(row.want) {
				t.Errorf("%s: received %q, and caught up with %d; want %q", name, got, received.count, row.want)
			}
			known := received.etags()
			catchUp(t, as(row.by), &easelv1.WatchGenerationsRequest{Filter: row.filter, KnownEtags: known}).checkStates(t, name+", again", len(row.want), nil)
			if row.by == "ops" {
				known[unknownID] = "e"
				named := &easelv1.WatchGenerationsRequest{GenerationIds: all, Filter: row.filter, KnownEtags: known}
				catchUp(t, as(row.by), named).checkStates(t, name+", listed generations", len(row.want), nil)
			}
		}
		for field, filter := range map[string]*easelv1.GenerationFilter{"filter.owner": {Owner: "studio"}, "filter.states": {States: []easelv1.State{succeeded}}} {
			err := as("poster").watchMany(t.Context(), &easelv1.WatchGenerationsRequest{Filter: filter}, oneMessage)
			wantFields(t, wantStatus(t, err, codes.InvalidArgument, "INVALID_REQUEST", 400), field)
		}
	})
}

func TestWatchReportsForeignGenerationLikeUnknownGeneration(t *testing.T) {
	t.Parallel()
	overTeams(t, func(t *testing.T, _ *stack, as func(string) caller) {
		foreign := create(t, as("shop"), order(t, text, "k", "a lake"))
		own := create(t, as("poster"), order(t, text, "k", "a lake")).GetGenerationId()
		id, unknown := foreign.GetGenerationId(), strings.Repeat("0", len(foreign.GetGenerationId()))
		for what, named := range map[string]func(id string) []string{
			"all generations": func(string) []string { return nil }, "listed generations": func(id string) []string { return []string{own, id} },
		} {
			var answers []string
			for _, about := range []string{id, unknown} {
				for _, etag := range []string{foreign.GetEtag(), "", "e"} {
					req := &easelv1.WatchGenerationsRequest{GenerationIds: named(about), KnownEtags: map[string]string{about: etag}}
					received := catchUp(t, as("banner"), req)
					g := received.updates[about]
					if g.GetState() != deleted {
						t.Errorf("%s: another owner's render is delivered as %v", what, g)
					}
					req.KnownEtags[about] = g.GetEtag()
					g.ObserveTime, g.TerminalTime, g.Etag = nil, nil, "" // not compared: the times differ, and the etag depends on the ID
					answers = append(answers, strings.ReplaceAll(fmt.Sprint(received.count, len(received.updates), prototext.Format(g)), about, "ID"))
					catchUp(t, as("banner"), req).checkStates(t, what+", again", int(received.count), map[string]easelv1.State{own: easelv1.State_STATE_QUEUED})
				}
			}
			if slices.Sort(answers); len(slices.Compact(answers)) != 1 {
				t.Errorf("%s: another owner's render and an unknown render are delivered differently: %q", what, answers)
			}
		}
	})
}

func TestWatchOmitsGenerationsUnchangedSinceListing(t *testing.T) {
	t.Parallel()
	for _, dialect := range sandbox.Dialects() {
		t.Run(dialect.Name, func(t *testing.T) {
			s := ledgerStack(t, sqliteLedger(t), []string{"shop"}, func(o *options) { o.sandbox.Dialect = dialect })
			c := grpcCaller{s, "shop"}
			lost := s.sandbox.Inject(sandbox.Fault{Route: "POST /generations", Count: 1, AfterCommit: true, Reset: true})
			finishedTexts(t, c, 2)
			if n := len(s.audit().ChargesByIdempotencyKey); n != 2 || lost.Fired() != 1 {
				t.Errorf("%d orders were charged after %d lost responses", n, lost.Fired())
			}
			awaitGeneration(t, c, create(t, c, order(t, picture, "k", "a lake")).GetGenerationId(), easelv1.WatchUntil_WATCH_UNTIL_TERMINAL)
			eventually(t, "the terminal states are recorded", func() bool {
				return len(listAll(t, c, &easelv1.GenerationFilter{States: []easelv1.State{succeeded}}, 0)) == 3
			})
			known := map[string]string{}
			for _, g := range listAll(t, c, nil, 0) {
				known[g.GetGenerationId()] = g.GetEtag()
			}
			catchUp(t, c, &easelv1.WatchGenerationsRequest{KnownEtags: known}).checkStates(t, "what was listed", 3, nil)
		})
	}
}
