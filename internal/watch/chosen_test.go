package watch_test

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

// shelf is what a test has chosen: whether its money may still move, by generation.
type shelf struct {
	mu  sync.Mutex
	all map[string]bool
}

func (s *shelf) Has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.all[id]
	return ok
}

func (s *shelf) Known() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.all))
}

func (s *shelf) Unsettled() (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.all)) {
		if s.all[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

func (s *shelf) add(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[id] = true
}

// updatesOf gives the generations of a watch's updates, in order.
func updatesOf(s *seen) (ids []string) {
	for _, u := range s.look().updates {
		ids = append(ids, u.ID)
	}
	slices.Sort(ids)
	return ids
}

func TestAWatchOfWhatIsChosenIsToldOfNothingElseAndOfEachOnce(t *testing.T) {
	inBubble(t, map[string]catalog.State{"own": queued, "listed": succeeded, "foreign": queued, "known": succeeded}, func(b *bench) {
		own := &shelf{all: map[string]bool{"own": true, "listed": false, "known": true}}
		s := b.watchWith(b.ctx, watch.Request{Everything: true, Chosen: own, KnownEtags: map[string]string{"known": "another", "own": "another"}})
		pass(time.Minute)
		if got := updatesOf(s); !slices.Equal(got, []string{"known", "listed", "own"}) || len(s.look().caughtUp) != 1 {
			b.t.Errorf("at first it got %v", got)
		}
		for _, id := range []string{"later", "other"} {
			b.up.set(id, queued)
		}
		pass(time.Minute)
		if n := len(updatesOf(s)); n != 3 {
			b.t.Errorf("it got %v", updatesOf(s))
		}
		own.add("later")
		for range 3 { // it gets one again and again
			b.hub.Discovered(tenant, "later", "other")
			pass(time.Minute)
		}
		b.up.set("later", running)
		b.up.set("other", running)
		pass(time.Minute)
		if got := updatesOf(s); !slices.Equal(got, []string{"known", "later", "later", "listed", "own"}) {
			b.t.Errorf("then it got %v", got)
		}
		for _, u := range s.look().updates {
			if u.ID == "later" && u.Initial {
				b.t.Error("what has come later is called initial")
			}
		}
	})
}

func TestAWatchOfWhatIsChosenNeedsNoListThatCanBeRead(t *testing.T) {
	inBubble(t, map[string]catalog.State{"own": queued, "foreign": queued}, func(b *bench) {
		b.up.with(func(u *upstream) { u.failList = &catalog.Error{Kind: catalog.KindMalformed, Op: "GET /generations"} })
		s := b.watchWith(b.ctx, watch.Request{Everything: true, Chosen: &shelf{all: map[string]bool{"own": true}}})
		pass(10 * time.Second)
		if got := updatesOf(s); !slices.Equal(got, []string{"own"}) || len(s.look().caughtUp) != 1 {
			b.t.Errorf("it got %v, and has caught up at %v", got, s.look().caughtUp)
		}
	})
}

// counted is a shelf that counts the questions.
type counted struct {
	shelf
	asked atomic.Int64
}

func (c *counted) Has(id string) bool {
	c.asked.Add(1)
	return c.shelf.Has(id)
}

func TestWhatOthersOwnCostsAWatchOfWhatIsChosenNothing(t *testing.T) { // D9
	const others, watches = 500, 200
	_, states := manyIDs(others)
	states["own"] = queued
	inBubble(t, states, func(b *bench) {
		none := &counted{}
		var all []*seen
		for range watches {
			all = append(all, b.watchWith(b.ctx, watch.Request{Everything: true, Chosen: none}))
			pass(10 * time.Millisecond)
		}
		own := b.watchWith(b.ctx, watch.Request{Everything: true, Chosen: &shelf{all: map[string]bool{"own": false}}})
		pass(5 * time.Minute)
		for _, s := range all {
			if n := len(s.look().updates); n != 0 || len(s.look().caughtUp) != 1 {
				b.t.Fatalf("a watch without an order got %d, and has caught up %d times", n, len(s.look().caughtUp))
			}
		}
		if n := none.asked.Load(); n == 0 || n > 2*(others+1) {
			b.t.Errorf("%d questions about %d generations, for %d watches", n, others+1, watches)
		}
		if got := updatesOf(own); !slices.Equal(got, []string{"own"}) {
			b.t.Errorf("a watch of one order got %v", got)
		}
		if n := b.hub.Stats().Generations; n != 1 {
			b.t.Errorf("the hub has %d generations, want the one that somebody owns", n)
		}
	})
}

func TestAWatchOfWhatIsChosenThatBeginsLateNeedsNoNewList(t *testing.T) { // D9
	inBubble(t, map[string]catalog.State{"own": succeeded, "foreign": queued}, func(b *bench) {
		chosen := &shelf{all: map[string]bool{"own": false}}
		b.watchWith(b.ctx, watch.Request{Everything: true, Chosen: chosen})
		pass(time.Minute)
		lists := 0
		b.up.with(func(u *upstream) { lists = u.lists })
		var late []*seen
		for range 50 {
			late = append(late, b.watchWith(b.ctx, watch.Request{Everything: true, Chosen: chosen}))
			pass(100 * time.Millisecond)
		}
		b.up.with(func(u *upstream) { lists = u.lists - lists })
		for _, s := range late {
			if got := updatesOf(s); !slices.Equal(got, []string{"own"}) || len(s.look().caughtUp) != 1 {
				b.t.Fatalf("it got %v, and has caught up %d times", got, len(s.look().caughtUp))
			}
		}
		if lists > 3 {
			b.t.Errorf("%d lists in five seconds", lists)
		}
	})
}
