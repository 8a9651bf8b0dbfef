package orders_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"sync"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/sandbox"
	"github.com/easel-grpc/easel/internal/watch"
)

func TestUnwatchedOrderIsPolledUntilSettled(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		r := s.replica()
		mine := mustPlace(s, r, "k", "a harbour")
		r.orders.Hub.Created(s.Context(), r.held("studio"), mine, "studio/haiku", time.Now())
		if stats := r.orders.Hub.Stats(); stats.Active != 1 || stats.Watches != 0 {
			s.Errorf("%d generations are polled for %d watches, want 1 for 0", stats.Active, stats.Watches)
		}
		time.Sleep(time.Minute)
		if one := s.list(ledger.Filter{})[0]; one.Status != lifecycle.Succeeded || !one.Settled {
			s.Errorf("after a minute the order is %+v", one)
		}
		if stats := r.orders.Hub.Stats(); stats.Pollers != 0 {
			s.Errorf("after the generation ended, %d pollers are running", stats.Pollers)
		}
	})
}

func TestUnwatchedOrderIsPolledForADay(t *testing.T) {
	inStackOf(t, sandbox.Config{Speed: 1e-6}, 1000, func(s *stack) {
		r := s.replica()
		mine := mustPlace(s, r, "k", "a harbour")
		r.orders.Hub.Created(s.Context(), r.held("studio"), mine, "studio/haiku", time.Now())
		time.Sleep(23 * time.Hour)
		if active := r.orders.Hub.Stats().Active; active != 1 {
			s.Errorf("after 23 hours, %d generations are polled", active)
		}
		time.Sleep(2 * time.Hour)
		if active := r.orders.Hub.Stats().Active; active != 0 {
			s.Errorf("after 25 hours, %d generations are polled", active)
		}
	})
}

func TestFinalStateIsRecordedWithinOneMinuteDespiteRestart(t *testing.T) {
	for at := range 6 { // each subtest stops the process after a different time
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			inStackOf(t, sandbox.Config{Speed: 0.1}, 1000, func(s *stack) {
				before, after := s.replica(), s.replica()
				mine := mustPlace(s, before, "k", "a harbour")
				before.orders.Hub.Created(s.Context(), before.held("studio"), mine, "studio/haiku", time.Now())
				ctx, stop := context.WithCancel(s.Context())
				var settling sync.WaitGroup
				settling.Go(func() { after.settle(ctx) })
				time.Sleep(time.Duration(at) * 4 * time.Second)
				before.orders.Hub.Close()
				for s.list(ledger.Filter{})[0].Status != lifecycle.Succeeded {
					time.Sleep(time.Second)
				}
				read, err := after.client.Generation(s.Context(), after.held("studio"), mine.ID)
				if late := time.Since(read.TerminalTime); err != nil || late > time.Minute {
					s.Errorf("the terminal state was recorded with a delay of %v: %v", late, err)
				}
				stop()
				settling.Wait()
			})
		})
	}
}

func TestUnreadableGenerationsDoNotBlockSettlement(t *testing.T) {
	inStack(t, 100_000, func(s *stack) {
		r, bad := s.replica(), map[string]bool{}
		for n := range 25 {
			if g := mustPlace(s, r, fmt.Sprint("k", n), "a harbour"); n < 15 {
				bad[g.ID] = true
			}
		}
		s.box.Inject(sandbox.Fault{Route: "GET /generations", Status: http.StatusNotFound}) // the catalog rejects reads of the list, so each generation is read separately
		r.setBefore(func(req *http.Request) error {
			if bad[path.Base(req.URL.Path)] {
				return errors.New("the connection is gone")
			}
			return nil
		})
		runSettlement(10*time.Minute, r)
		if left := s.list(ledger.Filter{Unsettled: true}); len(left) != 15 {
			s.Errorf("%d orders are unsettled, want the 15 unreadable ones", len(left))
		}
	})
}

func TestFailedStateWriteDoesNotBlockOtherWrites(t *testing.T) {
	inStack(t, 100_000, func(s *stack) {
		r := s.replica()
		s.rejectUpdates(`NEW.status = 4 AND NEW.idempotency_key IN ('k0', 'k1', 'k2')`)
		var seen []watch.Sighting
		for n := range 20 {
			g := mustPlace(s, r, fmt.Sprint("k", n), "a harbour")
			seen = append(seen, watch.Sighting{Version: catalog.Generation{ID: g.ID, ModelID: g.ModelID, State: catalog.StateSucceeded, CostCents: g.CostCents}.Version()})
		}
		recorded := r.orders.Record(s.Context(), r.held("studio"), seen)
		for at, one := range seen {
			if rejected := at < 3; recorded[one.ID] == rejected {
				s.Errorf("state %d: recorded: %v", at, recorded[one.ID])
			}
		}
		if left := s.list(ledger.Filter{Unsettled: true}); len(left) != 3 || s.ledger.Counts.Faults.Load() == 0 {
			s.Errorf("%d orders are unsettled, want the 3 with rejected states, and %d faults are counted", len(left), s.ledger.Counts.Faults.Load())
		}
	})
}
