package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// orderedElsewhere sends an order directly to the catalog, with the stack's API key, and returns the generation ID.
func orderedElsewhere(s *stack, idempotencyKey string) (id string) {
	s.Helper()
	text := s.askedElsewhere(http.MethodPost, "/generations", `{"modelId": "`+picture+`", "inputs": {"prompt": "a hill", "size": "64x40"}}`, idempotencyKey)
	var g struct{ ID string }
	if err := json.Unmarshal([]byte(text), &g); err != nil || g.ID == "" {
		s.Fatal(text)
	}
	return g.ID
}

// askedElsewhere sends a request directly to the catalog, with the stack's API key, and returns the response body.
func (s *stack) askedElsewhere(method, path, body, idempotencyKey string) (text string) {
	s.Helper()
	r := httptest.NewRequest(method, sandbox.BasePath+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+s.key)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", idempotencyKey)
	w := httptest.NewRecorder()
	if s.sandbox.ServeHTTP(w, r); w.Code >= 300 {
		s.Fatalf("%d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestOperatorsSeeGenerationsMissingFromLedger(t *testing.T) {
	t.Parallel()
	overTeams(t, func(t *testing.T, s *stack, as func(string) caller) {
		a := create(t, as("poster"), order(t, text, "a", "a lake")).GetGenerationId()
		x, y := orderedElsewhere(s, "x"), orderedElsewhere(s, "y")
		b := create(t, as("shop"), labeledOrder(t, picture, "b", map[string]string{"job": "7"})).GetGenerationId()
		for _, size := range []int32{1, 2, 3, 0} {
			got := idsOf(listAll(t, as("ops"), nil, size))
			if slices.Sort(got[2:]); !slices.Equal(got[:2], []string{b, a}) || !slices.Equal(got[2:], sorted(x, y)) {
				t.Errorf("with the page size %d, got %q, want %q and %q", size, got, []string{b, a}, []string{x, y})
			}
		}
		for name, row := range map[string]struct {
			by     string
			filter *easelv1.GenerationFilter
			want   []string
		}{
			"caller of a team":      {"poster", nil, []string{a}},
			"caller without a team": {"shop", nil, []string{b}},
			"owner filter":          {"ops", &easelv1.GenerationFilter{Owner: "shop"}, []string{b}},
			"label filter":          {"ops", &easelv1.GenerationFilter{Labels: map[string]string{"job": "7"}}, []string{b}},
			"model filter":          {"ops", &easelv1.GenerationFilter{ModelId: text}, []string{a}},
			"state filter":          {"ops", &easelv1.GenerationFilter{States: []easelv1.State{easelv1.State_STATE_FAILED}}, nil},
		} {
			if got := idsOf(listAll(t, as(row.by), row.filter, 1)); !slices.Equal(got, row.want) {
				t.Errorf("%s: the list is %q, want %q", name, got, row.want)
			}
		}
		operatorSees(t, as("ops"), x)
		lines, err := s.ledger.AuditLines(t.Context(), ledger.Position{}, 10)
		if err != nil || len(lines) != 1 || lines[0].Actor != "ops" || lines[0].Origin == "" || lines[0].Subject != x || lines[0].Was != "{}" {
			t.Errorf("the audit is %+v, %v", lines, err)
		}
		for _, method := range []string{"GetGeneration", "WaitGeneration"} {
			err := as("poster").call(t.Context(), "GenerationService/"+method, &easelv1.GetGenerationRequest{GenerationId: x}, &easelv1.GetGenerationResponse{})
			wantStatus(t, err, codes.NotFound, "GENERATION_NOT_FOUND", 404)
		}
	}, func(o *options) { o.sandbox.Speed = 100 })
}

func TestForwardedAPIKeysHaveSeparateListsAndUsage(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, s *stack, c caller) {
		other, err := s.sandbox.CreateKey(t.Context(), sandbox.KeyConfig{BalanceCents: 1000})
		if err != nil {
			t.Fatal(err)
		}
		x, y := orderedElsewhere(s, "x"), orderedElsewhere(s, "y")
		foreign := create(t, withKeyOf(c, other), order(t, text, "k", "a lake")).GetGenerationId()
		if got := idsOf(listAll(t, c, nil, 1)); !slices.Equal(sorted(got...), sorted(x, y)) {
			t.Errorf("before the first order, got %q, want %q", got, []string{x, y})
		}
		ordered := create(t, c, labeledOrder(t, text, "k", map[string]string{"job": "7"}))
		own := ordered.GetGenerationId()
		for _, size := range []int32{1, 2, 3, 0} {
			got := idsOf(listAll(t, c, nil, size))
			if slices.Sort(got[1:]); !slices.Equal(got, append([]string{own}, sorted(x, y)...)) {
				t.Errorf("with the page size %d, got %q, want %q and %q", size, got, own, []string{x, y})
			}
		}
		listed := listAll(t, c, &easelv1.GenerationFilter{Labels: map[string]string{"job": "7"}}, 1)
		if len(listed) != 1 || listed[0].GetGenerationId() != own || listed[0].GetOwner()+listed[0].GetCaller() != "" || listed[0].GetLabels()["job"] != "7" {
			t.Errorf("the renders with a label are %v", listed)
		}
		by := []easelv1.UsageDimension{easelv1.UsageDimension_USAGE_DIMENSION_OWNER, easelv1.UsageDimension_USAGE_DIMENSION_CALLER}
		if rows := usageOf(t, c, &easelv1.ListUsageRequest{GroupBy: by}); len(rows) != 1 || rows[""].GetCostCents() != ordered.GetCostCents() {
			t.Errorf("the usage is %v, want one row with the cost of the order", rows)
		}
		if got := idsOf(listAll(t, withKeyOf(c, other), nil, 1)); !slices.Equal(got, []string{foreign}) {
			t.Errorf("a second API key lists %q, want only its own render", got)
		}
		unused, err := s.sandbox.CreateKey(t.Context(), sandbox.KeyConfig{BalanceCents: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if rows := usageOf(t, withKeyOf(c, unused), &easelv1.ListUsageRequest{GroupBy: by}); len(rows) != 0 {
			t.Errorf("under an API key without orders the usage is %v", rows)
		}
		err = withKeyOf(c, "wrong").call(t.Context(), "AccountService/ListUsage", &easelv1.ListUsageRequest{GroupBy: by}, &easelv1.ListUsageResponse{})
		wantStatus(t, err, codes.Unauthenticated, "UPSTREAM_CREDENTIAL_REJECTED", 401)
		page, err := listPage(t, c, &easelv1.ListGenerationsRequest{PageSize: 1})
		if err != nil || page.GetNextPageToken() == "" {
			t.Fatal(page, err)
		}
		_, err = listPage(t, withKeyOf(c, other), &easelv1.ListGenerationsRequest{PageToken: page.GetNextPageToken()})
		wantFields(t, wantStatus(t, err, codes.InvalidArgument, "INVALID_REQUEST", 400), "page_token")
	}, func(o *options) { o.ledger = sqliteLedger(t) })
}

func sorted(ids ...string) []string {
	slices.Sort(ids)
	return ids
}

// operatorSees checks that an operator can read, watch, download and delete a generation that is not in the ledger.
func operatorSees(t *testing.T, c caller, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	read := &easelv1.GetGenerationResponse{}
	if err := c.call(ctx, "GenerationService/GetGeneration", &easelv1.GetGenerationRequest{GenerationId: id}, read); err != nil || read.GetGeneration().GetOwner() != "" {
		t.Errorf("GetGeneration returned %v, %v", read, err)
	}
	seen := ""
	if err := c.watch(ctx, &easelv1.WatchGenerationRequest{GenerationId: id}, func(m *easelv1.WatchGenerationResponse) {
		if g := m.GetUpdate().GetGeneration(); g != nil {
			seen = g.GetGenerationId() + " " + g.GetState().String()
		}
	}); err != nil || seen != id+" STATE_SUCCEEDED" {
		t.Errorf("the watch received %q, %v", seen, err)
	}
	if err := c.download(ctx, &easelv1.DownloadGenerationRequest{GenerationId: id}, io.Discard); err != nil {
		t.Errorf("the download returned %v", err)
	}
	if err := c.call(ctx, "GenerationService/DeleteGeneration", &easelv1.DeleteGenerationRequest{GenerationId: id}, &easelv1.DeleteGenerationResponse{}); err != nil {
		t.Errorf("the deletion returned %v", err)
	}
}

func TestCatalogErrorDoesNotAffectFirstPageOfList(t *testing.T) {
	t.Parallel()
	overTeams(t, func(t *testing.T, s *stack, as func(string) caller) {
		id := create(t, as("shop"), order(t, text, "k", "a lake")).GetGenerationId()
		x := orderedElsewhere(s, "x")
		s.sandbox.Inject(sandbox.Fault{Route: "GET /generations", Status: 403, Body: `{}`})
		first, err := listPage(t, as("ops"), &easelv1.ListGenerationsRequest{})
		if err != nil || !slices.Equal(idsOf(first.GetGenerations()), []string{id}) || first.GetNextPageToken() == "" {
			t.Fatalf("the first page is %v, %v", first, err)
		}
		_, err = listPage(t, as("ops"), &easelv1.ListGenerationsRequest{PageToken: first.GetNextPageToken()})
		wantStatus(t, err, codes.PermissionDenied, "UPSTREAM_FORBIDDEN", 403)
		s.sandbox.ClearFaults()
		last, err := listPage(t, as("ops"), &easelv1.ListGenerationsRequest{PageToken: first.GetNextPageToken()})
		if err != nil || !slices.Equal(idsOf(last.GetGenerations()), []string{x}) || last.GetNextPageToken() != "" {
			t.Errorf("the last page is %v, %v", last, err)
		}
		for name, req := range map[string]*easelv1.ListGenerationsRequest{
			"poster": {PageToken: first.GetNextPageToken()},
			"ops":    {PageToken: first.GetNextPageToken(), Filter: &easelv1.GenerationFilter{ModelId: text}},
		} {
			_, err := listPage(t, as(name), req)
			wantFields(t, wantStatus(t, err, codes.InvalidArgument, "INVALID_REQUEST", 400), "page_token")
		}
	})
}
