package watch

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
)

// ofOwner is an order selection that covers one owner's orders. It counts the calls to Covers.
type ofOwner struct {
	owner string
	asked atomic.Int64
}

func (o *ofOwner) Covers(order ledger.Attribution) bool {
	o.asked.Add(1)
	return order.Owner == o.owner
}

// placedOrders returns orders, keyed by generation ID. own lists generations of the owner "studio", and foreign
// lists generations of the owner "shop".
func placedOrders(own, foreign []string) map[string]ledger.Attribution {
	all := map[string]ledger.Attribution{}
	for _, id := range own {
		all[id] = ledger.Attribution{Owner: "studio"}
	}
	for _, id := range foreign {
		all[id] = ledger.Attribution{Owner: "shop"}
	}
	return all
}

// updatesOf returns the sorted IDs of the generations in a watch's updates.
func updatesOf(s *seen) (ids []string) {
	for _, u := range s.copyEvents().updates {
		ids = append(ids, u.ID)
	}
	slices.Sort(ids)
	return ids
}

func TestWatchOfOrdersGetsEachMatchingOrderOnceAndNoOthers(t *testing.T) {
	inBubble(t, map[string]catalog.State{"own": queued, "listed": succeeded, "foreign": queued, "known": succeeded}, func(b *bench) {
		s := b.watchWith(b.ctx, Request{
			Everything: true, Orders: &ofOwner{owner: "studio"}, IDs: []string{"own"}, Listed: []string{"listed", "known", "unlisted"},
			KnownEtags: map[string]string{"known": "another", "own": "another"},
		})
		passTime(time.Minute)
		if got := updatesOf(s); !slices.Equal(got, []string{"known", "listed", "own"}) || len(s.copyEvents().caughtUp) != 1 {
			b.t.Errorf("at first the watch got %v", got)
		}
		for _, id := range []string{"later", "other"} {
			b.up.set(id, queued)
		}
		passTime(time.Minute)
		if n := len(updatesOf(s)); n != 3 {
			b.t.Errorf("the watch got %v", updatesOf(s))
		}
		for range 3 {
			b.hub.Placed(placedOrders([]string{"later"}, []string{"other"}))
			passTime(time.Minute)
		}
		b.up.set("later", running)
		b.up.set("other", running)
		passTime(time.Minute)
		if got := updatesOf(s); !slices.Equal(got, []string{"known", "later", "later", "listed", "own"}) {
			b.t.Errorf("finally the watch got %v", got)
		}
		for _, u := range s.copyEvents().updates {
			if u.ID == "later" && u.Initial {
				b.t.Error("an order that was placed later is marked as initial")
			}
		}
	})
}

// Another process may have deleted a generation whose latest state this process still caches. A watch must not deliver
// that state.
func TestWatchOfOrdersExcludesDeletedOrder(t *testing.T) {
	inBubble(t, map[string]catalog.State{"gone": queued}, func(b *bench) {
		s := b.watchWith(b.ctx, Request{Everything: true, Orders: &ofOwner{owner: "studio"}})
		passTime(time.Millisecond)
		b.hub.Placed(map[string]ledger.Attribution{"gone": {Owner: "studio", Deleted: true}})
		passTime(time.Minute)
		if got := updatesOf(s); len(got) > 0 {
			t.Errorf("the watch got %v", got)
		}
	})
}

func TestWatchOfOrdersIncludesEarlierOrders(t *testing.T) {
	inBubble(t, map[string]catalog.State{"recent": queued}, func(b *bench) {
		recent := placedOrders([]string{"recent"}, nil)
		early := b.watchWith(b.ctx, Request{Everything: true, Orders: &ofOwner{owner: "studio"}})
		passTime(time.Millisecond)
		b.hub.Placed(recent)
		late := b.watchWith(b.ctx, Request{Everything: true, Orders: &ofOwner{owner: "studio"}}) // this watch starts with a list of orders that does not contain the recent order
		passTime(time.Millisecond)
		b.hub.Placed(recent)
		passTime(10 * time.Second)
		for name, s := range map[string]*seen{"early": early, "late": late} {
			if got := updatesOf(s); !slices.Equal(got, []string{"recent"}) {
				b.t.Errorf("the %s watch got %v", name, got)
			}
		}
	})
}

func TestWatchOfOrdersWorksWithAMalformedList(t *testing.T) {
	inBubble(t, map[string]catalog.State{"own": queued, "foreign": queued}, func(b *bench) {
		b.up.with(func(u *upstream) { u.failList = &catalog.Error{Kind: catalog.KindMalformed, Op: "GET /generations"} })
		s := b.watchWith(b.ctx, Request{Everything: true, Orders: &ofOwner{}, IDs: []string{"own"}})
		passTime(10 * time.Second)
		if got := updatesOf(s); !slices.Equal(got, []string{"own"}) || len(s.copyEvents().caughtUp) != 1 {
			b.t.Errorf("the watch got %v, and caught up with %v generations", got, s.copyEvents().caughtUp)
		}
	})
}

func TestOrdersOfOtherOwnersAreCheckedOnce(t *testing.T) {
	const others, watches = 500, 200
	states, ids := generations(others)
	states["own"] = queued
	inBubble(t, states, func(b *bench) {
		none := &ofOwner{owner: "nobody"}
		var all []*seen
		for range watches {
			all = append(all, b.watchWith(b.ctx, Request{Everything: true, Orders: none}))
			passTime(10 * time.Millisecond)
		}
		own := b.watchWith(b.ctx, Request{Everything: true, Orders: &ofOwner{}, Listed: []string{"own"}})
		foreign := placedOrders(nil, ids)
		for range 5 { // every iteration reports the same orders again, as every read of the ledger does
			b.hub.Placed(foreign)
			passTime(time.Minute)
		}
		for _, s := range all {
			if n := len(s.copyEvents().updates); n != 0 || len(s.copyEvents().caughtUp) != 1 {
				b.t.Fatalf("a watch without orders got %d updates, and caught up %d times", n, len(s.copyEvents().caughtUp))
			}
		}
		if n := none.asked.Load(); n != watches*others {
			b.t.Errorf("Covers was called %d times for %d orders and %d watches, want once for each pair", n, others, watches)
		}
		if got := updatesOf(own); !slices.Equal(got, []string{"own"}) {
			b.t.Errorf("a watch with one order got %v", got)
		}
		if n := b.hub.Stats().Generations; n != 1 {
			b.t.Errorf("%d generations are kept, want only the watched one", n)
		}
	})
}

func TestManyNewWatchesOfOrdersNeedFewListRequests(t *testing.T) {
	inBubble(t, map[string]catalog.State{"own": succeeded, "foreign": queued}, func(b *bench) {
		request := Request{Everything: true, Orders: &ofOwner{}, Listed: []string{"own"}}
		b.watchWith(b.ctx, request)
		passTime(time.Minute)
		lists := b.up.listCalls()
		var late []*seen
		for range 50 {
			late = append(late, b.watchWith(b.ctx, request))
			passTime(100 * time.Millisecond)
		}
		for _, s := range late {
			if got := updatesOf(s); !slices.Equal(got, []string{"own"}) || len(s.copyEvents().caughtUp) != 1 {
				b.t.Fatalf("the watch got %v, and caught up %d times", got, len(s.copyEvents().caughtUp))
			}
		}
		if n := b.up.listCalls() - lists; n > 3 {
			b.t.Errorf("%d list requests in five seconds, want at most 3", n)
		}
	})
}
