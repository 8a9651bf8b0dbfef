package systemtest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// logLine contains the attributes of a server's log line that the tests check.
type logLine struct {
	Msg, Method, Code, Peer, Generation, Model, Order string
	IdempotencyKey                                    string   `json:"idempotency_key"`
	Key                                               string   `json:"api_key"`
	Duration                                          *float64 `json:"duration_ms"`
	Messages                                          *int64
	TraceID                                           string `json:"trace_id"`
	SpanID                                            string `json:"span_id"`
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

// holdCall checks that a call's log line has all required attributes.
func (l logLine) holdCall(t *testing.T) {
	t.Helper()
	known := l.Code == "Unauthenticated" || l.Key != ""
	if l.Method == "" || l.Code == "" || l.Duration == nil || l.Peer == "" || len(l.TraceID) != 32 || len(l.SpanID) != 16 || !known {
		t.Errorf("the log line of a call lacks attributes: %+v", l)
	}
	streams := strings.HasSuffix(l.Method, "/WatchGeneration") || strings.HasSuffix(l.Method, "/DownloadGeneration")
	if streams != (l.Messages != nil) {
		t.Errorf("only a stream's log line must have the number of messages: %+v", l)
	}
	if l.Duration != nil && (*l.Duration <= 0 || *l.Duration > 60_000) {
		t.Errorf("a call took %v ms", *l.Duration)
	}
}

// Each call has one log line with its generation, model, order and idempotency key. At debug level, polls, leases
// and attempts are logged too. The log lines of an attempt have the trace ID of the call that placed the order.
func TestLogLinesIdentifyGenerationAndOrder(t *testing.T) {
	t.Parallel()
	f := newCatalog(t, 1, "--speed", "20")
	f.Sharing(writeTeams(t), proctest.Database(t)).With(map[string]string{"EASEL_LOG_LEVEL": "debug", "EASEL_POLL_MIN_INTERVAL": "200ms"}).Serve()
	env := f.caller("poster")
	f.Fault(`{"route": "POST /generations", "status": 503, "body": "down", "count": 1}`)
	order := []string{"generate", "studio/haiku", "prompt=sea", "--idempotency-key", "monday", "-q"}
	for range 2 { // the second command sends the same order again
		if got := runProgram(t, env, append(order, "--watch")...); got.exit != exitOK {
			t.Fatalf("exit %d\n%s", got.exit, got.stderr)
		}
	}
	id := proctest.Find(t, `(gen_\w+)`, runProgram(t, env, "list", "-q").stdout)
	runProgram(t, env, "get", id)
	runProgram(t, env, "delete", id, "--force")
	f.Server.Stop()
	orders, traces, spans, said := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]int{}
	for _, l := range logLines(t, f.Server.Stderr.String()) {
		method := strings.TrimPrefix(l.Method, "/easel.v1.GenerationService/")
		if l.Msg == "call" {
			l.holdCall(t)
			if spans[l.SpanID] {
				t.Errorf("a call is logged twice: %+v", l)
			}
			spans[l.SpanID] = true
		}
		switch {
		case l.Msg != "call":
			said[l.Msg]++
			if strings.HasPrefix(l.Msg, "order attempt") || l.Msg == "catalog failed" {
				traces[l.TraceID] = true
			}
			if strings.HasPrefix(l.Msg, "order ") && (!strings.HasPrefix(l.Order, "ord_") || l.Model != "studio/haiku" || l.IdempotencyKey != "monday") {
				t.Errorf("the log line of an order has wrong attributes: %+v", l)
			}
		case method == "CreateGeneration":
			orders[l.Order] = true
			if l.Generation != id || l.Model != "studio/haiku" || !strings.HasPrefix(l.Order, "ord_") || l.IdempotencyKey != "monday" {
				t.Errorf("the log line of CreateGeneration has wrong attributes: %+v", l)
			}
			delete(traces, l.TraceID)
		case method == "GetGeneration", method == "WatchGeneration", method == "DeleteGeneration":
			if said[method]++; l.Generation != id || method == "GetGeneration" && l.Model != "studio/haiku" {
				t.Errorf("the log line of %s has wrong attributes: %+v", method, l)
			}
		}
	}
	if len(orders) != 1 || len(traces) != 0 {
		t.Errorf("the log has %d orders, want 1; traces with an attempt but without a call: %v", len(orders), traces)
	}
	for _, line := range []string{
		"order lease acquired", "order lease renewal requested", "order attempt failed", "order attempt succeeded",
		"poll", "catalog request finished", "catalog failed", "GetGeneration", "WatchGeneration", "DeleteGeneration",
	} {
		if said[line] == 0 {
			t.Errorf("no log line has the message %q: %v", line, said)
		}
	}
	f.withoutKeys(f.Server.Stderr.String())
}

func (f facility) until(what string, seen func() bool) {
	f.Helper()
	waitFor(f, what, seen, f.Status)
}
