package orders_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/orders"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// A forwarded API key may be used elsewhere, and a ledger in memory does not know what another process has sent.
func TestThatThereIsNoOrderIsSaidByADurableLedgerBehindAHeldKey(t *testing.T) {
	for name, row := range map[string]struct {
		held, durable    bool
		refused, tooDear orders.Outcome // by the catalog, by the caller's limit
	}{
		"held, durable":        {true, true, orders.NotPlaced, orders.NotPlaced},
		"held, in memory":      {true, false, orders.Unknown, orders.NotPlacedByThisCall},
		"forwarded, durable":   {false, true, orders.Unknown, orders.NotPlacedByThisCall},
		"forwarded, in memory": {false, false, orders.Unknown, orders.NotPlacedByThisCall},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, 1000)
			cred := s.cred
			if row.held {
				cred = catalog.Held(func() catalog.Secret { return catalog.NewSecret(s.key) })
			}
			client := newClient(t, catalog.Config{BaseURL: s.url}, func(cfg *ledger.Config) {
				if row.durable {
					cfg.URL = "sqlite:" + filepath.Join(t.TempDir(), "book.db")
				}
			})
			s.sandbox.Inject(sandbox.Fault{Route: "POST /generations", Count: 1, Status: 402, Body: `{"code":"INSUFFICIENT_BALANCE"}`})
			_, refused := client.Create(t.Context(), cred, s.order("k"))
			dear := s.order("k")
			dear.MaxCostCents = new(int64(0))
			_, tooDear := client.Create(t.Context(), cred, dear)
			for err, want := range map[error]orders.Outcome{refused: row.refused, tooDear: row.tooDear} {
				if e, ok := errors.AsType[*orders.Error](err); !ok || e.Outcome != want {
					t.Errorf("%v says %+v, want %s", err, e, want)
				}
			}
			if s.posts() != 1 {
				t.Errorf("%d orders were posted, want 1", s.posts())
			}
		})
	}
}
