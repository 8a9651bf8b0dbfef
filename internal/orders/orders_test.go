package orders_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/orders"
)

func TestRepeatedRequestPlacesOneOrderAcrossReplicas(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		first, err := s.replica().place("studio", "k", "a harbour")
		if err != nil || first.Replayed {
			s.Fatal(first, err)
		}
		again, err := s.replica().place("studio", "k", "a harbour", func(r *orders.Request) {
			r.Inputs = []byte(` { "prompt" : "a h\u0061rbour" } `)
		})
		if err != nil || !again.Replayed || again.Generation.ID != first.Generation.ID {
			s.Errorf("the repeat returned %+v, %v", again, err)
		}
		if n := s.auditAccount(); n != 1 {
			s.Errorf("%d charges, want 1", n)
		}
	})
}

// A process that dies just before or just after it sends the POST leaves an order without an outcome in the ledger.
// Another process must resend the order, and the catalog must charge it only once.
func TestAnOrderOfADeadProcessIsRecovered(t *testing.T) {
	for name, post := range map[string]bool{"before the POST": false, "after the POST": true} {
		t.Run(name, func(t *testing.T) {
			inStack(t, 1000, func(s *stack) {
				r := s.replica()
				request := ledger.Request{
					Namespace: "studio", Owner: "studio", Caller: "studio-service", IdempotencyKey: "k", UpstreamKey: "studio.k", APIKey: r.held("studio").APIKeySum(),
					ModelID: "studio/haiku", Inputs: `{"prompt":"a harbour"}`, Digest: strings.Repeat("ab", 32),
				}
				if _, free, err := s.ledger.Write(s.Context(), request); err != nil || !free {
					s.Fatal(free, err)
				}
				if post {
					if _, _, err := r.client.Post(s.Context(), r.held("studio"), catalog.Order{ModelID: request.ModelID, Inputs: []byte(request.Inputs), IdempotencyKey: request.UpstreamKey}); err != nil {
						s.Fatal(err)
					}
				}
				s.replica().resendAbandoned(ledger.OrderLease + 5*time.Second)
				all := s.list(ledger.Filter{})
				if len(all) != 1 || all[0].State != lifecycle.Placed || s.auditAccount() != 1 {
					s.Errorf("the ledger has %+v, %d charges", all, s.auditAccount())
				}
			})
		})
	}
}

func TestOrderWithLostResponseIsResolvedWithinOneMinute(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		r := s.replica()
		r.loseOrder("studio", "k")
		r.resendAbandoned(30 * time.Minute)
		if n := len(s.list(ledger.Filter{Unresolved: true})); n != 1 {
			s.Fatalf("%d orders have an unknown outcome while responses are lost, want 1", n)
		}
		r.setAnswer(nil)
		r.resendAbandoned(time.Minute)
		if n := len(s.list(ledger.Filter{Unresolved: true})); n != 0 || s.auditAccount() != 1 {
			s.Errorf("%d orders have an unknown outcome, %d charges", n, s.auditAccount())
		}
	})
}

func TestFailedAttemptIsRecordedWhileCallerWaits(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		r := s.replica()
		r.setAnswer(func(req *http.Request, _ *http.Response) (*http.Response, error) {
			return reply(req, http.StatusBadGateway, nil, ""), nil
		})
		var placing sync.WaitGroup
		placing.Go(func() { _, _ = r.place("studio", "k", "a harbour") })
		time.Sleep(time.Second)
		if all := s.list(ledger.Filter{Unresolved: true}); len(all) != 1 || !strings.Contains(all[0].Problem, "HTTP 502") {
			s.Errorf("after a second of failures the ledger has %+v", all)
		}
		r.setAnswer(nil)
		placing.Wait()
		if all := s.list(ledger.Filter{AnyState: true}); all[0].Problem != "" {
			s.Errorf("the placed order has the problem %q", all[0].Problem)
		}
	})
}

func TestRejectedOrderFreesItsIdempotencyKey(t *testing.T) {
	inStack(t, 0, func(s *stack) {
		r := s.replica()
		_, err := r.place("studio", "k", "a harbour")
		if catalog.KindOf(err) != catalog.KindInsufficientFunds || outcomeOf(err) != orders.NotPlaced {
			s.Fatalf("%v", err)
		}
		if err := s.box.TopUp(s.Context(), s.key, 1000, "top-up"); err != nil {
			s.Fatal(err)
		}
		mustPlace(s, s.replica(), "k", "a lighthouse")
	})
}

// afterWaiting places the same order through two replicas. The second replica waits until the first replica's
// attempt is rejected. limit is the daily budget, in cents, that the second replica applies. afterWaiting returns
// the second replica's error.
func (s *stack) afterWaiting(limit int64) (err error) {
	first, second := s.replica(), s.replica()
	first.setAnswer(func(_ *http.Request, answer *http.Response) (*http.Response, error) {
		time.Sleep(time.Second)
		return answer, nil
	})
	limited := withBudget(&limit)
	var both sync.WaitGroup
	both.Go(func() {
		if _, err := first.place("studio", "k", "a harbour"); catalog.KindOf(err) != catalog.KindInsufficientFunds {
			s.Errorf("the first order returned %v", err)
		}
	})
	both.Go(func() {
		time.Sleep(100 * time.Millisecond)
		_, err = second.place("studio", "k", "a harbour", limited)
	})
	both.Wait()
	return err
}

func TestOrderRejectedOnTwoReplicasIsNotPlaced(t *testing.T) {
	t.Run("rejected by the catalog", func(t *testing.T) {
		inStack(t, 0, func(s *stack) {
			limit := s.price()
			err := s.afterWaiting(limit)
			if outcomeOf(err) != orders.NotPlaced || catalog.KindOf(err) != catalog.KindInsufficientFunds {
				s.Errorf("%v", err)
			}
			if n := len(s.list(ledger.Filter{Unresolved: true})); n != 0 {
				s.Errorf("%d orders have an unknown outcome", n)
			}
			if err := s.box.TopUp(s.Context(), s.key, 1000, "top-up"); err != nil {
				s.Fatal(err)
			}
			limited := withBudget(&limit)
			if _, err := s.replica().place("studio", "other", "a harbour", limited); err != nil {
				s.Errorf("the reservation was not released: %v", err)
			}
		})
	})
	t.Run("rejected by a budget", func(t *testing.T) {
		inStack(t, 0, func(s *stack) {
			err := s.afterWaiting(s.price() - 1)
			if _, budget := errors.AsType[*ledger.BudgetError](err); !budget || outcomeOf(err) != orders.NotPlaced || catalog.KindOf(err) != 0 {
				s.Errorf("%v", err)
			}
		})
	})
}

func TestOutcomeStaysUnknownAfterOperatorResolvesOrder(t *testing.T) {
	inStack(t, 0, func(s *stack) {
		r := s.replica()
		posts := 0
		r.setAnswer(func(req *http.Request, answer *http.Response) (*http.Response, error) {
			if posts++; posts > 1 {
				return answer, nil
			}
			time.Sleep(2 * ledger.OrderLease)
			for _, order := range s.list(ledger.Filter{Unresolved: true}) {
				if _, possible, err := s.ledger.Resolve(s.Context(), order.ID, "another API key", ledger.Resolution{By: ledger.By{Actor: "ops"}}); err != nil || !possible {
					s.Error(possible, err)
				}
			}
			return lost(req, answer)
		})
		ctx, cancel := context.WithTimeout(s.Context(), 5*ledger.OrderLease)
		defer cancel()
		_, err := r.orders.Place(ctx, r.held("studio"), r.request("studio", "k", "a harbour"))
		if catalog.KindOf(err) != catalog.KindOutcomeUnknown || posts < 2 {
			s.Errorf("%v after %d attempts", err, posts)
		}
		if n := len(s.list(ledger.Filter{Unresolved: true})); n != 1 {
			s.Errorf("%d orders have an unknown outcome", n)
		}
	})
}

func TestNoOrderIsResentAfterResendWindow(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		r := s.replica()
		r.loseOrder("studio", "k")
		time.Sleep(window)
		posts := s.posts()
		r.resendAbandoned(10 * time.Minute)
		if _, err := r.place("studio", "k", "a harbour"); catalog.KindOf(err) != catalog.KindOutcomeUnknown || !errors.Is(err, orders.ErrResendWindow) {
			s.Errorf("%v", err)
		}
		if n := s.posts(); n != posts {
			s.Errorf("%d further requests were sent", n-posts)
		}
	})
}

func TestOrderIsNotResentWithDifferentAPIKey(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		r := s.replica()
		r.loseOrder("studio", "k")
		next, err := s.box.AddKey(s.Context(), s.key, "")
		if err != nil {
			s.Fatal(err)
		}
		other := s.replica()
		other.key = next
		posts := s.posts()
		other.resendAbandoned(10 * time.Minute)
		if _, err := other.place("studio", "k", "a harbour"); catalog.KindOf(err) != catalog.KindOutcomeUnknown {
			s.Errorf("%v", err)
		}
		if n := s.posts(); n != posts {
			s.Errorf("%d further requests were sent", n-posts)
		}
	})
}

// price returns the quoted price of a haiku.
func (s *stack) price() int64 {
	r := s.replica()
	quote, err := r.client.Quote(s.Context(), r.held("studio"), "studio/haiku", []byte(`{"prompt":"a harbour"}`))
	if err != nil {
		s.Fatal(err)
	}
	return quote.PriceCents
}

func TestOrdersFailWhileTheLedgerIsUnavailable(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		r := s.replica()
		mustPlace(s, r, "k", "a harbour")
		if err := s.ledger.Close(); err != nil {
			s.Fatal(err)
		}
		for _, key := range []string{"k", "other"} {
			_, err := r.place("studio", key, "a harbour")
			if _, away := errors.AsType[*ledger.Unavailable](err); !away {
				s.Errorf("the order %q returns %v", key, err)
			}
		}
	})
}

func TestOutcomeIsUnknownIfLedgerCannotRecordIt(t *testing.T) {
	for name, refusal := range map[string]bool{"response with an ID": false, "rejection": true} {
		t.Run(name, func(t *testing.T) {
			inStack(t, 1000, func(s *stack) {
				r := s.replica()
				r.setAnswer(func(req *http.Request, answer *http.Response) (*http.Response, error) {
					if refusal {
						answer = reply(req, http.StatusForbidden, nil, "")
					}
					return answer, s.ledger.Close()
				})
				if _, err := r.place("studio", "k", "a harbour"); catalog.KindOf(err) != catalog.KindOutcomeUnknown {
					s.Errorf("%v", err)
				}
				r.close()
				s.open()
				s.replica().resendAbandoned(time.Minute)
				if n := len(s.list(ledger.Filter{Unresolved: true})); n != 0 || s.auditAccount() != 1 {
					s.Errorf("%d orders have an unknown outcome, %d charges", n, s.auditAccount())
				}
			})
		})
	}
}

func TestLateResponseDoesNotOverwriteRecordedOutcome(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		stopped := s.replica()
		stopped.setAnswer(func(req *http.Request, _ *http.Response) (*http.Response, error) {
			time.Sleep(2 * time.Minute)
			return reply(req, http.StatusPaymentRequired, nil, ""), nil
		})
		if _, err := stopped.place("studio", "k", "a harbour"); catalog.KindOf(err) != catalog.KindOutcomeUnknown {
			s.Errorf("%v", err)
		}
		s.replica().resendAbandoned(time.Minute)
		before := s.list(ledger.Filter{})
		stopped.close() // waits until the stopped replica has handled the late response to its order
		if after := s.list(ledger.Filter{}); len(before) != 1 || len(after) != 1 || after[0].Generation != before[0].Generation || s.auditAccount() != 1 {
			s.Errorf("the ledger had %+v and has %+v, %d charges", before, after, s.auditAccount())
		}
	})
}
