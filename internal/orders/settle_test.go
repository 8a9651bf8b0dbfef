package orders_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/jobs"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/sandbox"
	"github.com/easel-grpc/easel/internal/watch"
)

// settleWindow is the time that tests wait for one run of the settlement job. It is shorter than the interval between two runs.
const settleWindow = 29 * time.Second

// runSettlement runs the replicas' settlement jobs for the given time.
func runSettlement(d time.Duration, replicas ...*replica) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	var running sync.WaitGroup
	for _, r := range replicas {
		running.Go(func() { r.settle(ctx) })
	}
	running.Wait()
	synctest.Wait()
}

// settle runs the replica's settlement jobs until ctx is done.
func (r *replica) settle(ctx context.Context) {
	jobs.New(r.ledger, slog.New(slog.DiscardHandler), r.orders.Settle(r.held(""))).Run(ctx)
}

// budget returns the amounts, in cents, that are spent and reserved in today's budget of the owner "studio".
func (s *stack) budget() (spent, reserved int64) {
	s.Helper()
	most := int64(1 << 40)
	all, err := s.ledger.Budgets(context.Background(), "studio", ledger.Limits{DailyCents: &most})
	if err != nil || len(all) != 1 {
		s.Fatal(all, err)
	}
	return all[0].SpentCents, all[0].ReservedCents
}

// reads returns the number of reads of single generations and the number of list requests that the catalog has
// received.
func (s *stack) reads() (single, lists int) {
	all := s.box.Requests()
	return all["GET /generations/{id}"], all["GET /generations"]
}

func mustPlace(s *stack, r *replica, key, prompt string) catalog.Generation {
	s.Helper()
	receipt, err := r.place("studio", key, prompt)
	if err != nil {
		s.Fatal(err)
	}
	return receipt.Generation
}

func TestRefundOfUnwatchedOrderIsReturnedToBudget(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		r := s.replica()
		mustPlace(s, r, "k", "a harbour [fail]")
		if spent, reserved := s.budget(); spent == 0 || reserved != 0 {
			s.Fatalf("%d spent, %d reserved after the order", spent, reserved)
		}
		runSettlement(20*time.Minute, r)
		one := s.list(ledger.Filter{})[0]
		if spent, reserved := s.budget(); spent != 0 || reserved != 0 || one.Status != lifecycle.Refunded || !one.Settled {
			s.Errorf("%d spent, %d reserved, %+v", spent, reserved, one)
		}
	})
}

func TestMissingRefundLeavesChargeUnconfirmed(t *testing.T) {
	inStackOf(t, sandbox.Config{Dialect: sandbox.Dialect{Refund: sandbox.RefundSilent}}, 1000, func(s *stack) {
		r := s.replica()
		mustPlace(s, r, "k", "a harbour [fail]")
		runSettlement(5*time.Minute, r)
		if one := s.list(ledger.Filter{})[0]; one.Status != lifecycle.Failed || one.Settled {
			s.Errorf("within the refund window the order is %+v", one)
		}
		runSettlement(refundWindow, r)
		one := s.list(ledger.Filter{})[0]
		if spent, _ := s.budget(); !one.Settled || one.UnconfirmedCents != *one.CostCents || spent != *one.CostCents {
			s.Errorf("after the refund window the order is %+v, with %d cents spent", one, spent)
		}
		before, _ := s.reads()
		runSettlement(10*time.Minute, r)
		if after, _ := s.reads(); after != before {
			s.Errorf("the settled order was read %d times", after-before)
		}
	})
}

func TestOutdatedListDoesNotHideRefunds(t *testing.T) {
	inStackOf(t, sandbox.Config{RefundDelay: 5 * time.Minute}, 100_000, func(s *stack) {
		r, listed := s.replica(), []string{}
		for n := range 12 {
			g := mustPlace(s, r, fmt.Sprint("k", n), "a harbour [fail]")
			listed = append(listed, fmt.Sprintf(`{"id": %q, "status": "failed", "costCents": 7}`, g.ID))
		}
		s.box.Inject(sandbox.Fault{Route: "GET /generations", Body: "[" + strings.Join(listed, ",") + "]"}) // from now on, the catalog's list contains only outdated states
		runSettlement(refundWindow+10*time.Minute, r)
		for _, one := range s.list(ledger.Filter{}) {
			if one.Status != lifecycle.Refunded || !one.Settled {
				s.Errorf("the order is %+v", one)
			}
		}
	})
}

func TestRefundOfSettledOrderIsReturnedToBudget(t *testing.T) {
	for name, sees := range map[string]func(*stack, *replica, catalog.Version){
		"by a read": func(s *stack, r *replica, read catalog.Version) {
			r.orders.Hub.Observe(s.Context(), r.held("studio"), read, true)
		},
		"in a list": func(s *stack, r *replica, read catalog.Version) {
			owner := "studio"
			listed, err := r.orders.List(s.Context(), ledger.Filter{Owner: &owner}, ledger.Position{}, 10)
			if err != nil || len(listed) != 1 {
				s.Fatal(listed, err)
			}
			r.orders.ListedLater(s.Context(), r.held("studio"), listed, catalog.NewList([]catalog.Version{read}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inStack(t, 1000, func(s *stack) {
				r := s.replica()
				g := mustPlace(s, r, "k", "a harbour")
				states := r.watchStates(g.ID)
				runSettlement(5*time.Minute, r)
				if one := s.list(ledger.Filter{})[0]; one.Status != lifecycle.Succeeded || !one.Settled {
					s.Fatalf("the order is %+v", one)
				}
				if err := s.box.Refund(s.Context(), s.key, g.ID); err != nil {
					s.Fatal(err)
				}
				read, err := r.client.Generation(s.Context(), r.held("studio"), g.ID)
				if err != nil || read.State != catalog.StateRefunded {
					s.Fatal(read, err)
				}
				sees(s, r, read)
				one := s.list(ledger.Filter{})[0]
				if spent, reserved := s.budget(); spent != 0 || reserved != 0 || one.RefundedCents != *one.CostCents || one.Status != lifecycle.Succeeded {
					s.Errorf("%d spent, %d reserved, %+v", spent, reserved, one)
				}
				if all := states(); all[len(all)-1] != catalog.StateSucceeded {
					s.Errorf("the watchers received %v", all)
				}
			})
		})
	}
}

func TestDeletionInCatalogIsRecordedAndReportedToWatches(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		r := s.replica()
		g := mustPlace(s, r, "k", "a harbour")
		if err := r.client.Delete(s.Context(), r.held("studio"), g.ID); err != nil {
			s.Fatal(err)
		}
		told := r.watchStates(g.ID)
		runSettlement(3*time.Minute, r)
		if one := s.list(ledger.Filter{})[0]; !one.IsDeleted() || !one.Settled || one.UnconfirmedCents != *one.CostCents {
			s.Errorf("the order is %+v", one)
		}
		if states := told(); states[len(states)-1] != catalog.StateDeleted {
			s.Errorf("a watcher receives %v", states)
		}
		again, err := s.replica().place("studio", "k", "a harbour")
		if err != nil || again.Generation.State != catalog.StateDeleted {
			s.Errorf("the replay is %+v, %v", again, err)
		}
	})
}

func TestSettlementByTwoReplicasLimitsCatalogReads(t *testing.T) {
	inStack(t, 100_000, func(s *stack) {
		one, other := s.replica(), s.replica()
		for n := range 40 {
			g := mustPlace(s, one, fmt.Sprint("k", n), "a harbour")
			if err := one.client.Delete(s.Context(), one.held("studio"), g.ID); err != nil {
				s.Fatal(err)
			}
		}
		time.Sleep(30 * time.Second)
		for run := range 4 {
			single, lists := s.reads()
			runSettlement(settleWindow, one, other)
			after, listsAfter := s.reads()
			if after-single > 5 || listsAfter-lists > 1 {
				s.Errorf("in run %d: %d single reads, %d lists", run, after-single, listsAfter-lists)
			}
		}
		runSettlement(8*time.Minute, one, other)
		if left := s.list(ledger.Filter{Unsettled: true}); len(left) != 0 {
			s.Errorf("%d orders are unsettled", len(left))
		}
	})
}

func TestSettlementWorksWithoutListEndpoint(t *testing.T) {
	for name, row := range map[string]struct {
		fault   sandbox.Fault
		settles bool
	}{
		"not found":    {sandbox.Fault{Status: 404}, true},
		"forbidden":    {sandbox.Fault{Status: 403}, true},
		"unreadable":   {sandbox.Fault{Status: 200, Body: `[[`}, true},
		"an outage":    {sandbox.Fault{Status: 503}, false},
		"rate limited": {sandbox.Fault{Status: 429}, false},
		"unauthorized": {sandbox.Fault{Status: 401}, false},
	} {
		t.Run(name, func(t *testing.T) {
			inStack(t, 100_000, func(s *stack) {
				r := s.replica()
				for n := range 25 {
					mustPlace(s, r, fmt.Sprint("k", n), "a harbour")
				}
				row.fault.Route = "GET /generations"
				broken := s.box.Inject(row.fault)
				time.Sleep(time.Minute)
				for range 3 {
					before, _ := s.reads()
					runSettlement(settleWindow, r)
					if after, _ := s.reads(); after-before > 5 || !row.settles && after > before {
						s.Errorf("%d single reads in a run", after-before)
					}
					time.Sleep(time.Minute)
				}
				left := len(s.list(ledger.Filter{Unsettled: true}))
				if broken.Fired() == 0 || (left < 25) != row.settles {
					s.Errorf("%d orders are unsettled after %d lists", left, broken.Fired())
				}
			})
		})
	}
}

func TestObservedStateIsRecordedWithoutInputs(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		r := s.replica()
		g := mustPlace(s, r, "k", "a harbour")
		g.State, g.Status, g.Inputs, g.FailureMessage = catalog.StateRefunded, "refunded", catalog.Value(`{"prompt":"secret"}`), "no"
		r.recordVersions(r.held("studio"), g.Version())
		one := s.list(ledger.Filter{})[0]
		if one.Status != lifecycle.Refunded || strings.Contains(one.Record, "secret") {
			s.Errorf("the order is %+v", one)
		}
		all, err := r.orders.List(s.Context(), ledger.Filter{}, ledger.Position{}, 10)
		if err != nil || len(all) != 1 || all[0].State != catalog.StateRefunded || all[0].FailureMessage != "no" || *all[0].CostCents != *g.CostCents {
			s.Errorf("the list has %+v, %v", all, err)
		}
	})
}

func TestStateObservedBeforeOrderResponseIsRecorded(t *testing.T) {
	for state, want := range map[catalog.State]lifecycle.Status{catalog.StateRunning: lifecycle.Running, catalog.StateSucceeded: lifecycle.Succeeded} {
		t.Run(state.String(), func(t *testing.T) {
			inStack(t, 1000, func(s *stack) {
				r := s.replica()
				// A list already contains the generation while the response to its order is still in flight.
				r.setAnswer(func(_ *http.Request, answer *http.Response) (*http.Response, error) {
					all, err := r.client.List(s.Context(), r.held("studio"), time.Now())
					if err != nil || len(all.Records) != 1 {
						s.Fatalf("the listed orders are %+v, %v", all, err)
					}
					seen := all.Records[0].Generation
					seen.State, seen.Status = state, state.String()
					r.orders.Hub.Observe(s.Context(), r.held("studio"), seen.Version(), true)
					return answer, nil
				})
				g := mustPlace(s, r, "k", "a harbour")
				r.orders.Hub.Created(s.Context(), r.held("studio"), g, "studio/haiku", time.Now())
				if one := s.list(ledger.Filter{})[0]; one.Status != want {
					s.Errorf("the order is %+v", one)
				}
			})
		})
	}
}

func TestStateReadWithUnrelatedAPIKeyIsNotRecorded(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		r := s.replica()
		mine, g := placeForwarded(r)
		time.Sleep(time.Minute)
		deleted := catalog.Generation{ID: g.ID, State: catalog.StateDeleted}.Version()
		absent := []watch.Sighting{{Version: deleted, NotFound: true}}
		r.orders.Record(s.Context(), catalog.Forwarded(catalog.NewSecret("another")), absent)
		runSettlement(5*time.Minute, r)
		if one := s.list(ledger.Filter{})[0]; one.IsDeleted() || one.Status != lifecycle.Unseen {
			s.Errorf("the order is %+v", one)
		}
		r.orders.Record(s.Context(), mine, absent)
		if one := s.list(ledger.Filter{})[0]; !one.IsDeleted() {
			s.Errorf("after a read under its own API key the order is %+v", one)
		}
	})
}
