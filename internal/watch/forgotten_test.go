package watch_test

import (
	"testing"
	"time"
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
		all = append(all, g.join().watch(ids...))
		pass(15 * time.Millisecond) // the catalog takes longer to answer
		if got := all[2].look(); len(got.updates) != len(ids) {
			t.Errorf("of %d generations the book tells a replica that joins %d", len(ids), len(got.updates))
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
