package watch_test

import (
	"context"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
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

// The last watch of a generation ends while the book is away. What is left under the API key polls nothing.
func TestWhoPollsNothingHasNoBookThatIsAway(t *testing.T) {
	inGroup(t, 1, map[string]catalog.State{"a": running}, func(g *group) {
		one := g.replicas[0]
		ctx, leave := context.WithCancel(g.ctx)
		one.watchWith(ctx, watch.Request{IDs: []string{"a"}})
		defer one.hub.Attend(g.ctx, tenant).Leave()
		pass(10 * time.Second)
		one.with(func(r *way) { r.away = true })
		pass(20 * time.Second)
		if n := one.hub.Stats().Away; n != 1 {
			t.Errorf("%d pollers poll for themselves while the book is away", n)
		}
		leave()
		one.with(func(r *way) { r.away = false })
		pass(time.Minute)
		if n := one.hub.Stats().Away; n != 0 {
			t.Errorf("%d pollers poll for themselves that have nothing to poll", n)
		}
	})
}

func TestAPollThatTheBookWasNotAskedForIsNotRefused(t *testing.T) {
	ids, states := manyIDs(5)
	inGroup(t, 1, states, func(g *group) {
		one := g.replicas[0]
		one.with(func(r *way) { r.away = true })
		one.watch(ids...)
		pass(time.Minute)
		if s := one.hub.Stats(); s.Claimed != 0 || s.Refused != 0 {
			t.Errorf("a book that is away has granted %d polls and refused %d", s.Claimed, s.Refused)
		}
	})
}

// The book takes questions and answers none, before it was ever read: one poll waits for it for long, and no other.
func TestABookThatHangsDelaysThePollsOnce(t *testing.T) {
	ids, states := manyIDs(12)
	inGroup(t, 1, states, func(g *group) {
		one := g.replicas[0]
		one.with(func(r *way) { r.slow = time.Hour })
		one.watch(ids...)
		pass(10 * time.Second)
		before := time.Now()
		pass(30 * time.Second)
		if n := one.requests(before); n < 15 {
			t.Errorf("%d polls in half a minute", n)
		}
	})
}
