package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

func TestDevTellsAReceiver(t *testing.T) {
	told := make(chan string, 10)
	var answer atomic.Int64
	answer.Store(http.StatusNoContent)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e struct{ ID, Type, Subject string }
		_ = json.NewDecoder(r.Body).Decode(&e)
		w.WriteHeader(int(answer.Load()))
		told <- e.ID + " " + e.Type + " " + e.Subject
	}))
	defer receiver.Close()
	banner, _ := devOn(t, "--events", receiver.URL+"/", "--speed", "20")
	if !strings.Contains(banner, receiver.URL) || !strings.Contains(banner, "whsec_") {
		t.Errorf("the banner is\n%s", banner)
	}
	order := as(t, banner, proctest.Find(t, `key +(\S+)`, banner), "generate", "studio/haiku", "prompt=rain", "-q")
	first := <-told
	if id, rest, _ := strings.Cut(first, " "); !strings.HasPrefix(id, "evt_") || rest != "easel.generation.succeeded "+strings.TrimSpace(order.stdout) {
		t.Errorf("told is %q of %s%s", first, order.stdout, order.stderr)
	}
	env := map[string]string{"EASEL_ADMIN_ADDR": proctest.Find(t, `status +http://(\S+)`, banner), "EASEL_API_KEY": proctest.Find(t, `key +(\S+)`, banner)}
	run := func(exit int, want string, args ...string) {
		t.Helper()
		got := easelEnv(t.Context(), nil, env, append([]string{"events"}, args...)...)
		if got.exit != exit || !strings.Contains(got.stdout+got.stderr, want) {
			t.Errorf("%q: exit %d, printed\n%s%s", args, got.exit, got.stdout, got.stderr)
		}
	}
	run(exitOK, "easel.generation.succeeded", "list")
	run(exitOK, `"team":"dev"`, "list", "--team", "dev", "--since", "1h", "-o", "json")
	run(exitOK, "There are none", "list", "--team", "nobody")
	run(exitOK, "There are none", "list", "--given-up", "--since", "2027-01-31T12:00:00Z")
	run(exitUsage, "--since must be a time", "list", "--since", "yesterday")
	run(exitUsage, "--since is missing", "replay", "--team", "dev")
	run(exitUsage, "no events for a team of this name", "replay", "--team", "nobody", "--since", "1h")
	run(exitOK, "0 events will be sent again", "replay", "--team", "dev", "--since", "1h", "--given-up")
	run(exitOK, "1 event will be sent again", "replay", "--team", "dev", "--since", "1h")
	if again := <-told; again != first {
		t.Errorf("told again is %q, and was %q", again, first)
	}
}

func TestAReceiverThatCanNotBeMeantIsRefused(t *testing.T) {
	for _, url := range []string{"http://elsewhere.example/", "ftp://127.0.0.1/", "nowhere"} {
		if got := easel(t.Context(), nil, "dev", "--events", url); got.exit != exitUsage || !strings.Contains(got.stderr, "--events") {
			t.Errorf("%s: exit %d, printed\n%s", url, got.exit, got.stderr)
		}
	}
	file := write(t, "teams:\n  a:\n    events:\n      url: https://a.example/\n      secret_file: /nowhere/secret\ncallers: [{name: x, team: a}]\n")
	if got := easel(t.Context(), nil, "callers", "check", file); got.exit != exitUsage || !strings.Contains(got.stdout, file+":5: secret_file of the team a") {
		t.Errorf("a missing file of secrets: exit %d, printed\n%s%s", got.exit, got.stdout, got.stderr)
	}
	if got := easel(t.Context(), nil, "dev", "--callers", file); got.exit != exitUsage || !strings.Contains(got.stderr, "secret_file") {
		t.Errorf("a start with it: exit %d, printed\n%s", got.exit, got.stderr)
	}
}
