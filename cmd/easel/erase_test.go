package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/proctest"
)

// writeEnded writes one labeled order for each of the generations to the ledger at url. It records that all generations
// except the last one have succeeded. upstream is the catalog's base URL.
func writeEnded(t *testing.T, url, upstream string, generations ...string) {
	t.Helper()
	led, err := ledger.Open(t.Context(), ledger.Config{URL: url, Catalog: upstream})
	if err != nil {
		t.Fatal(err)
	}
	defer led.Close()
	for n, generation := range generations {
		o, _, err := led.Write(t.Context(), ledger.Request{
			Namespace: "studio", Owner: "studio", Caller: "poster-service", IdempotencyKey: generation, UpstreamKey: generation, APIKey: "a", ModelID: "m", Digest: "d",
			Labels: map[string]string{"customer": "no-4711"},
		})
		if err == nil {
			_, err = led.Conclude(t.Context(), o.ID, 1, ledger.Conclusion{Outcome: lifecycle.Named, Generation: generation})
		}
		if err == nil && n < len(generations)-1 {
			_, err = led.Observe(t.Context(), generation, ledger.Observation{Observation: lifecycle.Observation{Status: lifecycle.Succeeded, CostCents: new(int64(9)), Whole: true}, Record: "{}"})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestOperatorErasesContentOfSelectedOrders(t *testing.T) {
	upstream := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(upstream.Close)
	url := "sqlite:" + filepath.Join(t.TempDir(), "book.db")
	writeEnded(t, url, upstream.URL, "gen_1", "gen_2", "gen_3")
	served := startServe(t, map[string]string{"EASEL_UPSTREAM_URL": upstream.URL, "EASEL_UPSTREAM_KEY_FILE": proctest.File(t, "key\n"), "EASEL_LEDGER_URL": url})
	env := map[string]string{"EASEL_ADMIN_ADDR": served.addr("admin")}
	for _, step := range []struct {
		exit int
		says string
		args []string
	}{
		{exitUsage, "no orders selected", nil},
		{exitUsage, "--label must be", []string{"--label", "customer"}},
		{exitOK, "0 orders are erased", []string{"--label", "customer=1"}},
		{exitOK, "0 orders are erased", []string{"--owner", "shop", "--label", "customer=no-4711"}},
		{exitOK, "1 orders are erased", []string{"--generation", "gen_1"}},
		{exitOK, "2 orders are erased", []string{"--owner", "studio"}},
	} {
		got := easelEnv(t.Context(), nil, env, append([]string{"erase"}, step.args...)...)
		if got.exit != step.exit || !strings.Contains(got.stdout+got.stderr, step.says) {
			t.Errorf("%q: exit %d, printed\n%s%s", step.args, got.exit, got.stdout, got.stderr)
		}
	}
	if got := easelEnv(t.Context(), nil, env, "orders", "get", "gen_1"); got.exit != exitOK || strings.Contains(got.stdout, "no-4711") {
		t.Errorf("the erased order is\n%s%s", got.stdout, got.stderr)
	}
	if logged := served.stderr.String(); !strings.Contains(logged, `"action":"order.erase"`) || strings.Contains(logged, "no-4711") {
		t.Errorf("the log lacks order.erase or contains no-4711:\n%s", logged)
	}
}
