package server_test

import (
	"path/filepath"
	"testing"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server/servertest"
)

func TestOrderUsesAtMostTwoLedgerTransactions(t *testing.T) {
	spans := servertest.RecordSpans(t)
	s := studioStack(t)
	create(t, grpcCaller{s, "shop"}, order(t, text, "first", "a lake"))
	spans.Reset()
	req := order(t, text, "second", "a lake")
	req.Labels = map[string]string{"job": "7"}
	if g := create(t, grpcCaller{s, "shop"}, req); g.GetOwner() != "studio" || g.GetCaller() != "shop" || g.GetLabels()["job"] != "7" {
		t.Errorf("the order has the owner %s, the caller %s and the labels %v", g.GetOwner(), g.GetCaller(), g.GetLabels())
	}
	// One transaction writes the order with its labels and its reservation. Another transaction writes the outcome and
	// the charge. The query for the idempotency key is not counted, because it runs outside these transactions and has
	// no span.
	statements, commits := len(spansNamed(spans, "sql.statements")), len(spansNamed(spans, "sql.commit"))
	if statements > 5 || commits > 2 {
		t.Errorf("an order needs %d statements and %d commits, want at most 5 and 2", statements, commits)
	}
}

func TestSecondReadOfGenerationUsesOneSQLStatement(t *testing.T) {
	scrape := measured(t)
	statements := func() int {
		return int(total(scrape(), "db_client_operation_duration_seconds", "db_operation_name", "statements"))
	}
	c := grpcCaller{studioStack(t), "shop"}
	req := order(t, text, "first", "a lake")
	req.Labels = map[string]string{"job": "7", "page": "3"}
	id := create(t, c, req).GetGenerationId()
	if err := c.watch(t.Context(), &easelv1.WatchGenerationRequest{GenerationId: id}, func(*easelv1.WatchGenerationResponse) {}); err != nil {
		t.Fatal(err)
	}
	const reads = 100
	before, read := statements(), &easelv1.GetGenerationResponse{}
	for range reads {
		if err := c.call(t.Context(), "GenerationService/GetGeneration", &easelv1.GetGenerationRequest{GenerationId: id}, read); err != nil {
			t.Fatal(err)
		}
	}
	if labels := read.GetGeneration().GetLabels(); labels["job"] != "7" || labels["page"] != "3" {
		t.Errorf("the labels are %v, want job 7 and page 3", labels)
	}
	if n := statements() - before; n < reads || n >= 3*reads/2 { // background jobs and the first read execute some additional statements
		t.Errorf("%d reads executed %d statements, want 1 to 1.5 for each read", reads, n)
	}
}

// studioStack returns a stack with a caller named "shop", whose team has a budget.
func studioStack(t *testing.T) *stack {
	t.Helper()
	file := filepath.Join(t.TempDir(), "callers.yaml")
	writeCallers(t, file, "studio: {budget: {daily_cents: 10000}}", "shop, team: studio")
	return sharedStackFrom(t, file)
}
