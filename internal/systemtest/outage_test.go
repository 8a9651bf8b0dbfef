package systemtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// loggedTroubles returns the messages of all warnings and errors in the server's log. It omits the log lines of calls.
func (f facility) loggedTroubles() (all []string) {
	for line := range strings.SplitSeq(f.Server.Stderr.String(), "\n") {
		if !strings.Contains(line, `"level":"INFO"`) && !strings.Contains(line, `"msg":"call"`) && line != "" {
			_, message, _ := strings.Cut(line, `"msg":"`)
			message, _, _ = strings.Cut(message, `"`)
			all = append(all, message)
		}
	}
	return all
}

// logCount returns the number of log lines with the given message.
func (f facility) logCount(message string) int {
	return strings.Count(f.Server.Stderr.String(), `"msg":"`+message+`"`)
}

func TestLedgerOutageIsLoggedOnceByEachReplica(t *testing.T) {
	t.Parallel()
	chromium(t)
	postgres := proctest.StartPostgres(t)
	one, two := startTwo(t, postgres.Database(t))
	both := []facility{one, two}
	awaitDivision(both...)
	b := one.openStatus("light", "All is well")
	b.awaitTrue("number of replicas", `document.getElementById('replicas').innerText === '2 replicas divide EASEL_POLL_RATE.'`)
	b.savePicture("status-replicas-light")
	before := [][]string{one.loggedTroubles(), two.loggedTroubles()}
	postgres.Kill()
	for _, f := range both {
		f.until("log line of the outage", func() bool { return f.logCount("ledger unavailable") > 0 })
		runProgram(t, f.caller(f.Keys[0]), "generate", "studio/landscape", "prompt=sea", "--timeout", "3s")
	}
	awaitDivision(both...)
	one.checkCalm(b)
	if err := postgres.Start(); err != nil {
		t.Fatal(err)
	}
	for n, f := range both {
		f.until("log line of the recovery", func() bool { return f.logCount("ledger available") > 0 })
		if got := f.loggedTroubles()[len(before[n]):]; !slices.Equal(got, []string{"ledger unavailable"}) || f.logCount("ledger available") != 1 {
			t.Errorf("an outage is logged as %q, and the recovery %d times", got, f.logCount("ledger available"))
		}
		if !strings.Contains(f.Server.Stderr.String(), `"msg":"ledger available","after":"`) {
			t.Error("the log line of the recovery lacks a duration with a unit")
		}
	}
}

// startTwo starts two replicas with the same catalog and the same database. It orders two renders through the first
// replica, and starts a watch of each render through both replicas.
func startTwo(t *testing.T, database string) (one, two facility) {
	t.Helper()
	one = newCatalog(t, 1, "--speed", "0.02") // slow enough that no render finishes during the test
	two = facility{one.Replica()}
	one.With(map[string]string{"EASEL_LEDGER_URL": database}).Serve()
	two.With(map[string]string{"EASEL_LEDGER_URL": database}).Serve()
	for _, id := range one.startWatches(one.Keys[0], 2, 1) {
		two.startWatch(two.Keys[0], id)
	}
	two.until("watch", func() bool { return two.Measured("easel_watch_open") == 2 })
	return one, two
}

// awaitDivision waits until each of the two replicas reports a poll rate of 2.5 per second, half of the API key's
// maximum.
func awaitDivision(all ...facility) {
	for _, f := range all {
		f.until("half of the rate of polls", func() bool { return f.Measured("easel_poll_rate_per_second") == 2.5 })
	}
}
