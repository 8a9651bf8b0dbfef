package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/proctest"
)

// TestAnOrderThatTheCatalogRefusesForNowSaysSo uses a catalog that responds with 503 until the commands have reported the
// delay.
func TestAnOrderThatTheCatalogRefusesForNowSaysSo(t *testing.T) {
	t.Parallel()
	box := start(t, nil, func(stdout, _ string) bool { return strings.Contains(stdout, "/_sandbox/") }, "sandbox", "--addr", "127.0.0.1:0", "--admin")
	faults := "http://" + proctest.Find(t, `http://(127\.0\.0\.1:\d+)`, box.stdout.String()) + "/_sandbox/faults"
	facade := start(t, map[string]string{
		"EASEL_UPSTREAM_URL": proctest.Find(t, `(http://\S+/catalog)`, box.stdout.String()),
		"EASEL_GRPC_ADDR":    "127.0.0.1:0", "EASEL_HTTP_ADDR": "127.0.0.1:0", "EASEL_ADMIN_ADDR": "127.0.0.1:0",
	}, func(_, stderr string) bool { return strings.Count(stderr, `"listening"`) == 3 }, "serve")
	env := map[string]string{
		"EASEL_ADDR":    proctest.Find(t, `"server":"grpc","addr":"([^"]+)"`, facade.stderr.String()),
		"EASEL_API_KEY": proctest.Find(t, `(sandbox_live_\w+)`, box.stdout.String()),
	}
	inject(t, http.MethodPost, faults, `{"route": "POST /generations", "status": 503, "count": 100000}`)
	ordered := map[string]*running{}
	for flags, said := range map[string]string{
		"":        "no response to the order yet; waiting\n",
		"-o json": `{"note":"no response to the order yet; waiting"}`,
	} {
		began := time.Now()
		ordered[flags] = start(t, env, func(_, stderr string) bool { return strings.Contains(stderr, said) },
			append([]string{"generate", "studio/haiku", "prompt=rain"}, strings.Fields(flags)...)...)
		if took := time.Since(began); took > 15*time.Second { // 5 s, plus the delays of a busy machine
			t.Errorf("%q: said after %v", flags, took)
		}
	}
	inject(t, http.MethodDelete, faults, "")
	for flags, command := range ordered {
		<-command.ended
		if code := command.stop(); code != exitOK {
			t.Errorf("%q: exit %d\n%s", flags, code, command.stderr.String())
		}
	}
}

// inject sends a request to a sandbox's list of faults. POST adds a fault, and DELETE removes all faults.
func inject(t *testing.T, method, faults, fault string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, faults, strings.NewReader(fault))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode >= http.StatusMultipleChoices {
		t.Fatalf("%s: %s", fault, answer.Status)
	}
}
