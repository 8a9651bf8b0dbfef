package clients

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/proctest"
)

// secondJobs maps each language to a command that adds a job to the journal of a service. The command runs in the
// service's directory.
var secondJobs = map[string][]string{
	"python":     {root + "/.build/clients/python/bin/python", "-c", `import sqlite3; sqlite3.connect("jobs.db", isolation_level=None).execute("INSERT INTO jobs (key, prompt) VALUES ('sea', 'a calm sea')")`},
	"typescript": {"node", "-e", `const fs = require("fs"); fs.writeFileSync("jobs.json", JSON.stringify({ sea: { prompt: "a calm sea" }, ...JSON.parse(fs.readFileSync("jobs.json", "utf8")) }))`},
	"java":       {"sh", "-c", `echo "sea.prompt=a calm sea" >> jobs.properties`},
}

// TestExampleServicesFetchPaidRendersDespiteSpentBudget runs the service from each client library's page. The service's journal
// contains two jobs: a paid render, and a job that exceeds the team's budget. The service must fetch the paid render,
// although the budget rejects the other job.
func TestExampleServicesFetchPaidRendersDespiteSpentBudget(t *testing.T) {
	t.Parallel() // runs in parallel, because the test mostly waits
	for language, add := range secondJobs {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			if !slices.Contains(strings.Split(*languages, ","), language) {
				t.Skip("-languages excludes this language")
			}
			spendBudget(t, installService(t, language), language, add)
		})
	}
}

func spendBudget(t *testing.T, dir, language string, add []string) {
	t.Helper()
	const key, token = "sandbox_live_of_all_teams", "token-of-a-service"
	s := startStack(t, proctest.Settings{
		"EASEL_LEDGER_URL": "sqlite:" + filepath.Join(t.TempDir(), "ledger.db"), "EASEL_UPSTREAM_KEY_FILE": proctest.File(t, key),
		"EASEL_CALLERS_FILE": proctest.File(t, "teams: {studio: {budget: {daily_cents: 15}}}\ncallers: [{name: service, team: studio, tokens: [\""+auth.Hash(token)+"\"]}]\n"),
	})
	s.addKey(key)
	s.holdRenders()
	start := func() *proctest.Process { return startService(t, dir, language, s.Server.GRPC, token) }
	start().Kill()
	build(t, dir, add)
	run := start() // the service watches the paid render, although the budget rejects the other job
	s.Heal()
	s.checkService(run, "order again after", dir, key)
}
