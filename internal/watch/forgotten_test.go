package watch_test

import (
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/shared"
)

// No read and no change comes for an hour: sweeps alone show that the generations are still there.
func TestWhatTheListCarriesIsNotForgotten(t *testing.T) {
	ids, states := manyIDs(12)
	inGroup(t, 2, states, func(g *group) {
		all := g.watchAll(ids...)
		for range 14 {
			pass(5 * time.Minute)
			if err := g.replicas[0].book.Forget(g.ctx); err != nil {
				t.Fatal(err)
			}
		}
		news, err := g.replicas[0].book.News(g.ctx, tenant.APIKeySum(), shared.Cursor{}, nil)
		if err != nil || len(news.States) != len(ids) {
			t.Errorf("of %d generations the book has %d, %v", len(ids), len(news.States), err)
		}
		for _, s := range news.States {
			if s.Record == "" {
				t.Errorf("of %s the book has no record", s.ID)
			}
		}
		for _, id := range ids {
			g.up.set(id, succeeded)
		}
		pass(15 * time.Second)
		for n, s := range all {
			g.replicas[n].wantEnd(s, nil)
		}
	})
}
