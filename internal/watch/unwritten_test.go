package watch_test

import (
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// The book is away when a call deletes a generation, and nothing is polled here that would ask it again.
func TestWhatCouldNotBeWrittenIsTriedAgain(t *testing.T) {
	inGroup(t, 2, map[string]catalog.State{"a": running}, func(g *group) {
		one, two := g.replicas[0], g.replicas[1]
		mine := two.watch("a")
		pass(10 * time.Second)
		one.with(func(r *way) { r.away = true })
		g.up.with(func(u *upstream) { delete(u.states, "a") })
		one.hub.Deleted(g.ctx, tenant, "a")
		pass(5 * time.Second)
		one.with(func(r *way) { r.away = false })
		pass(2 * time.Second)
		two.wantStates(mine, "running", "deleted")
		pass(time.Minute)
		if s := one.hub.Stats(); s.Pollers > 0 {
			t.Errorf("%d pollers are left of a deletion", s.Pollers)
		}
	})
}
