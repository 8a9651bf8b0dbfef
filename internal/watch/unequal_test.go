package watch_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger/shared"
	"github.com/easel-grpc/easel/internal/watch"
)

// awaitUpdates gives when a watch was told so many states, since a time, or 20 minutes.
func awaitUpdates(s *seen, n int, since time.Time) time.Duration {
	for time.Since(since) < 20*time.Minute {
		if got := s.look(); len(got.updates) >= n {
			return got.at[n-1].Sub(since)
		}
		pass(100 * time.Millisecond)
	}
	return 20 * time.Minute
}

// refusing is a book that refuses each poll, and does not say why.
type refusing struct{ claims atomic.Int32 }

func (b *refusing) Claim(ctx context.Context, _ string, _ shared.Ask) (shared.Claim, error) {
	b.claims.Add(1)
	return shared.Claim{Key: shared.Key{Born: 1, Now: time.Now().UnixMicro()}}, pause(ctx, time.Millisecond)
}

func (b *refusing) News(ctx context.Context, _ string, after shared.Cursor, _ []string) (shared.News, error) {
	return shared.News{Key: shared.Key{Born: 1, Now: time.Now().UnixMicro()}, Next: after}, pause(ctx, time.Millisecond)
}

func (b *refusing) Write(context.Context, string, shared.Found) (shared.Written, error) {
	return shared.Written{}, nil
}

func (b *refusing) Exchange(context.Context, string, string, string) (shared.Others, error) {
	return shared.Others{}, nil
}

func (b *refusing) Changed(string) (<-chan struct{}, func()) { return nil, func() {} }

func TestARefusedPollIsNotAskedForAtOnceAgain(t *testing.T) {
	for _, n := range []int{1, 10} {
		synctest.Test(t, func(t *testing.T) {
			ids, states := manyIDs(n)
			book := &refusing{}
			ctx, cancel := context.WithCancel(t.Context())
			up := newUpstream(states)
			hub, err := watch.New(watch.Config{Upstream: up, Seed: 1, Book: book})
			if err != nil {
				t.Fatal(err)
			}
			b := &bench{t, up, hub, ctx}
			b.watch(ids...)
			pass(10 * time.Second)
			if got := book.claims.Load(); got > 12 || got < 5 {
				t.Errorf("the book is asked %d times in 10 seconds for %d generations", got, n)
			}
			cancel()
			synctest.Wait()
			hub.Close()
		})
	}
}

// The book forgets after an hour what sweeps alone have carried. Whoever comes then does not write the end of what it does
// not watch.
func TestTheBookKeepsWhatIsWatchedAndSweptForHours(t *testing.T) {
	for name, slow := range map[string]time.Duration{"near": 0, "farther": 2 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			ids, states := manyIDs(12)
			inGroup(t, 2, states, func(g *group) {
				one, two := g.replicas[0], g.replicas[1]
				two.with(func(r *way) { r.slow = slow })
				one.watch(ids[:6]...)
				mine := two.watch(ids[6:]...)
				for range 14 {
					pass(5 * time.Minute)
					if err := one.book.Forget(g.ctx); err != nil {
						t.Fatal(err)
					}
				}
				one.hub.Close()
				late := g.join()
				g.up.set(ids[7], succeeded)
				ended := time.Now()
				late.watch(ids[:6]...)
				if after := awaitUpdates(mine, 7, ended); after > 10*time.Second {
					t.Errorf("an end is told after %v", after)
				}
			})
		})
	}
}

// A replica that is farther from the book loses each claim. The first list of the other, in an empty book, does not write
// the ends of what it does not watch.
func TestAnEndIsToldThatAFirstListDoesNotWrite(t *testing.T) {
	for name, slow := range map[string]time.Duration{"near": 0, "farther": 2 * time.Millisecond, "far": 20 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			ids, states := manyIDs(12)
			inGroup(t, 2, states, func(g *group) {
				one, two := g.replicas[0], g.replicas[1]
				two.with(func(r *way) { r.slow = slow })
				one.watch(ids[:6]...)
				mine := two.watch(ids[6:]...)
				pass(6 * time.Minute)
				g.newBook()
				g.up.set(ids[7], succeeded)
				if after := awaitUpdates(mine, 7, time.Now()); after > 12*time.Second {
					t.Errorf("the end is told after %v", after)
				}
			})
		})
	}
}

// A read that does not find a generation ends no watch of a replica that has seen it, whoever has made the read.
func TestOneReadElsewhereThatFindsNothingEndsNoWatch(t *testing.T) {
	inGroup(t, 2, map[string]catalog.State{"a": running}, func(g *group) {
		one, two := g.replicas[0], g.replicas[1]
		mine := two.watch("a")
		pass(40 * time.Second)
		g.newBook()
		g.up.with(func(u *upstream) { delete(u.states, "a") })
		other := one.watch("a")
		pass(300 * time.Millisecond)
		one.wantStates(other, "deleted")
		g.up.set("a", running)
		pass(time.Minute)
		two.wantStates(mine, "running")
		g.up.with(func(u *upstream) { delete(u.states, "a") })
		pass(3 * time.Minute)
		two.wantStates(mine, "running", "deleted")
		two.wantEnd(mine, nil)
	})
}

// A read says less than the list has said before: it comes from a part of the catalog that lags behind. The sweeps of
// another, which does not watch the generation, find no change.
func TestAReadThatLagsBehindTheListIsReadAgain(t *testing.T) {
	ids, states := manyIDs(12)
	inGroup(t, 2, states, func(g *group) {
		one, two := g.replicas[0], g.replicas[1]
		two.with(func(r *way) { r.slow = 20 * time.Millisecond })
		one.watch(ids[:6]...)
		mine := two.watch(ids[6:]...)
		pass(10 * time.Second)
		two.with(func(r *way) { r.lags = map[string]catalog.State{ids[7]: queued} })
		g.up.set(ids[7], succeeded)
		ended := time.Now()
		pass(10 * time.Second)
		two.with(func(r *way) { r.lags = nil })
		if after := awaitUpdates(mine, 7, ended); after > 80*time.Second {
			t.Errorf("the end is told after %v", after)
		}
	})
}

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

// A read is on its way while the API key rotates: what it finds is of the old one.
func TestAnAnswerUnderAnOldAPIKeyIsNotWrittenUnderTheNewOne(t *testing.T) {
	inGroup(t, 1, map[string]catalog.State{"a": queued, "b": queued}, func(g *group) {
		g.up.delay = 3 * time.Second
		key := &atomic.Value{}
		key.Store("old")
		held := catalog.Held(func() catalog.Secret { return catalog.NewSecret(key.Load().(string)) })
		r := g.replicas[0]
		r.watchWith(g.ctx, watch.Request{Credential: held, IDs: []string{"a"}})
		pass(time.Second)
		key.Store("new")
		r.watchWith(g.ctx, watch.Request{Credential: held, IDs: []string{"b"}})
		pass(2500 * time.Millisecond)
		news, err := r.book.News(g.ctx, held.APIKeySum(), shared.Cursor{}, []string{"a"})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range news.States {
			if s.Record != "" {
				t.Errorf("the row of %s under the new API key has what a read under the old one has found", s.ID)
			}
		}
	})
}

func TestAPollThatAnEmptyBookGrantsIsMade(t *testing.T) {
	inGroup(t, 1, map[string]catalog.State{"a": queued}, func(g *group) {
		r := g.replicas[0]
		r.watch("a")
		pass(30 * time.Second)
		g.newBook()
		claims, began := r.claims, time.Now()
		for r.requests(began) == 0 {
			pass(50 * time.Millisecond)
		}
		if n := r.claims - claims; n != 1 {
			t.Errorf("%d claims come before the next request", n)
		}
	})
}

func TestAnOldAnswerOfAnotherDoesNotSayThatTheCatalogIsHealthy(t *testing.T) {
	inGroup(t, 2, map[string]catalog.State{"a": queued}, func(g *group) {
		one, two := g.replicas[0], g.replicas[1]
		one.watch("a")
		pass(10 * time.Second)
		one.hub.Close()
		pass(5 * time.Minute)
		g.up.with(func(u *upstream) { u.delay = 20 * time.Second })
		two.watch("a")
		pass(5 * time.Second)
		if c := two.hub.Snapshot().Credentials[0].Condition; c != watch.ConditionUnknown {
			t.Errorf("a catalog that has not answered for five minutes is told to be %v", c)
		}
	})
}
