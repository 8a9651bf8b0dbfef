package systemtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// troubles returns the messages of all warnings and errors in the server's log. It omits the log lines of calls.
func (f facility) troubles() (all []string) {
	for line := range strings.SplitSeq(f.Server.Stderr.String(), "\n") {
		if !strings.Contains(line, `"level":"INFO"`) && !strings.Contains(line, `"msg":"call"`) && line != "" {
			_, message, _ := strings.Cut(line, `"msg":"`)
			message, _, _ = strings.Cut(message, `"`)
			all = append(all, message)
		}
	}
	return all
}

// logs returns the number of log lines with the given message.
func (f facility) logs(message string) int {
	return strings.Count(f.Server.Stderr.String(), `"msg":"`+message+`"`)
}

func TestLedgerOutageIsLoggedOnceByEachReplica(t *testing.T) {
	t.Parallel()
	chromium(t)
	postgres := proctest.StartPostgres(t)
	one, two := startTwo(t, postgres.Database(t))
	both := []facility{one, two}
	divided(both...)
	b := one.seen("light", "All is well")
	b.until("number of replicas", `document.getElementById('replicas').innerText === '2 replicas divide EASEL_POLL_RATE.'`)
	b.picture("status-replicas-light")
	before := [][]string{one.troubles(), two.troubles()}
	postgres.Kill()
	for _, f := range both {
		f.until("log line of the outage", func() bool { return f.logs("ledger unavailable") > 0 })
		easel(t, f.caller(f.Keys[0]), "generate", "studio/landscape", "prompt=sea", "--timeout", "3s")
	}
	divided(both...)
	one.calm(b)
	if err := postgres.Start(); err != nil {
		t.Fatal(err)
	}
	for n, f := range both {
		f.until("log line of the recovery", func() bool { return f.logs("ledger available") > 0 })
		if got := f.troubles()[len(before[n]):]; !slices.Equal(got, []string{"ledger unavailable"}) || f.logs("ledger available") != 1 {
			t.Errorf("an outage is logged as %q, and the recovery %d times", got, f.logs("ledger available"))
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
	for _, id := range one.watch(one.Keys[0], 2, 1) {
		two.startWatch(two.Keys[0], id)
	}
	two.until("watch", func() bool { return two.Measured("easel_watch_open") == 2 })
	return one, two
}

// divided waits until each of the two replicas reports a poll rate of 2.5 per second, half of the API key's
// maximum.
func divided(all ...facility) {
	for _, f := range all {
		f.until("half of the rate of polls", func() bool { return f.Measured("easel_poll_rate_per_second") == 2.5 })
	}
}
