package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/terminal/terminaltest"
)

// evilCatalog starts a catalog whose strings are all malicious, and returns its URL.
func evilCatalog(t *testing.T) string {
	t.Helper()
	answer, err := json.Marshal(map[string]any{
		"id": terminaltest.Evil, "status": terminaltest.Evil, "name": terminaltest.Evil, "type": terminaltest.Evil, "balanceCents": terminaltest.Evil, "message": terminaltest.Evil, "code": terminaltest.Evil, terminaltest.Evil: terminaltest.Evil,
		"models": []any{map[string]any{"id": terminaltest.Evil, "name": terminaltest.Evil, "type": terminaltest.Evil, terminaltest.Evil: terminaltest.Evil}},
		"error":  map[string]any{"message": terminaltest.Evil, "code": terminaltest.Evil},
	})
	if err != nil {
		t.Fatal(err)
	}
	catalog := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/generations") {
			w.WriteHeader(http.StatusTeapot)
		}
		_, _ = w.Write(answer)
	}))
	t.Cleanup(catalog.Close)
	return catalog.URL
}

func TestAttackByCatalogCannotInjectTerminalCodes(t *testing.T) {
	upstream := evilCatalog(t)
	for _, form := range [][]string{{}, {"-o", "json"}} {
		got := easelEnv(t.Context(), nil, map[string]string{"EASEL_API_KEY": "key"}, append([]string{"doctor", "--upstream-url", upstream}, form...)...)
		terminaltest.WantHarmless(t, fmt.Sprintf("doctor %v", form), got.stdout+got.stderr)
		if !strings.Contains(got.stdout+got.stderr, `\u001b[2J`) {
			t.Errorf("doctor %v printed none of the malicious strings:\n%s%s", form, got.stdout, got.stderr)
		}
	}
	served := startServe(t, map[string]string{"EASEL_UPSTREAM_URL": upstream, "EASEL_LOG_LEVEL": "debug"})
	for _, command := range []string{"account", "models", "list"} {
		got := easelEnv(t.Context(), nil, map[string]string{"EASEL_API_KEY": "key"}, command, "--addr", served.addr("grpc"), "--timeout", "2s")
		terminaltest.WantHarmless(t, command, got.stdout+got.stderr)
	}
	terminaltest.WantHarmless(t, "logs", served.stderr.String())
}
