package main

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/telemetry"
)

func TestTheMetricsTellOfTheLedgerInSum(t *testing.T) {
	url, upstream := "sqlite:"+filepath.Join(t.TempDir(), "book.db"), "http://127.0.0.1:1"
	writeUnknown(t, ledger.Config{URL: url, Catalog: upstream, ResendWindow: 12 * time.Hour}, "key")
	served := start(t, map[string]string{
		"EASEL_UPSTREAM_URL": upstream, "EASEL_UPSTREAM_KEY_FILE": write(t, "key\n"), "EASEL_LEDGER_URL": url,
		"EASEL_CALLERS_FILE": write(t, "teams: {studio: {budget: {daily_cents: 100}}}\ncallers: [{name: poster-service, team: studio, tokens: [\""+auth.Hash("t")+"\"]}]\n"),
		"EASEL_GRPC_ADDR":    "127.0.0.1:0", "EASEL_HTTP_ADDR": "127.0.0.1:0", "EASEL_ADMIN_ADDR": "127.0.0.1:0", "EASEL_METRICS_ADDR": "127.0.0.1:0",
	}, func(_, stderr string) bool { return strings.Count(stderr, `"listening"`) == 4 }, "serve")
	answer, err := http.Get("http://" + proctest.Find(t, `"server":"metrics","addr":"([^"]+)"`, served.stderr.String()) + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"easel_ledger_up 1", "easel_ledger_order_unknown 2", "easel_ledger_order_oldest_seconds ", "easel_ledger_faults_total 0", "easel_ledger_dearer_total 0",
		`easel_ledger_reserved{easel_owner="studio"} 22`, `easel_ledger_spent{easel_owner="studio"} 0`, `easel_ledger_budget_limit{easel_budget_window="day",easel_owner="studio"} 100`,
		`easel_ledger_budget_left{easel_budget_window="day",easel_owner="studio"} 78`, "db_client_operation_duration_seconds_count{",
		`easel_setting_broken{easel_setting="EASEL_CALLERS_FILE"} 0`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	for _, row := range telemetry.Table { // event metrics need a receiver
		if row.From == telemetry.Contents && strings.Contains(string(text), row.Prometheus()) {
			t.Errorf("%s is exposed without a content store", row.Name)
		}
		if row.From == telemetry.Ledger && !strings.HasPrefix(row.Name, "easel.event") && !strings.Contains(string(text), "\n"+row.Prometheus()) {
			t.Errorf("no value for %s", row.Name)
		}
	}
}
