package orders_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/orders"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// expireIn returns a function that sets the expire time of an order to the given duration from now.
func expireIn(left time.Duration) func(*orders.Request) {
	at := time.Now().Add(left)
	return func(r *orders.Request) { r.ExpireTime = at }
}

// wantExpired checks that an error reports an expired order with the given outcome.
func wantExpired(t *testing.T, err error, want orders.Outcome) {
	t.Helper()
	failed, ok := errors.AsType[*orders.Error](err)
	if !ok || failed.Outcome != want || catalog.KindOf(err) != catalog.KindOrderExpired {
		t.Errorf("the caller receives %v, %+v; want an expired order with the outcome %s", err, failed, want)
	}
}

// Every attempt fails, and the order expires long before the caller's deadline. No attempt may be sent after the
// order has expired.
func TestAttemptsStopAtExpireTimeOfOrder(t *testing.T) {
	const left = 3 * time.Second
	for name, test := range map[string]struct {
		answer step
		want   orders.Outcome
		rows   ledger.Filter
	}{
		"nothing reached the catalog":       {noDial, orders.NotPlacedByThisCall, ledger.Filter{Refused: true}},
		"an attempt may have been accepted": {away, orders.Unknown, ledger.Filter{Unresolved: true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, last := time.Now(), time.Time{}
				c := newTestClient(t, roundTrip(func(r *http.Request) (*http.Response, error) {
					last = time.Now()
					return (&script{steps: []step{test.answer}}).RoundTrip(r)
				}))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err := c.Place(ctx, testCredential, orders.Request{ModelID: "a/b", Inputs: []byte(`{}`), IdempotencyKey: "k", UpstreamKey: "k", ExpireTime: began.Add(left)})
				if wantExpired(t, err, test.want); time.Since(began) != left {
					t.Errorf("the caller waited for %v", time.Since(began))
				}
				if closed := c.Close(t.Context()); closed != nil {
					t.Error(closed)
				}
				if sent := last.Sub(began); last.IsZero() || sent >= left {
					t.Errorf("the last attempt was sent after %v", sent)
				}
				if all, err := c.ledger.List(t.Context(), test.rows, ledger.Position{}, 10); len(all) != 1 || err != nil {
					t.Errorf("the ledger has %+v, %v", all, err)
				}
			})
		})
	}
}

// After a pause that the catalog has requested, the client's first request gets no response. While that request is in
// flight, the limiter grants no permit to the order, so the order expires.
func TestAnOrderExpiresWhileItWaitsForAPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, q, resume := openQueue(t)
		const left = 5 * time.Second
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		request := orders.Request{ModelID: "a/b", Inputs: []byte(`{}`), IdempotencyKey: "k", UpstreamKey: "k", ExpireTime: began.Add(left)}
		_, err := c.Place(ctx, testCredential, request)
		wantExpired(t, err, orders.NotPlacedByThisCall)
		if took := time.Since(began); took != left || q.posts.Load() != 0 {
			t.Errorf("after %v, %d orders were sent", took, q.posts.Load())
		}
		_, err = c.Place(ctx, testCredential, request) // a repeat of the order returns the same error
		wantExpired(t, err, orders.NotPlacedByThisCall)
		resume()
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestExpiredOrderOutcomeStaysUnknownAfterRestart(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		r := s.replica()
		r.setAnswer(lost)
		budget := 2*s.price() - 1
		limited, expiring := withBudget(&budget), expireIn(time.Minute)
		if _, err := r.place("studio", "k", "a harbour", limited, expiring); catalog.KindOf(err) != catalog.KindOutcomeUnknown {
			s.Fatal(err)
		}
		r.close()
		s.reopen(nil) // simulates a restart of the process
		other := s.replica()
		other.setBefore(breakOrders("studio"))
		other.resendAbandoned(time.Minute)
		posts := s.posts()
		other.setBefore(nil)
		other.resendAbandoned(10 * time.Minute)
		for _, change := range []func(*orders.Request){expiring, expireIn(time.Hour), func(*orders.Request) {}} { // only the expire time in the first request counts, not the expire time of a repeat
			_, err := other.place("studio", "k", "a harbour", limited, change)
			wantExpired(s.T, err, orders.Unknown)
		}
		if n := s.posts(); n != posts {
			s.Errorf("%d attempts were sent after the expire time", n-posts)
		}
		if moved, err := s.ledger.Expire(s.Context(), 10); moved != 1 || err != nil {
			s.Errorf("the reservations of %d orders expired, want 1: %v", moved, err)
		}
		if all := s.list(ledger.Filter{Unresolved: true}); len(all) != 1 || all[0].ReservedCents != 0 || all[0].UnconfirmedCents == 0 || all[0].Problem == "" {
			s.Errorf("the ledger has %+v", all)
		}
		if _, err := other.place("studio", "next", "a harbour", limited); err == nil {
			s.Error("the budget does not count an order that may exist")
		}
	})
}

func TestAnOrderIsNotPlacedAfterItsExpireTime(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		r := s.replica()
		_, err := r.place("studio", "past", "a harbour", expireIn(-time.Second))
		wantExpired(s.T, err, orders.NotPlaced)
		r.delayQuotes() // delays the quote, so that the order expires before the quote arrives
		began := time.Now()
		budget := int64(1000)
		_, err = r.place("studio", "quoted", "a harbour", withBudget(&budget), expireIn(time.Second))
		wantExpired(s.T, err, orders.NotPlaced)
		if waited := time.Since(began); waited >= 2*time.Second {
			s.Errorf("the call waited for %v", waited)
		}
		r.setBefore(nil)
		if n := s.posts(); n != 0 {
			s.Errorf("%d orders were sent", n)
		}
		expiring := expireIn(time.Minute)
		first, err := r.place("studio", "k", "a harbour", expiring)
		if err != nil {
			s.Fatal(err)
		}
		time.Sleep(time.Hour)
		again, err := r.place("studio", "k", "a harbour", expiring)
		if err != nil || !again.Replayed || again.Generation.ID != first.Generation.ID {
			s.Errorf("after the expire time, the placed order is %+v, %v", again, err)
		}
	})
}

// A proxy resends the request. Although the catalog has accepted the order, the proxy returns an error of its own.
func TestOutcomeStaysUnknownAfterAmbiguousRejection(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		r := s.replica()
		s.box.Inject(sandbox.Fault{Route: "POST /generations", Status: http.StatusNotFound, Body: "<html>", AfterCommit: true, Count: 1})
		expiring := expireIn(time.Minute)
		if _, err := r.place("studio", "k", "a harbour", expiring); outcomeOf(err) != orders.Unknown {
			s.Errorf("the caller receives %v", err)
		}
		s.box.Inject(sandbox.Fault{Route: "POST /generations", Status: http.StatusPaymentRequired, Body: `{"code":"INSUFFICIENT_BALANCE"}`, Count: 1})
		if _, err := r.place("studio", "k", "a harbour", expiring); outcomeOf(err) != orders.Unknown {
			s.Errorf("after a definite rejection the caller receives %v", err)
		}
		time.Sleep(time.Minute)
		_, err := r.place("studio", "k", "a harbour", expiring)
		wantExpired(s.T, err, orders.Unknown)
	})
}
