package orders_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/orders"
	"github.com/easel-grpc/easel/internal/sandbox"
)

func TestAPIKeyRotationDuringRecoveryCausesNoSecondCharge(t *testing.T) {
	inStackOf(t, sandbox.Config{Repeats: sandbox.Repeats{PerAPIKey: true}}, 1000, func(s *stack) {
		r := s.replica()
		r.loseOrder("studio", "k")
		r.setAnswer(nil)
		next, err := s.box.AddKey(s.Context(), s.key, "")
		if err != nil {
			s.Fatal(err)
		}
		time.Sleep(ledger.OrderLease + time.Second)
		sent := map[string]int{}
		r.setBefore(func(req *http.Request) error {
			if isOrder(req) {
				sent[req.Header.Get("Authorization")]++
			}
			return nil
		})
		var reads atomic.Int64
		held := catalog.Shared(func() catalog.Secret {
			if reads.Add(1) == 1 {
				return catalog.NewSecret(s.key)
			}
			return catalog.NewSecret(next)
		})
		ctx, cancel := context.WithTimeout(s.Context(), 5*time.Second)
		defer cancel()
		r.orders.ResendAbandoned(ctx, held)
		if reads.Load() < 2 || sent["Bearer "+s.key] != 1 || sent["Bearer "+next] != 0 {
			s.Errorf("after %d reads of the API key, %d orders were sent under the first key and %d under the next key", reads.Load(), sent["Bearer "+s.key], sent["Bearer "+next])
		}
		if n := s.auditAccount(); n != 1 {
			s.Errorf("%d charges, want 1", n)
		}
	})
}

func TestOutcomeStaysUnknownAfterUncertainAttempt(t *testing.T) {
	for name, row := range map[string]struct {
		meanwhile func(*stack, ledger.Order)
		refused   bool // whether the caller loses, during the attempt, its permission to order this model
	}{
		"lease held by another replica, then ledger unavailable": {meanwhile: func(s *stack, o ledger.Order) {
			_, _, err := s.ledger.Call(s.Context(), ledger.Request{
				Namespace: o.Namespace, Owner: o.Owner, Caller: o.Caller, IdempotencyKey: o.IdempotencyKey, APIKey: o.APIKey, Digest: o.Digest, InputsDigest: o.InputsDigest,
			})
			if err != nil {
				s.Error(err)
			}
			go func() {
				time.Sleep(2 * time.Second)
				_ = s.ledger.Close()
			}()
		}},
		"order resolved as not placed, and model no longer allowed": {refused: true, meanwhile: func(s *stack, o ledger.Order) {
			if _, possible, err := s.ledger.Resolve(s.Context(), o.ID, "another API key", ledger.Resolution{By: ledger.By{Actor: "ops"}}); err != nil || !possible {
				s.Error(possible, err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inStack(t, 1000, func(s *stack) {
				r := s.replica()
				var happened atomic.Bool
				r.setAnswer(func(req *http.Request, answer *http.Response) (*http.Response, error) {
					time.Sleep(2 * ledger.OrderLease)
					for _, o := range s.list(ledger.Filter{Unresolved: true}) {
						row.meanwhile(s, o)
						happened.Store(true)
					}
					return lost(req, answer)
				})
				ctx, cancel := context.WithTimeout(s.Context(), 5*ledger.OrderLease)
				defer cancel()
				_, err := r.orders.Place(ctx, r.held("studio"), r.request("studio", "k", "a harbour", func(q *orders.Request) {
					q.Terms = func() (orders.Terms, error) { return orders.Terms{Refused: row.refused && happened.Load()}, nil }
				}))
				if got := outcomeOf(err); got != orders.Unknown || !happened.Load() {
					s.Errorf("the caller receives %q, %v, and %d charges", got, err, s.auditAccount())
				}
			})
		})
	}
}

func TestOrderTimeIsNotDelayedBySlowCatalog(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		r := s.replica()
		r.setAnswer(func(_ *http.Request, answer *http.Response) (*http.Response, error) {
			time.Sleep(14 * time.Second)
			return answer, nil
		})
		ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		receipt, err := r.orders.Place(ctx, r.held("studio"), r.request("studio", "k", "a harbour"))
		if late := receipt.Placed.Sub(begun); err != nil || late > time.Second {
			s.Errorf("the order time is %v after the start of the call; error: %v", late, err)
		}
	})
}

// restartedAfterLostResponse places an order whose response is lost, and then restarts the process. posts is the number
// of orders that the old process sent to the catalog.
func (s *stack) restartedAfterLostResponse() (restarted *replica, posts int) {
	s.Helper()
	r := s.replica()
	r.loseOrder("studio", "before")
	r.close()
	return s.replica(), s.posts()
}

func TestNoOrderIsSentBeforeTheAccountIsKnown(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		restarted, posts := s.restartedAfterLostResponse()
		s.ledger.AccountUnknown.Store(true)
		_, err := restarted.place("studio", "new", "a harbour")
		if outcomeOf(err) != orders.NotPlacedByThisCall || !errors.Is(err, orders.ErrAccountUnknown) {
			s.Errorf("a new order returns %v", err)
		}
		if restarted.resendAbandoned(time.Minute); s.posts() > posts {
			s.Errorf("%d orders were sent while the account was unknown", s.posts()-posts)
		}
		s.ledger.AccountUnknown.Store(false)
		if restarted.resendAbandoned(time.Minute); s.posts() != posts+1 {
			s.Errorf("after the account was known, %d orders were sent, want 1", s.posts()-posts)
		}
	})
}

func TestNoOrderIsResentUnderARejectedAPIKey(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		restarted, posts := s.restartedAfterLostResponse()
		rejects := s.box.Inject(sandbox.Fault{Route: "GET /me", Status: http.StatusUnauthorized})
		if _, err := restarted.client.Account(s.Context(), restarted.held("")); catalog.KindOf(err) != catalog.KindCredentialRejected {
			s.Fatal(err)
		}
		if restarted.resendAbandoned(90 * time.Second); s.posts() > posts {
			s.Errorf("%d orders were sent under a rejected API key", s.posts()-posts)
		}
		rejects.Remove()
		if _, err := restarted.client.Account(s.Context(), restarted.held("")); err != nil {
			s.Fatal(err)
		}
		if restarted.resendAbandoned(time.Minute); s.posts() != posts+1 {
			s.Errorf("after the API key was accepted, %d orders were sent, want 1", s.posts()-posts)
		}
	})
}

func TestAnOrderWaitsUntilTheAccountIsKnown(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		r := s.replica()
		s.ledger.AccountUnknown.Store(true)
		time.AfterFunc(3*time.Second, func() { s.ledger.AccountUnknown.Store(false) })
		if _, err := r.place("studio", "patient", "a harbour"); err != nil || s.auditAccount() != 1 {
			s.Errorf("a caller that waits for five seconds gets %v, with %d charges", err, s.auditAccount())
		}
	})
}
