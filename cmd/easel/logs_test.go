package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// logLine is a line of the log of a server.
type logLine struct {
	Level, Msg, Method, Code, Reason, Peer, Key, Kind, Error string
	Duration                                                 *int64
	Messages                                                 *int64
	TraceID                                                  string `json:"trace_id"`
	SpanID                                                   string `json:"span_id"`
}

func logLines(t *testing.T, text string) (lines []logLine) {
	t.Helper()
	for _, line := range linesOf(text) {
		var l logLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		lines = append(lines, l)
	}
	return lines
}

func TestTheLogHasOneLineForEachCallAndNothingTwice(t *testing.T) {
	f := newFacility(t, 1)
	env := map[string]string{"EASEL_ADDR": f.grpc, "EASEL_API_KEY": f.keys[0]}
	f.watch(f.keys[0], 1, 1)
	for _, args := range [][]string{{"account"}, {"models"}, {"list"}, {"get", "gen_nope"}, {"quote", "studio/landscape", "size=9x9"}} {
		easelEnv(t.Context(), nil, env, args...)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.rest+"/v1/account", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+f.keys[0])
	answer, err := http.DefaultClient.Do(r)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer, err)
	}
	answer.Body.Close()

	f.tell(http.MethodPost, "http://"+f.sandbox+"/_sandbox/faults", `{"status": 503, "body": "down"}`)
	f.until("several failed polls", func() bool { return f.failures() >= 3 })
	easelEnv(t.Context(), nil, env, "account", "--timeout", "2s")
	before := int(f.measured("rpc_server_call_duration_seconds_count"))
	f.served.stop()
	after := 0

	spans, failures := map[string]bool{}, map[string]bool{}
	for _, l := range logLines(t, f.served.stderr.String()) {
		switch l.Msg {
		case "call":
			after++
			known := l.Code == "Unauthenticated" || l.Key != ""
			if l.Method == "" || l.Code == "" || l.Duration == nil || l.Peer == "" || len(l.TraceID) != 32 || len(l.SpanID) != 16 || !known {
				t.Errorf("a call is logged as %+v", l)
			}
			if strings.HasSuffix(l.Method, "/WatchGeneration") != (l.Messages != nil) {
				t.Errorf("a stream says how much it sent, and nothing else does: %+v", l)
			}
			if spans[l.SpanID] {
				t.Errorf("a call is logged twice: %+v", l)
			}
			spans[l.SpanID] = true
		case "the catalog fails":
			about := fmt.Sprint(l.Key, l.Kind)
			if failures[about] || l.Error == "" || len(l.Key) != 8 {
				t.Errorf("a failure is logged twice, or says too little: %+v", l)
			}
			failures[about] = true
		}
	}
	if len(failures) != 1 {
		t.Errorf("%d failures are logged", len(failures))
	}
	// The watch and the question of its server end with the stop, after the metrics were read.
	if after < before+1 || after > before+2 || before < 8 {
		t.Errorf("%d calls are logged, %d were measured before the last ended\n%s", after, before, f.served.stderr)
	}
	f.withoutKeys(f.served.stderr.String())
}

func (f *facility) status() string {
	return f.tell(http.MethodGet, "http://"+f.admin+"/status.json", "")
}

// failures is how many polls have failed in a row under the key that fares worst.
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
	for deadline := time.Now().Add(30 * time.Second); !seen(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("no %s\n%s", what, f.status())
		}
	}
}
