package watch_test

import (
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

func TestADeletionOfWhatNobodyWatchesThereIsKnownEverywhere(t *testing.T) {
	inGroup(t, 3, map[string]catalog.State{"a": running}, func(g *group) {
		one, two, late := g.replicas[0], g.replicas[1], g.replicas[2]
		two.watch("a")
		pass(10 * time.Second)
		g.up.set("a", succeeded)
		pass(10 * time.Second)
		g.up.with(func(u *upstream) { delete(u.states, "a") })
		one.hub.Deleted(g.ctx, tenant, "a")
		pass(30 * time.Minute)
		mine := late.watch("a")
		pass(10 * time.Second)
		late.wantStates(mine, "deleted")
		if s := one.hub.Stats(); s.Pollers > 0 {
			t.Errorf("%d pollers are left of a deletion", s.Pollers)
		}
	})
}

func TestWithoutTheBookANewAPIKeyHasItsPartOfTheRateToo(t *testing.T) {
	ids, states := manyIDs(80)
	inGroup(t, 4, states, func(g *group) {
		g.watchAll("g0000")
		pass(2 * time.Minute)
		g.up.with(func(u *upstream) {
			u.failList = &catalog.Error{Kind: catalog.KindUnavailable, Op: "GET /generations", Status: 503}
		})
		for _, r := range g.replicas {
			r.with(func(r *way) { r.away = true })
		}
		pass(10 * time.Minute)
		before := time.Now()
		for _, r := range g.replicas {
			r.watchWith(g.ctx, watch.Request{Credential: catalog.Forwarded(catalog.NewSecret("key-two")), IDs: ids})
		}
		pass(time.Minute)
		if n := g.requests(before); n > 1.2*5*60 || n < 200 {
			t.Errorf("%d requests in a minute, where 300 are allowed", n)
		}
	})
}
