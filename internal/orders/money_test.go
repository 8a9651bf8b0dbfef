package orders_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/orders"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// isQuote reports whether a request is for a quote.
func isQuote(req *http.Request) bool { return strings.HasSuffix(req.URL.Path, "/quote") }

// delayQuotes delays the replica's requests for quotes by 2 s.
func (r *replica) delayQuotes() {
	r.setBefore(func(req *http.Request) error {
		if isQuote(req) {
			return pause(req.Context(), 2*time.Second)
		}
		return nil
	})
}

// pause waits for d, or until ctx is done.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestCallerAndBudgetAreRecheckedAfterQuote(t *testing.T) {
	removed := errors.New("the caller was removed")
	for name, row := range map[string]struct {
		terms orders.Terms
		err   error
	}{
		"the caller is removed":          {err: removed},
		"the caller's budget is lowered": {terms: orders.Terms{Limits: ledger.Limits{DailyCents: new(int64(0))}}},
	} {
		t.Run(name, func(t *testing.T) {
			inStack(t, 1000, func(s *stack) {
				r := s.replica()
				r.delayQuotes()
				asked := 0
				_, err := r.place("studio", "k", "a harbour", func(r *orders.Request) {
					r.Terms = func() (orders.Terms, error) {
						if asked++; asked > 1 {
							return row.terms, row.err
						}
						return orders.Terms{Limits: ledger.Limits{DailyCents: new(int64(100))}}, nil
					}
				})
				_, budget := errors.AsType[*ledger.BudgetError](err)
				if errors.Is(err, removed) != (row.err != nil) || budget != (row.err == nil) || outcomeOf(err) != orders.NotPlaced || s.auditAccount() != 0 || len(s.list(ledger.Filter{})) != 0 {
					s.Errorf("got %v and %d charges, want a rejection and no charges", err, s.auditAccount())
				}
			})
		})
	}
}

// While one call requests a quote, another call places the same order. The price is above the first call's limit. If
// the calls use different replicas, the error of the first call must not report that the order was not placed.
func TestOrderOnAnotherReplicaMakesRejectionUncertain(t *testing.T) {
	for name, same := range map[string]bool{"on another replica": false, "on the same replica": true} {
		t.Run(name, func(t *testing.T) {
			inStack(t, 1000, func(s *stack) {
				limited, free := s.replica(), s.replica()
				if same {
					free = limited
				}
				limited.delayQuotes()
				var slow orders.Receipt
				var refused error
				var calls sync.WaitGroup
				calls.Go(func() {
					none := int64(0)
					slow, refused = limited.place("studio", "k", "a harbour", func(r *orders.Request) { r.MaxCostCents = &none })
				})
				time.Sleep(time.Second)
				placed, err := free.place("studio", "k", "a harbour")
				calls.Wait()
				if err != nil {
					s.Fatalf("the order without a limit was rejected: %v", err)
				}
				if refused != nil && outcomeOf(refused) == orders.NotPlaced && !same || refused == nil && slow.Generation.ID != placed.Generation.ID || s.auditAccount() != 1 {
					s.Errorf("the other caller received %+v, %v; there were %d charges", slow, refused, s.auditAccount())
				}
			})
		})
	}
}

// The catalog responds that the idempotency key was used for another order. That order may be an earlier attempt of the
// same order, so the outcome is unknown.
func TestCatalogKeyReuseErrorLeavesOutcomeUnknown(t *testing.T) {
	for body, status := range map[string]int{
		`{"code":"IDEMPOTENCY_KEY_REUSED","message":"it stands for another order"}`:                          http.StatusConflict,
		`{"code":"IDEMPOTENCY_CONFLICT","message":"another one"}`:                                            http.StatusUnprocessableEntity,
		`{"title":"Idempotency-Key is already used"}`:                                                        http.StatusUnprocessableEntity,
		`{"error":"Idempotency-Key has already been used with a different request body"}`:                    http.StatusBadRequest,
		`{"error":{"type":"idempotency_error","message":"Keys can only be used with the same parameters."}}`: http.StatusBadRequest,
	} {
		t.Run(body, func(t *testing.T) {
			inStack(t, 1000, func(s *stack) {
				s.box.Inject(sandbox.Fault{Route: "POST /generations", Status: status, Body: body})
				_, err := s.replica().place("studio", "k", "a harbour")
				if all := s.list(ledger.Filter{}); outcomeOf(err) != orders.Unknown || status == http.StatusConflict && catalog.KindOf(err) != catalog.KindKeyReused || len(all) != 0 {
					s.Errorf("the caller receives %v", err)
				}
				if again, err := s.replica().place("studio", "k", "a lighthouse"); catalog.KindOf(err) != catalog.KindKeyReused {
					s.Errorf("the key is free for another order: %+v, %v", again, err)
				}
			})
		})
	}
}

// The catalog rejects the API key of one replica. The replica cannot settle orders, and must leave them to other
// replicas.
func TestOrdersAreSettledDespiteOneRejectedAPIKey(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		revoked, good := s.replica(), s.replica()
		mustPlace(s, good, "k", "a harbour [fail]")
		revoked.key = "no-key-of-the-catalog"
		requests := 0
		revoked.setBefore(func(*http.Request) error { requests++; return nil })
		runSettlement(10*time.Minute, revoked)
		if requests == 0 || requests > 15 {
			s.Errorf("the replica with the rejected API key sent %d requests in ten minutes", requests)
		}
		ctx, cancel := context.WithTimeout(s.Context(), 15*time.Minute)
		defer cancel()
		go revoked.settle(ctx) // acquires the lease of the settlement job before the other replica does
		time.Sleep(time.Second)
		runSettlement(14*time.Minute, good)
		<-ctx.Done()
		synctest.Wait()
		if one := s.list(ledger.Filter{})[0]; one.Status != lifecycle.Refunded || !one.Settled {
			s.Errorf("the refund is not recorded: %+v", one)
		}
	})
}

// The connection of the first attempt fails, so the catalog may have accepted this attempt. The rejection of the second
// attempt is therefore definite only if the catalog checks the idempotency key before the balance.
func TestRejectionIsDefiniteIfKeyIsCheckedBeforeBalance(t *testing.T) {
	for keyFirst, state := range map[bool]lifecycle.State{false: lifecycle.Open, true: lifecycle.Refused} {
		t.Run(fmt.Sprint(keyFirst), func(t *testing.T) {
			inStack(t, 1000, func(s *stack) {
				s.box.Inject(sandbox.Fault{Route: "POST /generations", Status: http.StatusPaymentRequired, Body: `{"code":"INSUFFICIENT_BALANCE","message":"no money"}`})
				r, first := s.replicaWith(orders.Config{KeyFirst: keyFirst}), true
				r.setBefore(func(req *http.Request) error {
					if isOrder(req) && first {
						first = false
						return errors.New("the connection is gone")
					}
					return nil
				})
				_, err := r.place("studio", "k", "a harbour")
				if (outcomeOf(err) == orders.NotPlaced) != keyFirst {
					s.Errorf("the caller receives %v", err)
				}
				_, reserved := s.budget()
				free, err := s.ledger.IsFree(s.Context(), ledger.Request{Namespace: "studio", Owner: "studio", Caller: "another", IdempotencyKey: "k", UpstreamKey: "x"})
				if err != nil || free != (state == lifecycle.Refused) || reserved != 0 {
					s.Errorf("the key is free: %v, %v; %d cents are reserved", free, err, reserved)
				}
			})
		})
	}
}

func TestReasonForRejectedResendIsLoggedAndRecorded(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		s.box.Inject(sandbox.Fault{Route: "POST /generations", Status: http.StatusPaymentRequired, Body: `{"code":"INSUFFICIENT_BALANCE","message":"no money"}`})
		r, first := s.replica(), true
		var logs strings.Builder
		r.orders.Logger = slog.New(slog.NewTextHandler(&logs, nil))
		r.setBefore(func(req *http.Request) error {
			if isOrder(req) && first {
				first = false
				return errors.New("the connection is gone")
			}
			return nil
		})
		if _, err := r.place("studio", "k", "a harbour"); outcomeOf(err) != orders.Unknown {
			s.Fatalf("the caller receives %v", err)
		}
		r.resendAbandoned(5 * time.Minute)
		why := "HTTP 402, insufficient balance: no money"
		if all := s.list(ledger.Filter{Unresolved: true}); len(all) != 1 || all[0].Problem != why {
			s.Errorf("the ledger has %+v", all)
		}
		if n := strings.Count(logs.String(), fmt.Sprintf("refusal=%q", why)); n != 1 || n != strings.Count(logs.String(), "\n") {
			s.Errorf("the log is %s", logs.String())
		}
		s.box.ClearFaults()
		r.resendAbandoned(2 * time.Minute)
		if all := s.list(ledger.Filter{}); len(all) != 1 || all[0].Problem != "" {
			s.Errorf("after the order was placed the ledger has %+v", all)
		}
	})
}

// A rejection that may come from a proxy, or that mentions the idempotency key, does not prove that the order was not
// placed.
func TestPossibleProxyRejectionLeavesOutcomeUnknown(t *testing.T) {
	for name, fault := range map[string]sandbox.Fault{
		"HTML page":              {Status: http.StatusBadRequest, Body: "<html><h1>400 Bad Request</h1></html>", Header: map[string]string{"Content-Type": "text/html"}},
		"request too large":      {Status: http.StatusRequestEntityTooLarge, Body: `{"code":"TOO_LARGE","message":"too large"}`},
		"empty body":             {Status: http.StatusUnprocessableEntity},
		"idempotency key reused": {Status: http.StatusUnprocessableEntity, Body: `{"error":"Idempotency-Key has already been used with a different request body"}`},
	} {
		t.Run(name, func(t *testing.T) {
			inStack(t, 1000, func(s *stack) {
				r, first := s.replicaWith(orders.Config{KeyFirst: true}), true
				r.setAnswer(func(_ *http.Request, answer *http.Response) (*http.Response, error) {
					if first {
						first = false
						fault.Route = "POST /generations"
						s.box.Inject(fault)
						return nil, errors.New("the connection is gone")
					}
					return answer, nil
				})
				if _, err := r.place("studio", "k", "a harbour"); outcomeOf(err) != orders.Unknown {
					s.Errorf("the caller receives %v", err)
				}
				s.box.ClearFaults()
				r.resendAbandoned(2 * time.Minute)
				if all := s.list(ledger.Filter{}); len(all) != 1 || s.auditAccount() != 1 {
					s.Errorf("the ledger has %+v", all)
				}
			})
		})
	}
}

// An operator can replace an earlier decision about an order. The generation that was first assigned to the order then
// belongs to no owner, so callers can't see it.
func TestOwnerCannotSeeReplacedGeneration(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		r, ctx, owner := s.replica(), s.Context(), "studio"
		r.setBefore(breakOrders("studio"))
		if _, err := r.place(owner, "k", "a harbour"); err == nil {
			s.Fatal("the order was placed")
		}
		time.Sleep(window)
		unknown := s.list(ledger.Filter{Unresolved: true})[0].ID
		for _, id := range []string{"wrong", "right"} {
			if _, possible, err := s.ledger.Resolve(ctx, unknown, "", ledger.Resolution{Generation: id, By: ledger.By{Actor: "ops"}}); err != nil || !possible {
				s.Fatal(possible, err)
			}
			if own, err := r.orders.Owned(ctx, &owner, id); err != nil || len(own) != 1 {
				s.Errorf("%s does not belong to its owner: %v", id, err)
			}
		}
		if own, err := r.orders.Owned(ctx, &owner, "wrong"); err != nil || len(own) != 0 {
			s.Errorf("the owner can see the wrong generation: %v, %v", own, err)
		}
		if err := s.ledger.Close(); err != nil {
			s.Fatal(err)
		}
		if own, err := r.orders.Owned(ctx, &owner, "right"); err == nil {
			s.Errorf("Owned returned %v although the ledger is unavailable", own)
		}
		s.open()
	})
}

// A process leases an order, and is frozen before it sends the POST. If it continues only after the resend window, it
// must not send the order. In the meantime, an operator may have declared that the order was not placed, and a charge
// would contradict this.
func TestFrozenProcessSendsNoOrderAfterResendWindow(t *testing.T) {
	for name, stopped := range map[string]time.Duration{"longer than the lease": ledger.OrderLease + time.Second, "longer than the resend window": window + time.Minute} {
		t.Run(name, func(t *testing.T) {
			inStack(t, 1000, func(s *stack) {
				r, first := s.replica(), true
				r.setBefore(func(req *http.Request) error {
					if isOrder(req) && first {
						first = false
						time.Sleep(stopped)
					}
					return nil
				})
				_, err := r.place("studio", "k", "a harbour")
				if n := s.auditAccount(); err == nil || n != 0 {
					s.Errorf("got %v and %d charges, want an error and no charges", err, n)
				}
				r.close()
				if n := s.auditAccount(); n > 0 && stopped > window {
					s.Errorf("the order was sent after the window: %d charges", n)
				}
			})
		})
	}
}

// With a forwarded API key, the ledger does not contain the request body of an order. A repeat is sent only if its body
// is identical to the body of the first attempt.
func TestRepeatedRequestWithDifferentBodyIsNotSent(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		cred := catalog.Forwarded(catalog.NewSecret(s.key))
		place := func(r *replica, inputs string) error {
			ctx, cancel := context.WithTimeout(s.Context(), time.Second)
			defer cancel()
			_, err := r.orders.Place(ctx, cred, orders.Request{ModelID: "studio/haiku", Inputs: []byte(inputs), IdempotencyKey: "k", UpstreamKey: "k"})
			return err
		}
		r := s.replica()
		posts := 0
		r.setBefore(func(req *http.Request) error {
			if !isOrder(req) {
				return nil
			}
			posts++
			return errors.New("the connection is gone")
		})
		if err := place(r, `{"prompt":"a"}`); outcomeOf(err) != orders.Unknown || posts == 0 {
			s.Fatal(err)
		}
		time.Sleep(2 * ledger.OrderLease)
		again := s.replica()
		if err := place(again, `{"prompt": "a"}`); catalog.KindOf(err) != catalog.KindKeyReused || s.auditAccount() != 0 {
			s.Errorf("a repeat of the same JSON value in different bytes returns %v", err)
		}
		if err := place(again, `{"prompt":"a"}`); err != nil || s.auditAccount() != 1 {
			s.Errorf("a repeat with the same bytes returns %v", err)
		}
		if err := place(again, `{"prompt": "a"}`); err != nil || s.auditAccount() != 1 {
			s.Errorf("after the order was placed, a repeat with different bytes returns %v", err)
		}
	})
}
