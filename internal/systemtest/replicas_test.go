package systemtest

import (
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// startTwo starts two replicas over one catalog and one database, of which both watch what the first has ordered.
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

func TestReplicasTellWhatTheyPollForEachOther(t *testing.T) {
	t.Parallel()
	postgres := proctest.StartPostgres(t)
	one, two := startTwo(t, postgres.Database(t), "--dialect", "no-range", "--speed", "0.3") // they are seen running after some seconds
	both := []*facility{one, two}
	one.until("state that one replica has found, and the other delivered", func() bool {
		return one.measured("easel_poll_taken_total")+two.measured("easel_poll_taken_total") > 0
	})
	granted := 0.0
	for _, f := range both {
		granted += f.measured("easel_poll_claims_total", `easel_claim_outcome="granted"`)
		if f.measured("easel_credential_away") != 0 || strings.Contains(f.status(), "for this replica alone") {
			t.Errorf("a replica does not say that it shares:\n%s", f.status())
		}
	}
	if granted == 0 {
		t.Error("no poll was claimed")
	}
	two.watch(two.keys[0], 1, 1) // which lasts to the end
	postgres.Kill()
	two.until("word that the ledger is away", func() bool { return two.measured("easel_credential_away") == 1 })
	two.until("the same on the status page", func() bool { return strings.Contains(two.status(), "for this replica alone") })
	if err := postgres.Start(); err != nil {
		t.Fatal(err)
	}
	two.until("word that polls are shared again", func() bool { return two.measured("easel_credential_away") == 0 })
	two.withoutKeys(two.status())
}

func TestTheStatusPageSaysHowPollsAreShared(t *testing.T) {
	t.Parallel()
	chromium(t)
	postgres := proctest.StartPostgres(t)
	one, _ := startTwo(t, postgres.Database(t))
	b := one.seen("light", "All is well")
	const line = `document.getElementById('replicas').innerText`
	b.until("word of the other replica", line+`.startsWith('Polls are shared: with all replicas over the ledger. Made here for all: ')`)
	b.picture("status-replicas-light")
	postgres.Kill()
	b.until("word that the ledger is away", line+`.startsWith('Polls are shared: under 1 of 1 key for itself alone.')`)
	b.picture("status-replicas-alone-light")
	one.calm(b)
}
