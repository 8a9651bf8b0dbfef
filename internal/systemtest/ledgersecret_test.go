package systemtest

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// secretLedger returns the URL of a database whose password is [canary]. lockOut changes the password in the
// database and closes all connections, so that the URL no longer works.
func secretLedger(t *testing.T) (ledger string, lockOut func()) {
	t.Helper()
	database := proctest.Database(t)
	address, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(address.Path, "/")
	role := "keeper_of_" + name
	proctest.Exec(t, database, "CREATE ROLE "+role+" LOGIN PASSWORD '"+canary+"'; ALTER DATABASE "+name+" OWNER TO "+role)
	address.User = url.UserPassword(role, canary)
	return address.String(), func() {
		t.Helper()
		proctest.Exec(t, database, "ALTER ROLE "+role+" PASSWORD 'another'; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '"+role+"'")
	}
}

func TestLedgerPasswordAppearsInNoOutputOfProcess(t *testing.T) {
	ledger, lockOut := secretLedger(t)
	collector := &sink{}
	telemetry := httptest.NewServer(collector)
	defer telemetry.Close()
	settings := map[string]string{
		"EASEL_UPSTREAM_URL": "http://127.0.0.1:1/catalog", "EASEL_LEDGER_URL": ledger, "EASEL_LOG_LEVEL": "debug",
		"OTEL_EXPORTER_OTLP_ENDPOINT": telemetry.URL, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
		"OTEL_METRIC_EXPORT_INTERVAL": "200",
	}
	served := proctest.Serve(t, settings)
	read := func(page string, code int) {
		t.Helper()
		answer, text := proctest.Request(t, http.MethodGet, "http://"+served.Admin+page, "")
		if answer.StatusCode != code {
			t.Errorf("%s: %s", page, answer.Status)
		}
		searchCanary(t, page, string(text))
	}
	for _, page := range []string{"/", "/status.json", "/metrics", "/orders", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2"} {
		read(page, http.StatusOK)
	}
	lockOut()
	read("/orders", http.StatusServiceUnavailable)
	read("/status.json", http.StatusOK)
	if code := served.Stop(); code != exitOK {
		t.Errorf("the server exited with %d", code)
	}
	if collector.text.Len() < 1000 {
		t.Errorf("only %d bytes of telemetry, which is too little for this test", collector.text.Len())
	}
	searchCanary(t, "the logs", served.Stderr.String())
	searchCanary(t, "spans and metrics", collector.text.String())
}
