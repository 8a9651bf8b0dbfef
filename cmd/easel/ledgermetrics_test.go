package main

import (
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

func TestMetricsExposeLedgerTotals(t *testing.T) {
	url, upstream := "sqlite:"+filepath.Join(t.TempDir(), "book.db"), "http://127.0.0.1:1"
	writeUnknown(t, ledger.Config{URL: url, Catalog: upstream, ResendWindow: 12 * time.Hour}, "key")
	served := startServe(t, map[string]string{
		"EASEL_UPSTREAM_URL": upstream, "EASEL_UPSTREAM_KEY_FILE": proctest.File(t, "key\n"), "EASEL_LEDGER_URL": url,
		"EASEL_CALLERS_FILE": proctest.File(t, "teams: {studio: {budget: {daily_cents: 100}}}\ncallers: [{name: poster-service, team: studio, tokens: [\""+auth.Hash("t")+"\"]}]\n"),
		"EASEL_METRICS_ADDR": "127.0.0.1:0",
	})
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusOK, "/": http.StatusNotFound, "/orders": http.StatusNotFound, "/status.json": http.StatusNotFound, "/debug/pprof/": http.StatusNotFound} {
		if answer, body := proctest.Request(t, http.MethodGet, "http://"+served.addr("metrics")+path, ""); answer.StatusCode != want {
			t.Errorf("the metrics address responds to %s with %s: %s", path, answer.Status, body)
		}
	}
	_, text := proctest.Request(t, http.MethodGet, "http://"+served.addr("metrics")+"/metrics", "")
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
	for _, row := range telemetry.Table { // event metrics are not checked, because they have no values without a receiver
		if row.From == telemetry.Contents && strings.Contains(string(text), row.Prometheus()) {
			t.Errorf("%s is exposed without a content store", row.Name)
		}
		if row.From == telemetry.Ledger && !strings.HasPrefix(row.Name, "easel.event") && !strings.Contains(string(text), "\n"+row.Prometheus()) {
			t.Errorf("no value for %s", row.Name)
		}
	}
}
