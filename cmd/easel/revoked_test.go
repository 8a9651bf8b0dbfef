package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/proctest"
)

// The server logs one line for each stream. A second line would show that a client has reopened its watch.
func TestAWatchEndsWithTheAPIKeyThatIsRevokedMeanwhile(t *testing.T) {
	t.Parallel()
	box := start(t, nil, func(stdout, _ string) bool { return strings.Contains(stdout, "easel serve") },
		"sandbox", "--addr", "127.0.0.1:0", "--admin", "--speed", "0.01")
	serve := start(t, map[string]string{
		"EASEL_UPSTREAM_URL": proctest.Find(t, `(http://\S+/catalog)`, box.stdout.String()),
		"EASEL_GRPC_ADDR":    "127.0.0.1:0", "EASEL_HTTP_ADDR": "127.0.0.1:0", "EASEL_ADMIN_ADDR": "127.0.0.1:0",
	}, func(_, stderr string) bool { return strings.Count(stderr, `"listening"`) == 3 }, "serve")
	env := map[string]string{
		"EASEL_API_KEY": proctest.Find(t, `(sandbox_live_\w+)`, box.stdout.String()),
		"EASEL_ADDR":    proctest.Find(t, `"grpc","addr":"([^"]+)"`, serve.stderr.String()),
	}
	ordered := easelEnv(t.Context(), nil, env, "generate", "studio/haiku", "prompt=sea", "-q")
	watches := map[string]*running{}
	for name, args := range map[string][]string{
		"one":        {"watch", strings.TrimSpace(ordered.stdout)},
		"everything": {"watch"},
	} {
		watches[name] = start(t, env, func(stdout, _ string) bool { return strings.Contains(stdout, "queued") }, args...)
	}
	revoke(t, proctest.Find(t, `(http://[^/\s]+)/\S*catalog`, box.stdout.String()), env["EASEL_API_KEY"])
	for name, watch := range watches {
		select {
		case <-watch.ended:
		case <-time.After(20 * time.Second):
			t.Errorf("the watch of %s continues:\n%s", name, watch.stderr)
		}
		if code := watch.stop(); code != exitCredential || !strings.Contains(watch.stderr.String(), "UPSTREAM_CREDENTIAL_REJECTED") {
			t.Errorf("the watch of %s ended with %d\n%s", name, code, watch.stderr)
		}
	}
	serve.stop() // all calls are logged now
	for _, call := range []string{"WatchGeneration", "WatchGenerations"} {
		if n := strings.Count(serve.stderr.String(), `"method":"/easel.v1.GenerationService/`+call+`","code"`); n != 1 {
			t.Errorf("%d streams of %s\n%s", n, call, serve.stderr)
		}
	}
}

// revoke revokes an API key in the sandbox.
func revoke(t *testing.T, sandbox, key string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, sandbox+"/_sandbox/keys/"+key, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode >= http.StatusMultipleChoices {
		t.Fatalf("the API key is revoked with %s", answer.Status)
	}
}
