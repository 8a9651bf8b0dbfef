package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

func TestTheMetricsAddressServesScrapersAndNothingOfOperators(t *testing.T) {
	t.Parallel()
	four := func(_, stderr string) bool { return strings.Count(stderr, "listening") == 4 }
	served := start(t, map[string]string{
		"EASEL_UPSTREAM_URL": "http://127.0.0.1:1",
		"EASEL_GRPC_ADDR":    "127.0.0.1:0", "EASEL_HTTP_ADDR": "127.0.0.1:0", "EASEL_ADMIN_ADDR": "127.0.0.1:0", "EASEL_METRICS_ADDR": "127.0.0.1:0",
	}, four, "serve")
	defer served.stop()
	at := func(server string) string {
		return "http://" + proctest.Find(t, `"server":"`+server+`","addr":"([^"]+)"`, served.stderr.String())
	}
	for path, want := range map[string]int{"/metrics": http.StatusOK, "/healthz": http.StatusOK, "/readyz": http.StatusOK, "/": http.StatusNotFound, "/orders": http.StatusNotFound, "/status.json": http.StatusNotFound, "/debug/pprof/": http.StatusNotFound} {
		if code, text := fetch(t, at("metrics")+path); code != want {
			t.Errorf("the metrics address answers %s with %d: %s", path, code, text)
		}
	}
	if _, text := fetch(t, at("metrics")+"/metrics"); !strings.Contains(text, "\neasel_") {
		t.Errorf("it has none of Easel's metrics: %s", text)
	}
	if code, _ := fetch(t, at("admin")+"/orders"); code == http.StatusNotFound {
		t.Error("the admin address no longer serves orders")
	}
}
