package systemtest

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// The server continuously queries the ledger for due work. The spans of these queries must not be the roots of
// traces: each query either belongs to the trace of a call or a job, or has no span.
func TestOnlyCallsAndJobsStartTraces(t *testing.T) {
	t.Parallel()
	for name, ledger := range map[string]func(*testing.T) string{
		"SQLite":     func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "book.db") },
		"PostgreSQL": func(t *testing.T) string { return proctest.Database(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			collector := startCollector(t, 0)
			runServer(t, ledger(t), collector)
			holdRoots(t, collector)
		})
	}
}

// runServer runs a server until it has served calls, polled, resolved an order whose outcome was unknown, and failed to
// deliver an event.
func runServer(t *testing.T, ledger string, collector *collector) {
	t.Helper()
	f := newCatalog(t, 1, "--speed", "10")
	f.Operator = "ops"
	callers := proctest.File(t, "teams: {studio: {retention_days: 1, budget: {daily_cents: 1000}, events: {url: \"http://127.0.0.1:1/\", secret_file: "+proctest.File(t, eventSecret+"\n")+"}}}\n"+
		"callers: [{name: poster, team: studio, "+tokenOf("poster")+"}, {name: ops, operator: true, "+tokenOf("ops")+"}]\n")
	f.Sharing(callers, ledger).With(map[string]string{
		"EASEL_POLL_MIN_INTERVAL": "200ms", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + collector.addr, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
	}).Serve()
	ids := f.startWatches("poster", 3, 0)
	caller := f.caller("poster")
	for _, args := range [][]string{{"watch", ids[0]}, {"list"}, {"usage"}, {"account"}, {"download", ids[0], "--out", filepath.Join(t.TempDir(), "out")}, {"delete", ids[1], "--force"}} {
		if got := runProgram(t, caller, args...); got.exit != exitOK {
			t.Fatalf("%v: exit %d\n%s", args, got.exit, got.stderr)
		}
	}
	f.Fault(`{"name": "lost", "route": "POST /generations", "status": 503, "body": "down"}`)
	runProgram(t, caller, "generate", "studio/haiku", "prompt=sea", "--timeout", "1s", "-q")
	f.until("an order of unknown outcome", func() bool { return f.Measured("easel_ledger_order_unknown") == 1 })
	f.Heal()
	f.until("the outcome of the order", func() bool { return f.Measured("easel_ledger_order_unknown") == 0 })
	f.until("a failed delivery of an event", func() bool { return f.Measured("easel_events_total", "failed") > 0 })
	f.Status()
	if got := runProgram(t, map[string]string{"EASEL_ADMIN_ADDR": f.Server.Admin, "EASEL_API_KEY": "ops"}, "orders", "list"); got.exit != exitOK {
		t.Fatalf("exit %d\n%s", got.exit, got.stderr)
	}
	if f.Server.Stop() != exitOK {
		t.Fatal(f.Server.Stderr)
	}
}

// holdRoots checks the names of the exported root spans, and that at least 20 spans of database statements have
// parents.
func holdRoots(t *testing.T, collector *collector) {
	t.Helper()
	below, roots := 0, map[string]int{}
	for _, span := range collector.exportedSpans() {
		switch {
		case len(span.GetParentSpanId()) == 0:
			roots[span.GetName()]++
		case strings.HasPrefix(span.GetName(), "sql."):
			below++
		}
	}
	for name := range roots {
		if !slices.Contains([]string{"poll", "sweep", "poll account", "settle", "resend order", "send event", "check account"}, name) && !strings.HasPrefix(name, "easel.v1.") {
			t.Errorf("%s must not be a root span", name)
		}
	}
	for _, name := range []string{"poll", "resend order", "send event", "check account", "easel.v1.GenerationService/CreateGeneration"} {
		if roots[name] == 0 {
			t.Errorf("no root span is named %s", name)
		}
	}
	if below < 20 {
		t.Errorf("only %d database spans have a parent", below)
	}
	if t.Failed() {
		t.Log(roots)
	}
}
