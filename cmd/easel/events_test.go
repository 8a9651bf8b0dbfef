package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/proctest"
)

// webhookSecret is the content of the file with the secret for signing events.
const webhookSecret = "whsec_ZWFzZWwgZGV2IHNpZ25zIGV2ZXJ5IGV2ZW50IHdpdGggdGhpcw==\n"

func TestOperatorCanReplayDeliveredEvents(t *testing.T) {
	delivered := make(chan string, 10)
	var answer atomic.Int64
	answer.Store(http.StatusNoContent)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e struct{ ID, Type, Subject string }
		_ = json.NewDecoder(r.Body).Decode(&e)
		w.WriteHeader(int(answer.Load()))
		delivered <- e.ID + " " + e.Type + " " + e.Subject
	}))
	defer receiver.Close()
	banner, _ := devOn(t, "--callers", proctest.File(t, fmt.Sprintf("teams: {dev: {events: {url: %q, secret_file: %q}}}\ncallers: [{name: dev-service, team: dev, operator: true, tokens: [%q]}]\n",
		receiver.URL+"/", proctest.File(t, webhookSecret), auth.Hash("dev-token"))), "--speed", "20")
	order := runAs(t, banner, "dev-token", "generate", "studio/haiku", "prompt=rain", "-q")
	first := <-delivered
	if id, rest, _ := strings.Cut(first, " "); !strings.HasPrefix(id, "evt_") || rest != "easel.generation.succeeded "+strings.TrimSpace(order.stdout) {
		t.Errorf("delivered %q for the order %s%s", first, order.stdout, order.stderr)
	}
	env := map[string]string{"EASEL_ADMIN_ADDR": proctest.Find(t, `status +http://(\S+)`, banner), "EASEL_API_KEY": "dev-token"}
	run := func(exit int, want string, args ...string) {
		t.Helper()
		got := easelEnv(t.Context(), nil, env, append([]string{"events"}, args...)...)
		if got.exit != exit || !strings.Contains(got.stdout+got.stderr, want) {
			t.Errorf("%q: exit %d, printed\n%s%s", args, got.exit, got.stdout, got.stderr)
		}
	}
	run(exitOK, "easel.generation.succeeded", "list")
	run(exitOK, `"team":"dev"`, "list", "--team", "dev", "--since", "1h", "-o", "json")
	run(exitOK, "Nothing found", "list", "--team", "nobody")
	run(exitOK, "Nothing found", "list", "--given-up", "--since", "2027-01-31T12:00:00Z")
	run(exitUsage, "--since: must be a time", "list", "--since", "yesterday")
	run(exitUsage, "--since", "replay", "--team", "dev")
	run(exitUsage, "no team of this name that receives events", "replay", "--team", "nobody", "--since", "1h")
	run(exitOK, "0 events will be sent again", "replay", "--team", "dev", "--since", "1h", "--given-up")
	run(exitOK, "1 event will be sent again", "replay", "--team", "dev", "--since", "1h")
	if again := <-delivered; again != first {
		t.Errorf("the replay delivered %q, want %q", again, first)
	}
}

// A replay of many events runs in several steps, so that new orders do not wait for the complete replay. Each event
// must still be delivered exactly once.
func TestAReplayOfManyEventsSendsEachOnce(t *testing.T) {
	const events = 250
	delivered := make(chan string, 2*events)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { delivered <- r.Header.Get("Webhook-Id") }))
	defer receiver.Close()
	box := startSandbox(t)
	env := box.sharedSettings().With(proctest.Settings{
		"EASEL_CALLERS_FILE": proctest.File(t, fmt.Sprintf("teams: {studio: {events: {url: %q, secret_file: %q}}}\ncallers: [{name: poster, team: studio}, {name: ops, operator: true, tokens: [%q]}]\n",
			receiver.URL, proctest.File(t, webhookSecret), auth.Hash("ops-token"))),
		"EASEL_LEDGER_URL": "sqlite:" + filepath.Join(t.TempDir(), "ledger.db"),
	})
	led, err := ledger.Open(t.Context(), ledger.Config{URL: env["EASEL_LEDGER_URL"], Catalog: box.catalog()}) // creates the schema
	if err == nil {
		err = led.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	proctest.Exec(t, env["EASEL_LEDGER_URL"], fmt.Sprintf(`WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < %d)
		INSERT INTO events (id, owner, type, subject, position, percent, data, state, event_time) SELECT 'evt_' || n, 'studio', 'easel.generation.failed', 'gen_' || n, 1, 0, '{}', 1, %[2]d FROM s`,
		events, time.Now().UnixMicro()))
	operator := map[string]string{"EASEL_ADMIN_ADDR": startServe(t, env).addr("admin"), "EASEL_API_KEY": "ops-token"}
	if got := easelEnv(t.Context(), nil, operator, "events", "replay", "--team", "studio", "--since", "1h"); got.exit != exitOK || !strings.Contains(got.stdout, "250 events will be sent again") {
		t.Errorf("exit %d, printed\n%s%s", got.exit, got.stdout, got.stderr)
	}
	ids := map[string]bool{}
	for range events {
		ids[<-delivered] = true
	}
	if len(ids) != events {
		t.Errorf("got %d different events, want %d", len(ids), events)
	}
	audit := easelEnv(t.Context(), nil, operator, "audit", "-o", "json")
	if steps := strings.Count(audit.stdout, "events.replay"); steps != 3 {
		t.Errorf("got %d audit lines for the replay, want 3\n%s", steps, audit.stdout)
	}
}

// TestEventContainsPublicURLOfCopiedResult checks that an event contains the URL of the result at the public address of
// a proxy. The server must return the copy at the path of this URL, because the event is sent only after the result was
// copied.
func TestEventContainsPublicURLOfCopiedResult(t *testing.T) {
	const public = "https://proxy.example/easel"
	delivered := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var e struct{ Data struct{ ResultURL string } }
		_ = json.NewDecoder(r.Body).Decode(&e)
		delivered <- e.Data.ResultURL
	}))
	defer receiver.Close()
	dir := t.TempDir()
	served := startServe(t, startSandbox(t, "--speed", "100").sharedSettings().With(proctest.Settings{
		"EASEL_CALLERS_FILE": proctest.File(t, fmt.Sprintf("teams: {studio: {events: {url: %q, secret_file: %q}}}\ncallers: [{name: poster, team: studio, tokens: [%q]}]\n",
			receiver.URL, proctest.File(t, webhookSecret), auth.Hash("poster-token"))),
		"EASEL_LEDGER_URL": "sqlite:" + filepath.Join(dir, "ledger.db"), "EASEL_CONTENT_URL": "file:" + filepath.Join(dir, "results"), "EASEL_PUBLIC_URL": public + "/",
	}))
	order := easelEnv(t.Context(), nil, map[string]string{"EASEL_ADDR": served.addr("grpc"), "EASEL_API_KEY": "poster-token"}, "generate", "studio/landscape", "prompt=sea", "size=64x40", "-q")
	at := <-delivered
	if want := public + "/v1/generations/" + strings.TrimSpace(order.stdout) + "/content"; at != want {
		t.Fatalf("the delivered URL is %q, want %q\n%s", at, want, order.stderr)
	}
	answer, body := proctest.Request(t, http.MethodGet, strings.Replace(at, public, "http://"+served.addr("http"), 1), "", "Authorization", "Bearer poster-token")
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Easel-Content-Source") != "copy" || !bytes.HasPrefix(body, []byte("\x89PNG")) {
		t.Errorf("the response is %s with %d bytes: %v", answer.Status, len(body), answer.Header)
	}
}

func TestMissingWebhookSecretFileIsRejected(t *testing.T) {
	file := proctest.File(t, "teams:\n  a:\n    events:\n      url: https://a.example/\n      secret_file: /nowhere/secret\ncallers: [{name: x, team: a}]\n")
	if got := easel(t.Context(), nil, "callers", "check", file); got.exit != exitUsage || !strings.Contains(got.stderr, file+": secret_file of the team a") {
		t.Errorf("check with a missing secret file: exit %d, printed\n%s%s", got.exit, got.stdout, got.stderr)
	}
	if got := easel(t.Context(), nil, "dev", "--callers", file); got.exit != exitUsage || !strings.Contains(got.stderr, "secret_file") {
		t.Errorf("start with a missing secret file: exit %d, printed\n%s", got.exit, got.stderr)
	}
}
