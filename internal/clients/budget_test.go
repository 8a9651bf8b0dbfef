package clients

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/proctest"
)

// secondJobs contains, for each language, a command that adds a job to the journal of a service. It runs in the directory
// of the service.
var secondJobs = map[string][]string{
	"python":     {root + "/.build/clients/python/bin/python", "-c", `import sqlite3; sqlite3.connect("jobs.db", isolation_level=None).execute("INSERT INTO jobs (key, prompt) VALUES ('sea', 'a calm sea')")`},
	"typescript": {"node", "-e", `const fs = require("fs"); fs.writeFileSync("jobs.json", JSON.stringify({ sea: { prompt: "a calm sea" }, ...JSON.parse(fs.readFileSync("jobs.json", "utf8")) }))`},
	"java":       {"sh", "-c", `echo "sea.prompt=a calm sea" >> jobs.properties`},
}

// TestServicesFetchPaidRendersAtASpentBudget runs each service from the pages with two jobs in its journal: a paid render,
// and a job that exceeds the team's budget.
func TestServicesFetchPaidRendersAtASpentBudget(t *testing.T) {
	t.Parallel() // the test mostly waits
	for language, add := range secondJobs {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			if !slices.Contains(strings.Split(*languages, ","), language) {
				t.Skip("-languages excludes this language")
			}
			dir, service := t.TempDir(), services[language]
			block := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindSubmatch(readFile(t, pageOf(language)))
			if err := os.WriteFile(filepath.Join(dir, service.file), block[1], 0o600); err != nil {
				t.Fatal(err)
			}
			build(t, dir, service.build)
			spendBudget(t, dir, placed(t, dir, service.start), add)
		})
	}
}

func spendBudget(t *testing.T, dir string, command, add []string) {
	t.Helper()
	const key, token = "sandbox_live_of_all_teams", "token-of-a-service"
	put := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	s := startStack(t, "--ledger-url", "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), "--upstream-key-file", put("key", key), "--callers-file",
		put("callers.yaml", "teams: {studio: {budget: {daily_cents: 15}}}\ncallers: [{name: service, team: studio, tokens: [\""+auth.Hash(token)+"\"]}]\n"))
	s.admin(t, http.MethodPost, "keys", `{"name":"all","balanceCents":5000,"key":"`+key+`"}`, nil)
	s.hold(t)
	start := func() *proctest.Process {
		env := append(os.Environ(), "EASEL_ADDR="+s.addr, "EASEL_API_KEY="+token)
		run := proctest.Start(t, env, append([]string{"sh", "-c", `cd "$0" && exec "$@"`, dir}, command...)...)
		must(t)(run.Await(0, `(QUEUED)`, patience))
		return run
	}
	start().Kill()
	build(t, dir, add)
	run := start() // the service watches the paid render, although the budget rejects the other job
	s.admin(t, http.MethodDelete, "faults", "", nil)
	code, err := run.Wait(patience)
	said := run.Output.String()
	if err != nil || code != 0 || !strings.Contains(said, "order again after") {
		t.Fatalf("the service exited with %d, %v:\n%s", code, err, said)
	}
	var b catalogAudit
	s.admin(t, http.MethodGet, "audit?key="+key, "", &b)
	if len(b.Generations) != 1 || b.Generations[0].Charges != 1 {
		t.Fatalf("the catalog's audit is %+v", b)
	}
	if got := readFile(t, filepath.Join(dir, "hills.png")); !bytes.Equal(got, s.content(t, key, b.Generations[0].ID)) {
		t.Errorf("the file has %d bytes that differ from the catalog's bytes", len(got))
	}
}
