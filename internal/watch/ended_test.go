package watch

import (
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

func TestFinalStateInLedgerTriggersPoll(t *testing.T) {
	shared := catalog.Shared(func() catalog.Secret { return catalog.NewSecret("key-one") })
	for name, c := range map[string]struct {
		cred     catalog.Credential
		seen     catalog.State
		recorded ledger.State
		reads    int
	}{
		"a terminal state":                  {shared, running, ledger.State{Status: lifecycle.Succeeded}, 1},
		"a deletion that reads do not show": {shared, running, ledger.State{Status: lifecycle.Running, Deleted: true}, 2},
		"a refund":                          {shared, catalog.StateFailed, ledger.State{Status: lifecycle.Refunded}, 1},
		"a state that is already known":     {shared, catalog.StateFailed, ledger.State{Status: lifecycle.Failed}, 0},
		"an earlier state":                  {shared, catalog.StateRefunded, ledger.State{Status: lifecycle.Failed}, 0},
		"a forwarded key":                   {testCred, running, ledger.State{Status: lifecycle.Succeeded}, 0},
		"a generation that is not watched":  {shared, 0, ledger.State{Status: lifecycle.Succeeded}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, map[string]catalog.State{"g": c.seen}, func(b *bench) {
				if c.seen != 0 {
					b.watchWith(b.ctx, Request{Credential: c.cred, IDs: []string{"g"}, Goal: Settled})
				}
				passTime(time.Minute)
				b.up.set("g", StateOf(c.recorded.Status))
				before := b.up.calls()
				b.hub.Ended(map[string]ledger.State{"g": c.recorded})
				passTime(time.Millisecond)
				b.hub.Ended(map[string]ledger.State{"g": c.recorded})
				passTime(time.Millisecond)
				if reads := b.up.calls() - before; reads != c.reads {
					t.Errorf("%d reads", reads)
				}
			})
		})
	}
}
