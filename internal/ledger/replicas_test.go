package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/proctest"
)

// Replicas that change the same orders concurrently must not deadlock. A deadlock would delay both replicas'
// transactions by a second, and abort one of them.
func TestReplicasWritingTheSameOrdersDoNotDeadlock(t *testing.T) {
	url := proctest.Database(t)
	const rounds, keys = 15, 10
	replicas := []*ledger.Ledger{openTelling(t, url, eventConfig(ledger.Limits{})), openTelling(t, url, eventConfig(ledger.Limits{}))}
	for round := range rounds {
		var all sync.WaitGroup
		for _, n := range append(rand.Perm(keys), rand.Perm(keys)...) {
			for _, l := range replicas {
				all.Go(func() {
					r := request(fmt.Sprint("round ", round, " order ", n))
					r.Limits = ledger.Limits{DailyCents: cents(1 << 40)}
					o, free, err := l.Write(t.Context(), r)
					if err == nil && free {
						_, err = l.Conclude(t.Context(), o.ID, 1, ledger.Conclusion{Outcome: lifecycle.Named, Generation: o.ID, Written: &o})
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
	}
	placed := replicas[0].Ask(t, `SELECT COUNT(*) FROM orders WHERE state = 2`)
	for _, l := range replicas {
		_ = l.Close() // PostgreSQL adds a session's deadlocks to its statistics when the session closes
	}
	name := url[strings.LastIndex(url, "/")+1 : strings.Index(url, "?")]
	watcher := open(t, proctest.Database(t))
	if locked := watcher.Ask(t, `SELECT deadlocks FROM pg_stat_database WHERE datname = '`+name+`'`); locked != "0" || placed != fmt.Sprint(rounds*keys) {
		t.Errorf("%s orders are placed, with %s deadlocks", placed, locked)
	}
}
