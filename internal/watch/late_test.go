package watch_test

import (
	"context"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

// What a replica has found while it did not reach the book is written late: another has found the same since, so that the
// book keeps the other's.
func TestWhatIsWrittenLateHidesNothing(t *testing.T) {
	inGroup(t, 2, map[string]catalog.State{"a": queued}, func(g *group) {
		late, other := g.replicas[0], g.replicas[1]
		mine := late.watch("a")
		ctx, leave := context.WithCancel(g.ctx)
		other.watchWith(ctx, watch.Request{IDs: []string{"a"}})
		pass(10 * time.Second)
		late.with(func(r *way) { r.away = true })
		g.up.set("a", running)
		pass(30 * time.Second)
		late.with(func(r *way) { r.away = false })
		pass(time.Minute)
		leave()
		g.up.set("a", succeeded)
		pass(15 * time.Second)
		late.wantEnd(mine, nil)
	})
}

// A change that waits to be written is read again meanwhile: what the book has is not the current state any more.
func TestAChangeThatWaitsAndIsReadAgainIsWritten(t *testing.T) {
	inGroup(t, 2, map[string]catalog.State{"a": queued}, func(g *group) {
		late, other := g.replicas[0], g.replicas[1]
		all := g.watchAll("a")
		pass(10 * time.Second)
		late.with(func(r *way) { r.away = true })
		other.with(func(r *way) { r.dark = &catalog.Error{Kind: catalog.KindUnavailable, Op: "x"} })
		g.up.set("a", running)
		pass(30 * time.Second)
		late.with(func(r *way) { r.away = false })
		pass(5 * time.Second)
		g.wantStates(all, "queued", "running")
	})
}

// What the list has said of a generation, and a read has confirmed, is told by a replica too whose own read hangs.
func TestWhatAReadConfirmsOfTheListIsKnownToAll(t *testing.T) {
	ids, states := manyIDs(4)
	inGroup(t, 2, states, func(g *group) {
		all := g.watchAll(ids...)
		pass(5 * time.Second)
		g.replicas[1].with(func(r *way) { r.hangs = true })
		g.up.set(ids[0], running)
		pass(20 * time.Second)
		for n, s := range all {
			if got := s.look(); len(got.updates) != len(ids)+1 {
				t.Errorf("watch %d is told %v", n, s.states())
			}
		}
	})
}
