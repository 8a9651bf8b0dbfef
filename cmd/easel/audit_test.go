package main

import (
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/admin"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/proctest"
)

// changing is a test server with data for every kind of change that an operator can make.
type changing struct {
	*testing.T

	served       *running
	db           *sql.DB
	callers      string // path of the callers file
	key          string // path of the file with the shared API key
	unknown      string // ID of an order whose outcome is unknown
	mu           sync.Mutex
	askedDeleted []string // IDs of the generations that the catalog was asked to delete
}

const changingCallers = `teams:
  studio: {budget: {daily_cents: 300}, events: {url: "http://127.0.0.1:1/", secret_file: %q}}
callers:
- {name: poster-service, team: studio, tokens: [%q]}
- {name: ops, operator: true, tokens: [%q]}
%s`

func startChanging(t *testing.T, more map[string]string) *changing {
	t.Helper()
	c := &changing{T: t, callers: filepath.Join(t.TempDir(), "callers.yaml"), key: proctest.File(t, "key-4712\n")}
	upstream := httptest.NewServer(http.HandlerFunc(c.serveCatalog))
	t.Cleanup(upstream.Close)
	file := filepath.Join(t.TempDir(), "book.db")
	url := "sqlite:" + file
	writeEnded(t, url, upstream.URL, "gen_1", "gen_2", "gen_3", "gen_4")
	c.unknown, _ = writeUnknown(t, ledger.Config{URL: url, Catalog: upstream.URL, ResendWindow: 12 * time.Hour}, "key")
	var err error
	if c.db, err = sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.db.Close() })
	c.change("DELETE FROM events")
	c.change("INSERT INTO events (id, owner, type, subject, position, percent, data, state, event_time) VALUES ('e', 'studio', 't', 's', 1, 0, '{}', 2, easel_now())")
	c.writeCallers("")
	c.served = startServe(t, proctest.Settings{
		"EASEL_UPSTREAM_URL": upstream.URL, "EASEL_UPSTREAM_KEY_FILE": c.key, "EASEL_LEDGER_URL": url, "EASEL_CALLERS_FILE": c.callers,
	}.With(more))
	return c
}

// serveCatalog handles requests to the simulated catalog. It accepts deletions, and responds to all other requests with
// a generation that succeeded.
func (c *changing) serveCatalog(w http.ResponseWriter, r *http.Request) {
	id := path.Base(r.URL.Path)
	if r.Method == http.MethodDelete {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.askedDeleted = append(c.askedDeleted, id)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	_, _ = fmt.Fprintf(w, `{"id":%q,"modelId":"studio/poster","status":"succeeded","costCents":11}`, id)
}

func (c *changing) change(statement string) {
	c.Helper()
	if _, err := c.db.ExecContext(c.Context(), statement); err != nil {
		c.Fatal(err)
	}
}

// writeCallers writes the callers file. extraLines contains lines for additional callers.
func (c *changing) writeCallers(extraLines string) {
	c.Helper()
	secret := filepath.Join(filepath.Dir(c.callers), "secret")
	text := fmt.Sprintf(changingCallers, secret, auth.Hash("poster-token"), auth.Hash("ops-token"), extraLines)
	for file, content := range map[string]string{secret: webhookSecret, c.callers: text} {
		proctest.Write(c, file, content)
	}
}

// runCommand runs an easel command against the server with the given token.
func (c *changing) runCommand(token string, args ...string) printed {
	return easelEnv(c.Context(), nil, map[string]string{"EASEL_ADMIN_ADDR": c.served.addr("admin"), "EASEL_ADDR": c.served.addr("grpc"), "EASEL_API_KEY": token}, args...)
}

// describeState returns a description of everything that an operator can change. Any such change results in a different
// description.
func (c *changing) describeState() string {
	c.Helper()
	counts := ""
	if err := c.db.QueryRowContext(c.Context(), `SELECT (SELECT group_concat(id || state || resolved || erased || deleted) FROM (SELECT * FROM orders ORDER BY id)) || ' ' ||
		(SELECT COUNT(*) FROM labels) || ' ' || (SELECT state FROM events WHERE id = 'e')`).Scan(&counts); err != nil {
		c.Fatal(err)
	}
	c.mu.Lock()
	deleted := slices.Clone(c.askedDeleted)
	c.mu.Unlock()
	return fmt.Sprint(counts, deleted, c.runCommand("late-token", "get", "gen_4").exit)
}

// countEntries returns the number of entries in the audit trail.
func (c *changing) countEntries() (count int) {
	c.Helper()
	if err := c.db.QueryRowContext(c.Context(), `SELECT COUNT(*) FROM audit`).Scan(&count); err != nil {
		c.Fatal(err)
	}
	return count
}

// changesByAction returns, for each kind of change that requires a token, a function that makes the change with a given
// token. The keys are the actions that the audit trail records for the changes.
func (c *changing) changesByAction() map[string]func(token string) {
	command := func(args ...string) func(string) { return func(token string) { c.runCommand(token, args...) } }
	return map[string]func(string){
		"order.resolve":     command("orders", "resolve", c.unknown, "--refused"),
		"events.replay":     command("events", "replay", "--team", "studio", "--since", "1h"),
		"order.erase":       command("erase", "--generation", "gen_1"),
		"generation.delete": command("delete", "gen_3", "--force"),
	}
}

func TestOperatorChangesRequireAuditEntry(t *testing.T) {
	c := startChanging(t, nil)
	before, begun := c.describeState(), c.countEntries()
	if begun != 0 {
		t.Errorf("got %d audit lines after startup, want 0", begun)
	}
	c.change(`CREATE TRIGGER blocked BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'blocked'); END`)
	for way, do := range c.changesByAction() {
		do("ops-token")
		if after := c.describeState(); after != before || c.countEntries() != begun {
			t.Errorf("%s: state changed from %q to %q without an audit line", way, before, after)
		}
	}
	late := fmt.Sprintf("- {name: late, operator: true, tokens: [%q]}\n", auth.Hash("late-token"))
	c.writeCallers(late)
	proctest.Eventually(t, 20*time.Second, "the change", func() bool { return c.runCommand("late-token", "get", "gen_4").exit == exitOK }) // a change to the callers file takes effect although the audit trail cannot be written
	c.change(`DROP TRIGGER blocked`)
	var want []string
	for way, do := range c.changesByAction() {
		before := c.describeState()
		do("ops-token")
		if c.describeState() == before {
			t.Errorf("%s did not change the state", way)
		}
		want = append(want, strings.Fields(way)...)
	}
	c.wantAudit(want)
}

func TestEachConfigFileChangeIsLoggedOnce(t *testing.T) {
	c := startChanging(t, nil)
	text := proctest.Read(t, c.callers)
	changed := strings.Replace(text, "daily_cents: 300", "daily_cents: 900", 1)
	for file, content := range map[string]string{c.callers: changed, c.key: "key-4713\n"} {
		proctest.Write(t, file, content)
	}
	logged := func() (lines []string) {
		for line := range strings.Lines(c.served.stderr.String()) {
			if strings.Contains(line, " changed") || strings.Contains(line, "callers.change") || strings.Contains(line, "api_key.change") {
				lines = append(lines, line)
			}
		}
		return lines
	}
	proctest.Eventually(t, 20*time.Second, "two lines", func() bool { return len(logged()) >= 2 }, c.served.stderr.String)
	lines := strings.Join(logged(), "")
	if len(logged()) != 2 || !strings.Contains(lines, fmt.Sprintf(`"digest":"%x","digest_before":"%x"`, sha256.Sum256([]byte(changed)), sha256.Sum256([]byte(text)))) || strings.Count(lines, `"sha256:`) != 2 || c.countEntries() != 0 {
		t.Errorf("got %d audit lines, want 0; log lines:\n%s", c.countEntries(), lines)
	}
}

// wantAudit checks that 'easel audit' prints one entry for each action in want, in this order, all by the operator ops.
// It also checks that the server's log contains the same number of entries, and that neither the output nor the log
// contains a secret.
func (c *changing) wantAudit(want []string) {
	c.Helper()
	var got []string
	printed := c.runCommand("ops-token", "audit", "-o", "json")
	for text := range strings.Lines(printed.stdout) {
		var line admin.AuditLine
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			c.Fatalf("%q: %v\n%s", text, err, printed.stderr)
		}
		got = append(got, line.Action)
		if line.Actor != "ops" || line.From == "" || line.ID == "" || line.Time.IsZero() || !json.Valid(line.After) {
			c.Errorf("invalid audit line %s", text)
		}
	}
	if !slices.Equal(got, want) {
		c.Errorf("got audit actions\n%q, want\n%q\n%s", got, want, printed.stderr)
	}
	if logged := strings.Count(c.served.stderr.String(), `"msg":"audit"`); logged != len(want) || strings.Contains(c.served.stderr.String(), "!ERROR") {
		c.Errorf("the log has %d audit lines, want %d", logged, len(want))
	}
	all := printed.stdout + c.served.stderr.String()
	for _, secret := range []string{"ops-token", "poster-token", "late-token", auth.Hash("ops-token"), auth.Hash("late-token"), "no-4711", "key-471", "whsec_"} {
		if strings.Contains(all, secret) {
			c.Errorf("the audit or the log contains %q", secret)
		}
	}
}

func TestProtectedAdminRoutesRequireOperator(t *testing.T) {
	c := startChanging(t, nil)
	for pattern, open := range admin.Routes() {
		method, route, _ := strings.Cut(pattern, " ")
		for token, want := range map[string]int{"": http.StatusUnauthorized, "poster-token": http.StatusForbidden} {
			var header []string
			if token != "" {
				header = []string{"Authorization", "Bearer " + token}
			}
			if open {
				want = http.StatusOK
			}
			if answer, _ := proctest.Request(t, method, "http://"+c.served.addr("admin")+strings.TrimSuffix(route, "{$}"), "", header...); answer.StatusCode != want {
				t.Errorf("%s with the token %q returned %d", pattern, token, answer.StatusCode)
			}
		}
	}
	got := c.runCommand("poster-token", "audit")
	if want := "\n       Set EASEL_API_KEY to the token of an operator in the callers file, or --api-key-file to a file with it.\n"; got.exit != exitCredential || !strings.HasSuffix(got.stderr, want) {
		t.Errorf("exit %d, printed\n%s", got.exit, got.stderr)
	}
}

func TestOperatorTokenIsNotSentUnencrypted(t *testing.T) {
	for _, test := range []struct {
		env  map[string]string
		exit int
	}{{map[string]string{"EASEL_API_KEY": "ops-token"}, exitUsage}, {map[string]string{}, exitRetry}} {
		test.env["EASEL_ADMIN_ADDR"] = "nowhere.invalid:9464"
		if got := easelEnv(t.Context(), nil, test.env, "orders", "list"); got.exit != test.exit || strings.Contains(got.stderr, "without TLS") != (test.exit == exitUsage) {
			t.Errorf("%v: exit %d\n%s", test.env, got.exit, got.stderr)
		}
	}
}
