package server_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// orderFor places an order with the label project. If project is "none", the order has another label instead.
func orderFor(t *testing.T, c caller, model, key, project string) error {
	t.Helper()
	labels := map[string]string{"campaign": "spring"}
	if project != "none" {
		labels["project"] = project
	}
	return c.call(t.Context(), "GenerationService/CreateGeneration", labelled(t, model, key, labels), &easelv1.CreateGenerationResponse{})
}

// The team requires the label project, and each project has a daily budget.
func TestLabelIsRequiredAndItsValuesHaveBudgets(t *testing.T) {
	t.Parallel()
	for name, database := range databases() {
		for form, as := range forms {
			t.Run(form+", "+name, func(t *testing.T) {
				t.Parallel()
				file := filepath.Join(t.TempDir(), "callers")
				limit := func(cents int) {
					writeCallers(t, file, fmt.Sprintf("studio: {labels: {required: [project], budgets: {project: {daily_cents: %d}}}}", cents), "poster, team: studio")
				}
				limit(5)
				s := sharedStackFrom(t, file, func(o *options) { o.ledger = database(t) })
				wantLabelBudgets(t, s, as(s, "poster"), limit)
			})
		}
	}
}

func wantLabelBudgets(t *testing.T, s *stack, c caller, limit func(cents int)) {
	t.Helper()
	for key, project := range map[string]string{"no-project": "none", "empty-project": ""} {
		st := wantStatus(t, orderFor(t, c, text, key, project), codes.InvalidArgument, "INVALID_REQUEST", 400)
		wantFields(t, st, "labels.project")
		if got := outcomeOf(t, st); got != "not_placed" {
			t.Errorf("the outcome is %q", got)
		}
	}
	if n := len(s.audit().ChargesByIdempotencyKey); n != 0 {
		t.Errorf("%d orders were charged", n)
	}
	if err := orderFor(t, c, text, "k", "apollo"); err != nil {
		t.Fatal(err)
	}
	if err := orderFor(t, c, text, "k", "none"); err != nil { // a repeated order may have other labels than the first one
		t.Errorf("a repeat without the label: %v", err)
	}
	n := 0
	spend := func(project string) error { n++; return orderFor(t, c, picture, fmt.Sprint("k", n), project) }
	var err error
	for n < 10 && err == nil {
		err = spend("apollo")
	}
	st := wantStatus(t, err, codes.ResourceExhausted, "BUDGET_EXCEEDED", 402)
	if m := metadataOf(t, st); m["label_name"] != "project" || m["label_value"] != "apollo" || m["window"] != "day" || m["reset_time"] == "" || m["price_cents"] == "" {
		t.Errorf("the metadata is %v", m)
	}
	if !hasDetail(st, &errdetails.QuotaFailure{}) || !strings.HasPrefix(outcomeOf(t, st), "not_placed") {
		t.Errorf("the status is %v", st.Proto())
	}
	if err := spend("gemini"); err != nil {
		t.Errorf("another project: %v", err)
	}
	limit(500)
	eventually(t, "an order fits the larger budget", func() bool { return spend("apollo") == nil })
	if account := accountOf(t, c); len(account.GetBudgets()) != 0 {
		t.Errorf("the team has the budgets %v", account.GetBudgets())
	}
	s.audit()
}
