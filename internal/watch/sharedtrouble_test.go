package watch_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

func TestWithoutTheBookEachPollsAtItsPartOfTheRate(t *testing.T) {
	if testing.Short() {
		t.Skip("it is of scale: .ci/nightly runs it")
	}
	for name, trouble := range map[string]func(*way){
		"away": func(r *way) { r.away = true },
		"slow": func(r *way) { r.slow = 700 * time.Millisecond },
	} {
		ids, states := manyIDs(80)
		inGroup(t, 4, states, func(g *group) {
			g.up.failList = &catalog.Error{Kind: catalog.KindUnavailable, Op: "GET /generations", Status: 503}
			all := g.watchAll(ids...)
			pass(2 * time.Minute)
			for _, r := range g.replicas {
				r.with(trouble)
			}
			for n, most := range []int{1.2 * 5 * 60, 5*60 + 5} { // of a minute in which it is found out, and of the next
				before := time.Now()
				pass(time.Minute)
				if got := g.requests(before); got > most || got < 3*60 {
					t.Errorf("%s: %d requests in minute %d, where 300 are allowed", name, got, n)
				}
			}
			if s := g.replicas[0].hub.Stats(); s.Away != 1 {
				t.Errorf("%s: %d pollers have no book", name, s.Away)
			}
			g.up.set(ids[7], running)
			pass(6 * time.Minute)
			for _, s := range all {
				if got := s.look(); len(got.updates) != 81 || got.ended {
					t.Errorf("%s: a watch is told %d states, and ended %v: %v", name, len(got.updates), got.ended, got.err)
				}
			}
			for _, r := range g.replicas {
				r.with(func(r *way) { r.away, r.slow = false, 0 })
			}
			g.up.with(func(u *upstream) { u.failList = nil })
			pass(3 * time.Minute)
			before := time.Now()
			pass(time.Minute)
			if n := g.requests(before); n > 70 || g.replicas[0].hub.Stats().Away != 0 {
				t.Errorf("%s: %d requests in a minute once the book is back", name, n)
			}
		})
	}
}

func TestAReplicaThatDoesNotReachTheCatalogDeliversWhatOthersFind(t *testing.T) {
	ids, states := manyIDs(10)
	inGroup(t, 2, states, func(g *group) {
		all := g.watchAll(ids...)
		pass(10 * time.Second)
		g.replicas[0].with(func(r *way) { r.dark = &catalog.Error{Kind: catalog.KindUnavailable, Op: "x"} })
		pass(time.Minute)
		before := time.Now()
		g.up.set(ids[3], running)
		pass(10 * time.Second)
		if got := all[0].look(); len(got.updates) != 11 || got.at[10].Sub(before) > 6*time.Second {
			t.Errorf("%d states are told", len(got.updates))
		}
	})
}

func TestABookThatWasEmptiedIsFilledAgain(t *testing.T) {
	ids, states := manyIDs(10)
	inGroup(t, 3, states, func(g *group) {
		all := g.watchAll(ids...)
		pass(time.Minute)
		for round := range 5 {
			g.newBook() // as the crash of a database leaves it
			g.up.set(ids[round], running)
			pass(15 * time.Second)
		}
		for _, s := range all {
			if got := s.look(); len(got.updates) != 15 {
				t.Errorf("a watch is told %d states", len(got.updates))
			}
		}
		before := time.Now()
		pass(time.Minute)
		if n := g.requests(before); n > 62 {
			t.Errorf("%d requests in a minute", n)
		}
	})
}

func TestAnyTroubleTellsEachStateOnceAndKeepsTheRate(t *testing.T) {
	seeds := uint64(40)
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { t.Parallel(); randomGroup(t, seed) })
	}
}

// randomGroup has replicas watch generations that change while the book, the catalog and notifications come and go.
func randomGroup(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 7))
	ids, states := manyIDs(1 + random.IntN(30))
	inGroup(t, 2+random.IntN(4), states, func(g *group) {
		g.up.delay = time.Duration(random.IntN(200)) * time.Millisecond
		all := g.watchAll(ids...)
		next := map[string]catalog.State{}
		for range 60 {
			r := g.replicas[random.IntN(len(g.replicas))]
			r.with(func(r *way) {
				switch random.IntN(6) {
				case 0:
					r.away = !r.away
				case 1:
					r.slow = time.Duration(random.IntN(900)) * time.Millisecond
				case 2:
					r.deaf = !r.deaf
				case 3:
					r.dark = map[bool]error{false: nil, true: &catalog.Error{Kind: catalog.KindUnavailable, Op: "x"}}[r.dark == nil]
				}
			})
			if id := ids[random.IntN(len(ids))]; next[id] == 0 && random.IntN(2) == 0 {
				next[id] = running
				g.up.set(id, running)
			}
			pass(time.Duration(random.IntN(10)) * time.Second)
		}
		for _, r := range g.replicas {
			r.with(func(r *way) { r.away, r.slow, r.deaf, r.dark = false, 0, false, nil })
		}
		pass(time.Minute)
		for _, id := range ids {
			g.up.set(id, succeeded)
		}
		pass(3 * time.Minute)
		for n, s := range all {
			g.replicas[n].wantEnd(s, nil)
			told := map[string][]string{}
			for _, u := range s.look().updates {
				told[u.ID] = append(told[u.ID], u.State.String())
			}
			for _, id := range ids {
				got := told[id]
				if len(got) == 0 || got[len(got)-1] != "succeeded" || len(slices.Compact(slices.Clone(got))) != len(got) || !slices.IsSorted(got) {
					t.Errorf("watch %d is told of %s: %v", n, id, got)
				}
			}
		}
	})
}

// A book that comes and goes is none to spend the rate twice: what each may do alone is planned anew at its part.
func TestABookThatComesAndGoesCostsFewRequestsMore(t *testing.T) {
	if testing.Short() {
		t.Skip("it is of scale: .ci/nightly runs it")
	}
	ids, states := manyIDs(100)
	inGroup(t, 6, states, func(g *group) {
		g.up.failList = &catalog.Error{Kind: catalog.KindUnavailable, Op: "GET /generations", Status: 503}
		g.watchAll(ids...)
		pass(2 * time.Minute)
		before := time.Now()
		for n := range 60 {
			for _, r := range g.replicas {
				r.with(func(r *way) { r.away = n%2 == 0 })
			}
			pass(time.Second)
		}
		if n := g.requests(before); n > 1.4*5*60 || n < 3*60 {
			t.Errorf("%d requests in a minute, where 300 are allowed", n)
		}
	})
}
