package orders_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/sandbox"
	"github.com/easel-grpc/easel/internal/watch"
)

// watchesOf returns the number of watches of a generation in some replicas.
func watchesOf(id string, all ...*replica) (n int) {
	for _, r := range all {
		shown := r.orders.Hub.Snapshot().Generations
		if at := slices.IndexFunc(shown, func(g watch.PolledGeneration) bool { return g.ID == id }); at >= 0 {
			n += shown[at].Watches
		}
	}
	return n
}

func TestOrderOfAnOwnerWithAReceiverIsWatched(t *testing.T) {
	inShopOf(t, sandbox.Config{Speed: 1e-6}, 1000, func(s *shop) {
		s.outbox = &ledger.Outbox{Teams: func() map[string]ledger.Team { return teamsTold("studio") }}
		if err := s.ledger.Close(); err != nil {
			s.Fatal(err)
		}
		s.open()
		first, second := s.replica(), s.replica()
		mine, others := mustPlace(s, first, "k", "a harbour"), mustPlaceOf(s, "print", first, "k", "a harbour")
		time.Sleep(time.Second)
		if watchesOf(mine.ID, first) != 1 || watchesOf(others.ID, first) != 0 {
			s.Errorf("an owner with a receiver has %d watches, another owner %d", watchesOf(mine.ID, first), watchesOf(others.ID, first))
		}
		if err := first.orders.Close(s.Context()); err != nil {
			s.Error(err)
		}
		settles(2*time.Minute, second)
		if watchesOf(mine.ID, second) != 1 || watchesOf(others.ID, second) != 0 {
			s.Errorf("after the end of the process that placed the orders, the owner has %d watches in another process, and another owner %d", watchesOf(mine.ID, second), watchesOf(others.ID, second))
		}
		settles(10*time.Minute, second)
		if n := watchesOf(mine.ID, second); n != 1 {
			s.Errorf("after ten minutes it has %d watches", n)
		}
	})
}

func TestDeadSettlerIsReplacedAfterItsLease(t *testing.T) {
	inShop(t, 1000, func(s *shop) {
		r := s.replica()
		mustPlace(s, r, "k", "a harbour")
		time.Sleep(time.Minute)
		if err := s.ledger.AddJob(s.Context(), ledger.Job{Kind: "settle"}); err != nil {
			s.Fatal(err)
		}
		if taken, err := s.ledger.TakeJobs(s.Context(), "settle", "", 1); err != nil || len(taken) != 1 { // the holder dies
			s.Fatal(taken, err)
		}
		ctx, stop := context.WithCancel(s.Context())
		var settling sync.WaitGroup
		settling.Go(func() { r.settle(ctx) })
		time.Sleep(ledger.JobLease - 2*time.Second)
		if one := s.list(ledger.Filter{})[0]; one.Status == lifecycle.Succeeded {
			s.Error("another process settles while the lease lasts")
		}
		time.Sleep(5 * time.Second)
		if one := s.list(ledger.Filter{})[0]; one.Status != lifecycle.Succeeded || !one.Settled {
			s.Errorf("after the lease it is %+v", one)
		}
		stop()
		settling.Wait()
	})
}

func TestUnreadableGenerationsDelayNoOthers(t *testing.T) {
	inShop(t, 100_000, func(s *shop) {
		r, bad := s.replica(), map[string]bool{}
		for n := range 25 {
			if g := mustPlace(s, r, fmt.Sprint("k", n), "a harbour"); n < 15 {
				bad[g.ID] = true
			}
		}
		s.box.Inject(sandbox.Fault{Route: "GET /generations", Status: http.StatusNotFound}) // each is read singly
		r.befores(func(req *http.Request) error {
			if bad[path.Base(req.URL.Path)] {
				return errors.New("the connection is gone")
			}
			return nil
		})
		settles(10*time.Minute, r)
		if left := s.list(ledger.Filter{Unsettled: true}); len(left) != 15 {
			s.Errorf("%d orders are unsettled, want the 15 unreadable ones", len(left))
		}
	})
}

func TestRejectedStateDelaysNoOtherStates(t *testing.T) {
	inShop(t, 100_000, func(s *shop) {
		r := s.replica()
		s.rejects(`NEW.status = 4 AND NEW.idempotency_key IN ('k0', 'k1', 'k2')`)
		var seen []watch.Sighting
		for n := range 20 {
			g := mustPlace(s, r, fmt.Sprint("k", n), "a harbour")
			seen = append(seen, watch.Sighting{Version: catalog.Generation{ID: g.ID, ModelID: g.ModelID, State: catalog.StateSucceeded, CostCents: g.CostCents}.Version()})
		}
		recorded := r.orders.Record(s.Context(), r.held("studio"), seen)
		for at, one := range seen {
			if rejected := at < 3; recorded[one.ID] == rejected {
				s.Errorf("whether state %d is recorded: %v", at, recorded[one.ID])
			}
		}
		if left := s.list(ledger.Filter{Unsettled: true}); len(left) != 3 || s.ledger.Counts.Faults.Load() == 0 {
			s.Errorf("%d orders are unsettled, want the 3 with rejected states, and %d faults are counted", len(left), s.ledger.Counts.Faults.Load())
		}
	})
}
