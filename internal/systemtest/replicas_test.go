package systemtest

import (
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// startTwo starts two replicas with one catalog and one database. Both watch the orders of the first.
func startTwo(t *testing.T, database string, flags ...string) (one, two *facility) {
	t.Helper()
	one = newFacility(t, 1, flags...)
	one.served.Stop()
	other := *one
	two = &other
	one.serve(map[string]string{"EASEL_LEDGER_URL": database})
	two.serve(map[string]string{"EASEL_LEDGER_URL": database})
	for _, id := range one.watch(one.keys[0], 2, 1) {
		start(t, map[string]string{"EASEL_ADDR": two.grpc, "EASEL_API_KEY": two.keys[0]}, func(string, string) bool { return true }, "watch", id)
	}
	two.until("watch", func() bool { return two.measured("easel_watch_open") == 2 })
	return one, two
}

// divided waits until the replicas divide the rate of polls.
func divided(all ...*facility) {
	for _, f := range all {
		f.until("half of the rate of polls", func() bool { return f.measured("easel_poll_rate_per_second") == 2.5 })
	}
}

func TestReplicasDivideTheRateOfPolls(t *testing.T) {
	t.Parallel()
	chromium(t)
	postgres := proctest.StartPostgres(t)
	one, two := startTwo(t, postgres.Database(t), "--speed", "0.02") // the renders outlast the test
	divided(one, two)
	b := one.seen("light", "All is well")
	b.until("number of replicas", `document.getElementById('replicas').innerText === '2 replicas divide EASEL_POLL_RATE.'`)
	b.picture("status-replicas-light")
	postgres.Kill()
	for _, f := range []*facility{one, two} {
		f.until("line of the outage", func() bool { return f.logs("ledger unavailable") > 0 })
	}
	divided(one, two)
	one.calm(b)
}
