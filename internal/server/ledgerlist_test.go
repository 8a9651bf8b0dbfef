package server_test

import (
	"fmt"
	_ "image/png"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// overTeams runs a scenario with a shared API key, once for each combination of protocol and kind of ledger. The
// scenario calls callerFor(name) to get the caller with this name. The callers "poster" and "banner" belong to the team
// "studio", which has a budget. The caller "shop" has no team, and "ops" is an operator.
func overTeams(t *testing.T, scenario func(t *testing.T, s *stack, callerFor func(name string) caller), change ...func(*options)) {
	for name, database := range databases() {
		for form, as := range forms {
			t.Run(form+", "+name, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "callers")
				writeCallers(t, file, "studio: {budget: {daily_cents: 2000, monthly_cents: 30000}}",
					"poster, team: studio", "banner, team: studio", "shop", "ops, operator: true")
				s := sharedStackFrom(t, file, append([]func(*options){func(o *options) { o.ledger, o.sandbox.Speed = database(t), 0.01 }}, change...)...)
				scenario(t, s, func(name string) caller { return as(s, name) })
			})
		}
	}
}

// labeledOrder returns a request for an order with labels.
func labeledOrder(t *testing.T, model, key string, labels map[string]string) *easelv1.CreateGenerationRequest {
	req := order(t, model, key, "a lake")
	req.Labels = labels
	return req
}

func idsOf(all []*easelv1.Generation) (ids []string) {
	for _, g := range all {
		ids = append(ids, g.GetGenerationId())
	}
	return ids
}

func TestOnlyOperatorsCanListGenerationsOfAllOwners(t *testing.T) {
	t.Parallel()
	overTeams(t, func(t *testing.T, s *stack, as func(string) caller) {
		a := create(t, as("poster"), labeledOrder(t, text, "a", map[string]string{"job": "7"})).GetGenerationId()
		b := create(t, as("banner"), labeledOrder(t, picture, "b", map[string]string{"job": "7", "cost.center": "x y"})).GetGenerationId()
		c := create(t, as("shop"), labeledOrder(t, text, "a", map[string]string{"job": "7"})).GetGenerationId()
		d := create(t, as("poster"), order(t, text, "d", "a lake")).GetGenerationId()
		failed := []easelv1.State{easelv1.State_STATE_FAILED, easelv1.State_STATE_DELETED}
		if _, err := s.ledger.Observe(t.Context(), d, ledger.Observation{Observation: lifecycle.Observation{Status: lifecycle.Failed}}); err != nil {
			t.Fatal(err)
		}
		for name, row := range map[string]struct {
			by     string
			filter *easelv1.GenerationFilter
			want   []string
		}{
			"caller of a team":           {"poster", nil, []string{d, b, a}},
			"another caller of the team": {"banner", nil, []string{d, b, a}},
			"caller without a team":      {"shop", nil, []string{c}},
			"operator":                   {"ops", nil, []string{d, c, b, a}},
			"owner filter":               {"ops", &easelv1.GenerationFilter{Owner: "studio"}, []string{d, b, a}},
			"label filter":               {"poster", &easelv1.GenerationFilter{Labels: map[string]string{"job": "7"}}, []string{b, a}},
			"filter by two labels":       {"ops", &easelv1.GenerationFilter{Labels: map[string]string{"job": "7", "cost.center": "x y"}}, []string{b}},
			"model filter":               {"ops", &easelv1.GenerationFilter{ModelId: text}, []string{d, c, a}},
			"filter by two states":       {"ops", &easelv1.GenerationFilter{States: failed}, []string{d}},
			"filter by the state queued": {"poster", &easelv1.GenerationFilter{States: []easelv1.State{easelv1.State_STATE_QUEUED}}, []string{b, a}},
			"filter by an unknown state": {"ops", &easelv1.GenerationFilter{States: []easelv1.State{easelv1.State_STATE_UNRECOGNIZED}}, nil},
		} {
			if got := idsOf(listAll(t, as(row.by), row.filter, 1)); !slices.Equal(got, row.want) {
				t.Errorf("%s: the list is %q, want %q", name, got, row.want)
			}
		}
		first := listAll(t, as("ops"), &easelv1.GenerationFilter{Labels: map[string]string{"cost.center": "x y"}}, 0)[0]
		if first.GetOwner() != "studio" || first.GetCaller() != "banner" || len(first.GetLabels()) != 2 || first.GetModelId() != picture || first.GetInputs() == nil {
			t.Errorf("the render is listed as %v", first)
		}
		_, err := listPage(t, as("poster"), &easelv1.ListGenerationsRequest{Filter: &easelv1.GenerationFilter{Owner: "studio"}})
		wantFields(t, wantStatus(t, err, codes.InvalidArgument, "INVALID_REQUEST", 400), "filter.owner")
	})
}

func listPage(t *testing.T, c caller, req *easelv1.ListGenerationsRequest) (*easelv1.ListGenerationsResponse, error) {
	t.Helper()
	resp := &easelv1.ListGenerationsResponse{}
	return resp, c.call(t.Context(), "GenerationService/ListGenerations", req, resp)
}

func TestPageTokenIsBoundToItsListAndOwner(t *testing.T) {
	t.Parallel()
	overTeams(t, func(t *testing.T, _ *stack, as func(string) caller) {
		for n := range 3 {
			create(t, as("poster"), order(t, text, fmt.Sprint(n), "a lake"))
			create(t, as("shop"), order(t, text, fmt.Sprint(n), "a lake"))
		}
		page, err := listPage(t, as("poster"), &easelv1.ListGenerationsRequest{PageSize: 1})
		if err != nil {
			t.Fatal(err)
		}
		create(t, as("banner"), order(t, text, "later", "a lake")) // the next page, which continues the earlier list, must not contain this new order
		next, err := listPage(t, as("banner"), &easelv1.ListGenerationsRequest{PageSize: 5, PageToken: page.GetNextPageToken()})
		if err != nil || len(next.GetGenerations()) != 2 || next.GetNextPageToken() != "" {
			t.Errorf("the next page is %v, %v", next, err)
		}
		for name, ask := range map[string]func(token string) error{
			"request by another owner": func(token string) error {
				_, err := listPage(t, as("shop"), &easelv1.ListGenerationsRequest{PageToken: token})
				return err
			},
			"request with another filter": func(token string) error {
				_, err := listPage(t, as("poster"), &easelv1.ListGenerationsRequest{PageToken: token, Filter: &easelv1.GenerationFilter{ModelId: text}})
				return err
			},
			"request to another method": func(token string) error {
				return as("poster").call(t.Context(), "AccountService/ListUsage", &easelv1.ListUsageRequest{PageToken: token}, &easelv1.ListUsageResponse{})
			},
		} {
			err := ask(page.GetNextPageToken())
			if err == nil {
				t.Errorf("%s: the token was accepted", name)
				continue
			}
			wantFields(t, wantStatus(t, err, codes.InvalidArgument, "INVALID_REQUEST", 400), "page_token")
		}
	})
}

func TestListCombinesLedgerStateWithCatalogResult(t *testing.T) {
	t.Parallel()
	overTeams(t, func(t *testing.T, s *stack, as func(string) caller) {
		c := as("shop")
		id := create(t, c, order(t, text, "k", "a lake")).GetGenerationId()
		want := awaitGeneration(t, c, id, easelv1.WatchUntil_WATCH_UNTIL_TERMINAL)
		listed := func(states ...easelv1.State) (all []*easelv1.Generation) {
			return listAll(t, c, &easelv1.GenerationFilter{States: states}, 0)
		}
		eventually(t, "the terminal state is recorded", func() bool { return len(listed(easelv1.State_STATE_SUCCEEDED)) == 1 })
		eventually(t, "the catalog's list has the result", func() bool { return listed()[0].GetText() != nil }) // the server caches the catalog's list for a second
		got := listed()[0]
		if got.GetState() != want.GetState() || got.GetText().GetText() != want.GetText().GetText() || got.GetInputs() == nil || got.GetEtag() != want.GetEtag() {
			t.Errorf("the render is listed as %v, want %v", got, want)
		}
		s.sandbox.Inject(sandbox.Fault{Route: "GET /generations", Status: 403, Body: `{}`})
		eventually(t, "the result is no longer listed", func() bool { return listed()[0].GetText() == nil })
		if got := listed()[0]; got.GetState() != want.GetState() || got.GetCostCents() != want.GetCostCents() {
			t.Errorf("without the catalog's list, the render is %v", got)
		}
		s.sandbox.ClearFaults()
		if err := c.call(t.Context(), "GenerationService/DeleteGeneration", &easelv1.DeleteGenerationRequest{GenerationId: id}, &easelv1.DeleteGenerationResponse{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the deletion is recorded", func() bool { return len(listed()) == 0 })
		if deleted := listed(easelv1.State_STATE_DELETED, easelv1.State_STATE_FAILED); len(deleted) != 1 || deleted[0].GetState() != easelv1.State_STATE_DELETED {
			t.Errorf("the deleted renders are %v", deleted)
		}
	}, func(o *options) { o.sandbox.Speed = usualSpeed })
}

func TestTerminalStateIsRecordedByListCall(t *testing.T) {
	t.Parallel()
	overTeams(t, func(t *testing.T, _ *stack, as func(string) caller) {
		create(t, as("shop"), order(t, text, "k", "a lake"))
		ended := &easelv1.GenerationFilter{States: []easelv1.State{easelv1.State_STATE_SUCCEEDED}}
		eventually(t, "the terminal state is recorded without a watch", func() bool {
			listAll(t, as("shop"), nil, 0)
			return len(listAll(t, as("shop"), ended, 0)) == 1
		})
	}, func(o *options) { o.sandbox.Speed = 100 })
}

// usageOf reads all pages of a usage report. It returns a map of the rows. The key of a row consists of its non-empty
// dimension values, separated by spaces.
func usageOf(t *testing.T, c caller, req *easelv1.ListUsageRequest) map[string]*easelv1.UsageRow {
	t.Helper()
	rows := map[string]*easelv1.UsageRow{}
	for req.PageSize = 1; ; {
		resp := &easelv1.ListUsageResponse{}
		if err := c.call(t.Context(), "AccountService/ListUsage", req, resp); err != nil {
			t.Fatal(err)
		}
		for _, row := range resp.GetRows() {
			if row.GetCurrencyCode() != "EUR" {
				t.Errorf("got the currency %q, want EUR", row.GetCurrencyCode())
			}
			rows[strings.Join(slices.DeleteFunc([]string{row.GetDay(), row.GetOwner(), row.GetCaller(), row.GetModelId(), row.GetLabelValue()}, func(s string) bool { return s == "" }), " ")] = row
		}
		if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
			return rows
		}
	}
}

func TestUsageIsGroupedByRequestedDimensions(t *testing.T) {
	t.Parallel()
	overTeams(t, func(t *testing.T, _ *stack, as func(string) caller) {
		cost := func(by, model, key, job string) int64 {
			return create(t, as(by), labeledOrder(t, model, key, map[string]string{"job": job})).GetCostCents()
		}
		poster := cost("poster", text, "a", "7") + cost("poster", picture, "b", "8")
		banner, shop := cost("banner", text, "c", "7"), cost("shop", text, "a", "7")
		today := time.Now().UTC().Format(time.DateOnly)
		const (
			day, owner, by, model, label = easelv1.UsageDimension_USAGE_DIMENSION_DAY, easelv1.UsageDimension_USAGE_DIMENSION_OWNER,
				easelv1.UsageDimension_USAGE_DIMENSION_CALLER, easelv1.UsageDimension_USAGE_DIMENSION_MODEL, easelv1.UsageDimension_USAGE_DIMENSION_LABEL
		)
		for name, row := range map[string]struct {
			by   string
			req  *easelv1.ListUsageRequest
			want map[string]int64
		}{
			"usage of a team":       {"poster", &easelv1.ListUsageRequest{}, map[string]int64{"": poster + banner}},
			"by owner":              {"ops", &easelv1.ListUsageRequest{GroupBy: []easelv1.UsageDimension{owner}}, map[string]int64{"studio": poster + banner, "shop": shop}},
			"by day and caller":     {"ops", &easelv1.ListUsageRequest{GroupBy: []easelv1.UsageDimension{day, by}}, map[string]int64{today + " poster": poster, today + " banner": banner, today + " shop": shop}},
			"by model and label":    {"shop", &easelv1.ListUsageRequest{GroupBy: []easelv1.UsageDimension{model, label}, LabelName: "job"}, map[string]int64{text + " 7": shop}},
			"in a past period":      {"ops", &easelv1.ListUsageRequest{EndTime: timestamppb.New(time.Now().Add(-time.Hour))}, map[string]int64{}},
			"in the current period": {"shop", &easelv1.ListUsageRequest{StartTime: timestamppb.New(time.Now().Add(-time.Hour)), EndTime: timestamppb.New(time.Now().Add(time.Hour))}, map[string]int64{"": shop}},
		} {
			got := map[string]int64{}
			for dimensions, r := range usageOf(t, as(row.by), row.req) {
				got[dimensions] = r.GetCostCents()
			}
			if !maps.Equal(got, row.want) {
				t.Errorf("%s: the usage is %v, want %v", name, got, row.want)
			}
		}
		all := usageOf(t, as("ops"), &easelv1.ListUsageRequest{})[""]
		if all.GetOrderCount() != 4 || all.GetFailedCount() != 0 || all.GetUnknownCount() != 0 || all.GetReservedCents() != 0 {
			t.Errorf("the complete usage is %v", all)
		}
	})
}

func TestAccountContainsBudgetsOfTeam(t *testing.T) {
	t.Parallel()
	overTeams(t, func(t *testing.T, _ *stack, as func(string) caller) {
		cost := create(t, as("poster"), order(t, text, "k", "a lake")).GetCostCents()
		for name, budgets := range map[string]int{"poster": 2, "banner": 2, "shop": 0, "ops": 0} {
			resp := &easelv1.GetAccountResponse{}
			if err := as(name).call(t.Context(), "AccountService/GetAccount", &easelv1.GetAccountRequest{}, resp); err != nil {
				t.Fatal(err)
			}
			got := resp.GetAccount().GetBudgets()
			if len(got) != budgets {
				t.Fatalf("%s has the budgets %v", name, got)
			}
			for n, b := range got {
				window, limit := easelv1.BudgetWindow_BUDGET_WINDOW_DAY, int64(2000)
				if n == 1 {
					window, limit = easelv1.BudgetWindow_BUDGET_WINDOW_MONTH, 30000
				}
				if b.GetWindow() != window || b.GetLimitCents() != limit || b.GetSpentCents() != cost || b.GetReservedCents() != 0 || b.GetCurrencyCode() != "EUR" ||
					!b.GetResetTime().AsTime().After(time.Now()) || b.GetStartTime().AsTime().After(time.Now()) {
					t.Errorf("%s has the budget %v, and the order cost %d", name, b, cost)
				}
			}
		}
	})
}

// Without the ledger, open watches continue, and all callers can read models. An operator, who has no budget, can also
// read the account and single generations, and wait for a generation. All other unary calls fail, and a team can't open
// new watches.
func TestUnavailableLedgerFailsOnlyCallsThatNeedIt(t *testing.T) {
	t.Parallel()
	overTeams(t, func(t *testing.T, s *stack, as func(string) caller) {
		id := create(t, as("poster"), labeledOrder(t, text, "k", map[string]string{"patient": "jane-doe"})).GetGenerationId()
		placed := s.sandbox.Requests()["POST /generations"]
		updates := followAll(t, as("poster"))
		for _, route := range []string{"GET /generations", "GET /generations/{id}"} {
			s.sandbox.Inject(sandbox.Fault{Route: route, Status: 503})
		}
		if err := s.ledger.Close(); err != nil {
			t.Fatal(err)
		}
		s.sandbox.ClearFaults()
		untilEnded(t, updates, id) // the watch that is already open continues
		for method, call := range map[string]struct {
			request, response     proto.Message
			forTeam, forOperators bool // whether the call works without the ledger, for a caller in a team and for an operator
		}{
			"AccountService/GetAccount":          {&easelv1.GetAccountRequest{}, &easelv1.GetAccountResponse{}, false, true},
			"AccountService/ListUsage":           {&easelv1.ListUsageRequest{}, &easelv1.ListUsageResponse{}, false, false},
			"ModelService/ListModels":            {&easelv1.ListModelsRequest{}, &easelv1.ListModelsResponse{}, true, true},
			"ModelService/GetModel":              {&easelv1.GetModelRequest{ModelId: text}, &easelv1.GetModelResponse{}, true, true},
			"GenerationService/ListGenerations":  {&easelv1.ListGenerationsRequest{}, &easelv1.ListGenerationsResponse{}, false, false},
			"GenerationService/GetGeneration":    {&easelv1.GetGenerationRequest{GenerationId: id}, &easelv1.GetGenerationResponse{}, false, true},
			"GenerationService/WaitGeneration":   {&easelv1.WaitGenerationRequest{GenerationId: id, Timeout: durationpb.New(time.Second)}, &easelv1.WaitGenerationResponse{}, false, true},
			"GenerationService/DeleteGeneration": {&easelv1.DeleteGenerationRequest{GenerationId: id, Force: true}, &easelv1.DeleteGenerationResponse{}, false, false},
			"GenerationService/CreateGeneration": {order(t, text, "k", "a lake"), &easelv1.CreateGenerationResponse{}, false, false},
		} {
			for name, continues := range map[string]bool{"poster": call.forTeam, "ops": call.forOperators} {
				err := as(name).call(t.Context(), method, call.request, call.response)
				if continues {
					if err != nil {
						t.Errorf("%s by %s: %v", method, name, err)
					}
					if strings.Contains(fmt.Sprint(call.response), "jane-doe") { // the response must not contain the label, because the server can't know without the ledger whether the label was erased
						t.Errorf("%s by %s returns %v", method, name, call.response)
					}
					continue
				}
				if err == nil {
					t.Errorf("%s by %s succeeds without a ledger", method, name)
					continue
				}
				st := wantStatus(t, err, codes.Unavailable, "LEDGER_UNAVAILABLE", 503)
				if retryDelay(st) == 0 || strings.Contains(st.Message(), "sql") {
					t.Errorf("%s returns %v to %s", method, st.Proto(), name)
				}
				if got := outcomeOf(t, st); (got == notPlaced) != (method == "GenerationService/CreateGeneration") {
					t.Errorf("%s returned the order outcome %q", method, got)
				}
			}
		}
		for _, ids := range [][]string{{id}, nil} { // a watch of one listed generation, and a watch of all generations
			err := as("poster").watchMany(t.Context(), &easelv1.WatchGenerationsRequest{GenerationIds: ids}, func(*easelv1.WatchGenerationsResponse) bool { return true })
			wantStatus(t, err, codes.Unavailable, "LEDGER_UNAVAILABLE", 503)
		}
		if n := s.sandbox.Requests()["POST /generations"]; n != placed {
			t.Errorf("%d orders were sent without a ledger", n-placed)
		}
	}, func(o *options) { o.sandbox.Speed = 5 })
}

// listAll reads all pages of a filtered list and returns the generations. size is the page size.
func listAll(t *testing.T, c caller, filter *easelv1.GenerationFilter, size int32) (all []*easelv1.Generation) {
	t.Helper()
	for req := (&easelv1.ListGenerationsRequest{PageSize: size, Filter: filter}); ; {
		resp, err := listPage(t, c, req)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, resp.GetGenerations()...)
		if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
			return all
		}
	}
}

func TestModelResponseContainsInputFields(t *testing.T) {
	t.Parallel()
	overEveryStack(t, func(t *testing.T, _ *stack, c caller) {
		list := &easelv1.ListModelsResponse{}
		if err := c.call(t.Context(), "ModelService/ListModels", &easelv1.ListModelsRequest{}, list); err != nil {
			t.Fatal(err)
		}
		if len(list.GetModels()) < 5 {
			t.Errorf("got %d models, want at least 5", len(list.GetModels()))
		}
		one := &easelv1.GetModelResponse{}
		if err := c.call(t.Context(), "ModelService/GetModel", &easelv1.GetModelRequest{ModelId: picture}, one); err != nil {
			t.Fatal(err)
		}
		m := one.GetModel()
		if m.GetOutputKind() != easelv1.OutputKind_OUTPUT_KIND_FILE || m.GetModelId() != picture {
			t.Errorf("the model is %v, want the requested one with the output kind FILE", m)
		}
		fields := map[string]*easelv1.InputField{}
		for _, f := range m.GetInputFields() {
			fields[f.GetName()] = f
		}
		if f := fields["prompt"]; f.GetType() != easelv1.InputFieldType_INPUT_FIELD_TYPE_STRING || !f.GetRequired() {
			t.Errorf("prompt is %v", f)
		}
		if f := fields["steps"]; f.GetMinimum() != 1 || f.GetMaximum() != 50 || f.GetDefaultValue().GetNumberValue() != 20 {
			t.Errorf("steps is %v", f)
		}
		if f := fields["size"]; len(f.GetAllowedValues()) < 3 {
			t.Errorf("size is %v", f)
		}
	})
}
