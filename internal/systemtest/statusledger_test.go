package systemtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/admin"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/proctest"
)

// writeTeams writes a callers file with a team that has a small budget, a team without a budget, and an operator. The
// token of each caller is its name.
func writeTeams(t *testing.T) (file string) {
	t.Helper()
	return proctest.File(t, "teams: {studio: {budget: {daily_cents: 12, monthly_cents: 100}}, gallery: {}}\ncallers:\n"+
		"- {name: poster, team: studio, "+tokenOf("poster")+"}\n- {name: frame, team: gallery, "+tokenOf("frame")+"}\n"+
		"- {name: ops, operator: true, "+tokenOf("ops")+"}\n")
}

// tokenOf returns the tokens field of a caller in a callers file. The token is the caller's name.
func tokenOf(name string) string { return fmt.Sprintf("tokens: [%q]", auth.Hash(name)) }

func TestTheStatusPageHasARowForEachOwner(t *testing.T) {
	t.Parallel()
	chromium(t)
	url, lockOut := secretLedger(t)
	f := newCatalog(t, 1)
	f.Sharing(writeTeams(t), url).Serve()
	f.Operator = "ops"
	b := f.openStatus("light", "The status is for operators")
	f.proveOperator(b)
	wrong := f.openStatus("light", "The status is for operators")
	wrong.evaluate(fmt.Sprintf(proves, "poster"))
	wrong.awaitTrue("rejection of a wrong token", fmt.Sprintf(textOf, "refused")+`.includes('not an operator')`)
	b.awaitTrue("a row for each owner", `document.querySelectorAll('#owners tr').length === 4`)
	for n := range 2 {
		f.startWatches("poster", 1, 0)
		var status struct {
			Ledger struct {
				Owners []struct {
					Owner                                      string
					Orders, SpentCents, ReservedCents, Unknown int64
					Budgets                                    []struct{ LimitCents, SpentCents, ReservedCents int64 }
				}
			}
		}
		f.until("the owner's order in the status", func() bool {
			if err := json.Unmarshal([]byte(f.Status()), &status); err != nil {
				t.Fatal(err)
			}
			return len(status.Ledger.Owners) == 3 && status.Ledger.Owners[2].Orders == int64(n+1)
		})
		o := status.Ledger.Owners[2] // the owners are sorted by name
		if o.Owner != "studio" || o.SpentCents+o.ReservedCents == 0 || len(o.Budgets) != 2 || o.Budgets[0].SpentCents+o.Budgets[0].ReservedCents != o.SpentCents+o.ReservedCents || o.Unknown != 0 {
			t.Errorf("the owner's entry in the status is %+v", o)
		}
	}
	b.awaitTrue("a budget that is nearly used up", fmt.Sprintf(textOf, "verdict")+`.includes('at most a fifth of a budget left: studio')`)
	b.awaitTrue("the row of the owner", fmt.Sprintf(textOf, "owners")+`.includes('0.02 EUR of 0.12 EUR')`)
	b.savePicture("status-owners-light")
	dark := f.openStatus("dark", "The status is for operators")
	f.proveOperator(dark)
	dark.awaitTrue("the sentence with the name of the owner", fmt.Sprintf(textOf, "verdict")+`.endsWith('at most a fifth of a budget left: studio.')`)
	dark.savePicture("status-owners-dark")
	f.checkCalm(dark)
	lockOut()
	b.awaitTrue("report that the ledger does not respond", fmt.Sprintf(textOf, "verdict")+`.includes('The ledger does not answer')`)
	b.awaitTrue("a verdict that is not green", `document.getElementById('verdict').className === 'bad'`)
	b.awaitTrue("the last known owners", fmt.Sprintf(textOf, "owners")+`.includes('studio')`)
	b.savePicture("status-ledger-down-light")
	page := fmt.Sprint(b.evaluate(`document.documentElement.outerHTML`))
	f.withoutKeys(page)
	searchCanary(t, "the page", page)
	if strings.Contains(page, "postgres:") {
		t.Error("the page shows the ledger's URL")
	}
	f.checkCalm(b)
}

// proves is a format string for a JavaScript expression that submits a token on the status page.
const proves = `(() => { document.getElementById('token').value = '%s'; document.getElementById('prove').requestSubmit(); return true })()`

// proveOperator authenticates as the operator by submitting the operator's token on the status page.
func (f facility) proveOperator(b *browser) {
	f.Helper()
	b.awaitTrue("the form", `!document.getElementById('prove').hidden && document.querySelectorAll('main > section:not(#verdict):not(.closed)').length === 0`)
	b.evaluate(fmt.Sprintf(proves, f.Operator))
	b.awaitTrue("no form", `document.getElementById('prove').hidden`)
}

func TestAdminRoutesRevealNoTeamDataWithoutToken(t *testing.T) {
	t.Parallel()
	f, file := newCatalog(t, 1), filepath.Join(t.TempDir(), "canary-file")
	proctest.Write(t, file, "teams: {canary-team: {budget: {daily_cents: 471108150}}}\ncallers:\n- {name: canary-caller, team: canary-team, "+tokenOf("poster")+"}\n- {name: canary-operator, operator: true, "+tokenOf("ops")+"}\n")
	f.Sharing(file, sqliteLedger(t)).Serve()
	env := f.caller("poster")
	ordered := runProgram(t, env, "generate", "studio/landscape", "prompt=sea", "-q", "--idempotency-key", "canary-key", "--label", "canary-label=canary-value")
	id := strings.TrimSpace(ordered.stdout)
	if ordered.exit != exitOK || id == "" {
		t.Fatal(ordered)
	}
	f.startWatch("poster", id)
	proctest.Write(t, file, "teams: 1\n")
	f.Operator = "ops"
	for path, names := range map[string][]string{
		"/status.json": {"canary-team", "471108150", id, "canary-file"}, "/metrics": {`"canary-team"`, `"canary-caller"`, " 4.7110815e+08"}, "/orders": {"canary-key", "canary-value"},
	} {
		text := func() string { return f.Page(path) }
		for _, name := range names {
			waitFor(t, name+" for an operator in "+path, func() bool { return strings.Contains(text(), name) }, text)
		}
	}
	shown := 0
	for pattern := range admin.Routes() {
		path, reads := strings.CutPrefix(pattern, "GET ")
		if !reads {
			continue
		}
		code, text := f.requestPage(strings.TrimSuffix(path, "{$}"))
		if code == http.StatusOK {
			shown++
		}
		for _, secret := range []string{"canary", "4711081", "4.711081", id} {
			if strings.Contains(text, secret) {
				t.Errorf("without a token %s shows %s: %s", path, secret, text)
			}
		}
	}
	if shown != 6 {
		t.Errorf("%d routes respond without a token, want 6", shown)
	}
}

// requestPage requests a page from the admin address without a token.
func (f facility) requestPage(path string) (code int, text string) {
	f.Helper()
	answer, body := proctest.Request(f, http.MethodGet, "http://"+f.Server.Admin+path, "")
	return answer.StatusCode, string(body)
}

func TestManyStatusRequestsCauseFewLedgerQueries(t *testing.T) {
	t.Parallel()
	f := newCatalog(t, 1)
	f.With(map[string]string{"EASEL_LEDGER_URL": sqliteLedger(t)}).Serve()
	asked := func() float64 { return f.Measured("db_client_operation_duration_seconds_count") }
	before, began := asked(), time.Now()
	for range 200 {
		f.Status()
	}
	took := time.Since(began)
	// The server executes 3 statements in the ledger each time it computes a new status. Its background jobs
	// execute at most 10 statements per second.
	if most := 3*(2+took/(5*time.Second)+took/(15*time.Second)) + 10*(3+took/time.Second); asked()-before > float64(most) {
		t.Errorf("200 pages needed %.0f statements, more than %d", asked()-before, int(most))
	}
}
