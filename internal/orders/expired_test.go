package orders_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/orders"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// expireIn returns a function that sets an order's expire time.
func expireIn(left time.Duration) func(*orders.Request) {
	at := time.Now().Add(left)
	return func(r *orders.Request) { r.ExpireTime = at }
}

// wantExpired checks that an error reports an expired order with the given outcome.
func wantExpired(t *testing.T, err error, want orders.Outcome) {
	t.Helper()
	failed, ok := errors.AsType[*orders.Error](err)
	if !ok || failed.Outcome != want || catalog.KindOf(err) != catalog.KindOrderExpired {
		t.Errorf("the caller receives %v, %+v; want an expired order that is %s", err, failed, want)
	}
}

// Every attempt fails. The order expires long before the caller's deadline.
func TestAttemptsEndWithTheExpireTime(t *testing.T) { // fault M16
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
					t.Errorf("the caller waits for %v", time.Since(began))
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

// The catalog has requested a pause. The first request after the pause gets no response, and all orders wait for it.
func TestAnOrderExpiresWhileItWaitsForAPermit(t *testing.T) { // fault M16
	synctest.Test(t, func(t *testing.T) {
		var requests, posts atomic.Int64
		c := newTestClient(t, roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Header.Get("Idempotency-Key") != "" {
				posts.Add(1)
			}
			if requests.Add(1) == 1 {
				return reply(r, http.StatusTooManyRequests, nil, ""), nil
			}
			<-r.Context().Done()
			return nil, r.Context().Err()
		}))
		quoting, stop := context.WithCancel(t.Context())
		var quotes sync.WaitGroup
		quotes.Go(func() {
			for quoting.Err() == nil {
				_, _ = c.Catalog.Quote(quoting, testCredential, "a/b", []byte(`{}`))
			}
		})
		time.Sleep(5 * time.Second) // after this, the second quote still waits ten seconds for its response
		const left = 5 * time.Second
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		request := orders.Request{ModelID: "a/b", Inputs: []byte(`{}`), IdempotencyKey: "k", UpstreamKey: "k", ExpireTime: began.Add(left)}
		_, err := c.Place(ctx, testCredential, request)
		wantExpired(t, err, orders.NotPlacedByThisCall)
		if took := time.Since(began); took != left || posts.Load() != 0 {
			t.Errorf("after %v, %d orders were sent", took, posts.Load())
		}
		_, err = c.Place(ctx, testCredential, request) // a repeated order returns the same error
		wantExpired(t, err, orders.NotPlacedByThisCall)
		stop()
		quotes.Wait()
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAnExpiredOrderStaysUnknownOnEveryReplica(t *testing.T) { // fault M16
	inStack(t, 1000, func(s *stack) {
		r := s.replica()
		r.answers(lost)
		budget := 2*s.price() - 1
		limited, expiring := within(&budget), expireIn(time.Minute)
		if _, err := r.place("studio", "k", "a harbour", limited, expiring); catalog.KindOf(err) != catalog.KindOutcomeUnknown {
			s.Fatal(err)
		}
		if err := r.orders.Close(s.Context()); err != nil {
			s.Error(err)
		}
		s.reopen(nil) // simulates a restart of the process
		other := s.replica()
		other.befores(func(req *http.Request) error {
			if isOrder(req) {
				return errors.New("the connection is gone")
			}
			return nil
		})
		other.recover(time.Minute)
		posts := 0
		other.befores(func(req *http.Request) error {
			if isOrder(req) {
				posts++
			}
			return nil
		})
		other.recover(10 * time.Minute)
		for _, change := range []func(*orders.Request){expiring, expireIn(time.Hour), func(*orders.Request) {}} { // only the first request's expire time counts
			_, err := other.place("studio", "k", "a harbour", limited, change)
			wantExpired(s.T, err, orders.Unknown)
		}
		if posts != 0 {
			s.Errorf("%d attempts were sent after the expire time", posts)
		}
		if moved, err := s.ledger.Expire(s.Context(), 10); moved != 1 || err != nil {
			s.Errorf("the reservations of %d orders expire: %v", moved, err)
		}
		if all := s.list(ledger.Filter{Unresolved: true}); len(all) != 1 || all[0].ReservedCents != 0 || all[0].UnconfirmedCents == 0 || all[0].Problem == "" {
			s.Errorf("the ledger has %+v", all)
		}
		if _, err := other.place("studio", "next", "a harbour", limited); err == nil {
			s.Error("the budget does not count an order that may exist")
		}
	})
}

func TestAnOrderIsNotPlacedAfterItsExpireTime(t *testing.T) { // fault M16
	inStack(t, 1000, func(s *stack) {
		r := s.replica()
		_, err := r.place("studio", "past", "a harbour", expireIn(-time.Second))
		wantExpired(s.T, err, orders.NotPlaced)
		r.befores(func(req *http.Request) error {
			if !isOrder(req) {
				select { // the expire time passes during the quote
				case <-time.After(10 * time.Second):
				case <-req.Context().Done():
				}
			}
			return nil
		})
		began := time.Now()
		budget := int64(1000)
		_, err = r.place("studio", "quoted", "a harbour", within(&budget), expireIn(time.Second))
		wantExpired(s.T, err, orders.NotPlaced)
		if waited := time.Since(began); waited > 2*time.Second {
			s.Errorf("the call waited for %v", waited)
		}
		r.befores(nil)
		if n := s.box.Requests()["POST /generations"]; n != 0 {
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

// A proxy repeats the request, and returns its own error although the catalog has accepted the order.
func TestAnOrderStaysOpenAfterADoubtfulRejection(t *testing.T) { // fault A10
	inStack(t, 1000, func(s *stack) {
		r := s.replica()
		s.box.Inject(sandbox.Fault{Route: "POST /generations", Status: http.StatusNotFound, Body: "<html>", AfterCommit: true, Count: 1})
		expiring := expireIn(time.Minute)
		_, err := r.place("studio", "k", "a harbour", expiring)
		wantOutcome(s.T, err, orders.Unknown)
		s.box.Inject(sandbox.Fault{Route: "POST /generations", Status: http.StatusPaymentRequired, Body: `{"code":"INSUFFICIENT_BALANCE"}`, Count: 1})
		_, err = r.place("studio", "k", "a harbour", expiring)
		wantOutcome(s.T, err, orders.Unknown)
		time.Sleep(time.Minute)
		_, err = r.place("studio", "k", "a harbour", expiring)
		wantExpired(s.T, err, orders.Unknown)
	})
}

func wantOutcome(t *testing.T, err error, want orders.Outcome) {
	t.Helper()
	if failed, ok := errors.AsType[*orders.Error](err); !ok || failed.Outcome != want {
		t.Errorf("got %v, want the outcome %s", err, want)
	}
}
