package systemtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// logLine is a line of a server's log.
type logLine struct {
	Level, Msg, Method, Code, Reason, Peer, Kind, Error string
	Generation, Model, Order, Outcome, Request          string
	IdempotencyKey                                      string   `json:"idempotency_key"`
	Key                                                 string   `json:"api_key"`
	Duration                                            *float64 `json:"duration_ms"`
	Messages                                            *int64
	TraceID                                             string `json:"trace_id"`
	SpanID                                              string `json:"span_id"`
}

func logLines(t *testing.T, text string) (lines []logLine) {
	t.Helper()
	for line := range strings.Lines(text) {
		var l logLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		lines = append(lines, l)
	}
	return lines
}

// holdCall checks that the line of a call has all required attributes.
func (l logLine) holdCall(t *testing.T) {
	t.Helper()
	known := l.Code == "Unauthenticated" || l.Key != ""
	if l.Method == "" || l.Code == "" || l.Duration == nil || l.Peer == "" || len(l.TraceID) != 32 || len(l.SpanID) != 16 || !known {
		t.Errorf("a call is logged as %+v", l)
	}
	streams := strings.HasSuffix(l.Method, "/WatchGeneration") || strings.HasSuffix(l.Method, "/DownloadGeneration")
	if streams != (l.Messages != nil) {
		t.Errorf("a stream says how much it sent, and nothing else does: %+v", l)
	}
	if l.Duration != nil && (*l.Duration <= 0 || *l.Duration > 60_000) {
		t.Errorf("a call took %v ms", *l.Duration)
	}
}

// The line of a call has the generation, model, order and idempotency key. At debug level, each poll, claim and attempt
// has a line in the trace of its cause.
func TestTheLogIsSearchedByGenerationModelOrderAndKey(t *testing.T) {
	t.Parallel()
	f := newFacility(t, 1, "--speed", "20")
	f.served.Stop()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(f.keys[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	f.serve(map[string]string{"EASEL_UPSTREAM_KEY_FILE": key, "EASEL_CALLERS_FILE": teamsOf(t), "EASEL_LEDGER_URL": proctest.Database(t), "EASEL_LOG_LEVEL": "debug", "EASEL_POLL_MIN_INTERVAL": "200ms"})
	env := map[string]string{"EASEL_ADDR": f.grpc, "EASEL_API_KEY": "poster"}
	f.request(http.MethodPost, "http://"+f.sandbox+"/_sandbox/faults", `{"route": "POST /generations", "status": 503, "body": "down", "count": 1}`)
	order := []string{"generate", "studio/haiku", "prompt=sea", "--idempotency-key", "monday", "-q"}
	for range 2 { // the second is a repeat
		if got := easel(t, env, append(order, "--watch")...); got.exit != exitOK {
			t.Fatalf("exit %d\n%s", got.exit, got.stderr)
		}
	}
	id := proctest.Find(t, `(gen_\w+)`, easel(t, env, "list", "-q").stdout)
	easel(t, env, "get", id)
	easel(t, env, "delete", id, "--force")
	f.served.Stop()
	orders, traces, said := map[string]bool{}, map[string]bool{}, map[string]int{}
	for _, l := range logLines(t, f.served.Stderr.String()) {
		method := strings.TrimPrefix(l.Method, "/easel.v1.GenerationService/")
		switch {
		case l.Msg != "call":
			said[l.Msg]++
			if strings.Contains(l.Msg, "attempt of an order") {
				traces[l.TraceID] = true
			}
			if strings.Contains(l.Msg, " of an order") && (!strings.HasPrefix(l.Order, "ord_") || l.Model != "studio/haiku" || l.IdempotencyKey != "monday") {
				t.Errorf("a line of an order names %+v", l)
			}
		case method == "CreateGeneration":
			orders[l.Order] = true
			if l.Generation != id || l.Model != "studio/haiku" || !strings.HasPrefix(l.Order, "ord_") || l.IdempotencyKey != "monday" {
				t.Errorf("the line of an order names %+v", l)
			}
			delete(traces, l.TraceID)
		case method == "GetGeneration", method == "WatchGeneration", method == "DeleteGeneration":
			if said[method]++; l.Generation != id || method == "GetGeneration" && l.Model != "studio/haiku" {
				t.Errorf("the line of %s names %+v", method, l)
			}
		}
	}
	if len(orders) != 1 || len(traces) != 0 {
		t.Errorf("%d orders are named, and attempts are in the traces %v, which are of no call", len(orders), traces)
	}
	for _, line := range []string{
		"an order is claimed", "a claim of an order is renewed", "an attempt of an order has failed", "an attempt of an order has placed it",
		"poll", "the catalog was asked", "GetGeneration", "WatchGeneration", "DeleteGeneration",
	} {
		if said[line] == 0 {
			t.Errorf("no line says %q: %v", line, said)
		}
	}
	f.withoutKeys(f.served.Stderr.String())
}

func TestTheLogHasOneLineForEachCallAndNothingTwice(t *testing.T) {
	t.Parallel()
	f := newFacility(t, 1)
	env := map[string]string{"EASEL_ADDR": f.grpc, "EASEL_API_KEY": f.keys[0]}
	f.watch(f.keys[0], 1, 1)
	for _, args := range [][]string{{"account"}, {"models"}, {"list"}, {"get", "gen_nope"}, {"quote", "studio/landscape", "size=9x9"}} {
		easel(t, env, args...)
	}
	f.fetch("/v1/account", http.StatusOK)

	f.request(http.MethodPost, "http://"+f.sandbox+"/_sandbox/faults", `{"status": 503, "body": "down"}`)
	f.until("several failed polls", func() bool { return f.failures() >= 3 })
	easel(t, env, "account", "--timeout", "2s")
	before := int(f.measured("rpc_server_call_duration_seconds_count"))
	f.served.Stop()
	after := 0

	spans, failures := map[string]bool{}, map[string]bool{}
	for _, l := range logLines(t, f.served.Stderr.String()) {
		switch l.Msg {
		case "call":
			after++
			l.holdCall(t)
			if spans[l.SpanID] {
				t.Errorf("a call is logged twice: %+v", l)
			}
			spans[l.SpanID] = true
		case "catalog failed":
			if l.Error == "" || len(l.Key) != 8 {
				t.Errorf("a failure says too little: %+v", l)
			}
			failures[fmt.Sprint(l.Key, l.Kind)] = true
		}
	}
	if len(failures) != 1 {
		t.Errorf("%d failures are logged", len(failures))
	}
	// The watch and the health check of its server end at shutdown, after the metrics were read.
	if after < before+1 || after > before+2 || before < 8 {
		t.Errorf("%d calls are logged, %d were measured before the last ended\n%s", after, before, f.served.Stderr)
	}
	f.withoutKeys(f.served.Stderr.String())
}

func TestAWholeJobAndItsFailuresAreLoggedOnceEachWithTheirTrace(t *testing.T) {
	t.Parallel()
	f := newFacility(t, 1, "--speed", "20")
	env := map[string]string{"EASEL_ADDR": f.grpc, "EASEL_API_KEY": f.keys[0]}
	file := filepath.Join(t.TempDir(), "sea.png")
	order := []string{"generate", "studio/landscape", "prompt=sea", "size=64x40"}
	if got := easel(t, env, append(order, "--out", file)...); got.exit != exitOK {
		t.Fatalf("exit %d\n%s", got.exit, got.stderr)
	}
	listed := easel(t, env, "list", "-q")
	id := proctest.Find(t, `(gen_\w+)`, listed.stdout)
	f.fetch("/v1/generations/"+id+"/content", http.StatusOK)

	f.request(http.MethodPost, "http://"+f.sandbox+"/_sandbox/faults", `{"route": "GET /generations/{id}/content", "status": 503, "body": "down"}`)
	f.fetch("/v1/generations/"+id+"/content", http.StatusServiceUnavailable)
	f.fetch("/v1/generations/"+id+"/content", http.StatusServiceUnavailable)
	f.request(http.MethodPost, "http://"+f.sandbox+"/_sandbox/faults", `{"route": "POST /generations", "status": 429, "header": {"Retry-After": "60"}}`)
	if got := easel(t, env, append(order, "--timeout", "1s", "-q")...); got.exit != exitRetry {
		t.Fatalf("exit %d\n%s", got.exit, got.stderr)
	}
	measured := int(f.measured("rpc_server_call_duration_seconds_count"))
	f.served.Stop()

	text := f.served.Stderr.String()
	calls, spans, traces, kinds := map[string]int{}, map[string]bool{}, map[string]bool{}, map[string]string{}
	for _, l := range logLines(t, text) {
		switch l.Msg {
		case "call":
			l.holdCall(t)
			calls[strings.TrimPrefix(l.Method, "/easel.v1.GenerationService/")+" "+l.Code]++
			if spans[l.SpanID] {
				t.Errorf("a call is logged twice: %+v", l)
			}
			spans[l.SpanID], traces[l.TraceID] = true, true
		case "catalog failed":
			kinds[l.Kind] = l.TraceID
		}
	}
	for kind, trace := range kinds {
		if !traces[trace] {
			t.Errorf("what fails as %s is in the trace %q, which no call has", kind, trace)
		}
	}
	if len(kinds) != 2 || kinds["unavailable"] == "" || kinds["rate limited"] == "" {
		t.Errorf("logged kinds of catalog failures: %v", kinds)
	}
	if calls["CreateGeneration OK"] != 1 || calls["WatchGeneration OK"] != 1 || calls["DownloadGeneration OK"] != 2 || calls["DownloadGeneration Unavailable"] != 2 || len(spans) != measured {
		t.Errorf("the calls %v are logged, and %d were measured\n%s", calls, measured, text)
	}
	f.withoutKeys(text)
}

// fetch sends a REST request, and checks the status of the response.
func (f *facility) fetch(path string, want int) {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, "http://"+f.rest+path, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+f.keys[0])
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != want {
		f.t.Fatalf("%s: %s %v", path, answer.Status, err)
	}
}

func (f *facility) status() string {
	return f.request(http.MethodGet, "http://"+f.admin+"/status.json", "")
}

// failures returns the number of consecutive failed polls of the API key with the most failures.
func (f *facility) failures() int {
	var status struct{ Keys []struct{ Failures int } }
	if err := json.Unmarshal([]byte(f.status()), &status); err != nil {
		f.t.Fatal(err)
	}
	if len(status.Keys) == 0 {
		return 0
	}
	return status.Keys[0].Failures
}

func (f *facility) until(what string, seen func() bool) {
	f.t.Helper()
	waitFor(f.t, what, seen, f.status)
}
