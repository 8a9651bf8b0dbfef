package orders_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/orders"
	"github.com/easel-grpc/easel/internal/sandbox"
)

func TestAPlacedOrderIsNeverAnsweredAsMissing(t *testing.T) {
	for name, fault := range map[string]sandbox.Fault{
		"404": {Status: 404, Body: `{}`}, "500": {Status: 500}, "reset": {Reset: true},
	} {
		t.Run(name, func(t *testing.T) {
			inClientStack(t, 1000, func(t *testing.T, s *clientStack) {
				first := s.mustCreate(s.order("k"))
				fault.Route = "GET /generations/{id}"
				fired := s.sandbox.Inject(fault)
				again := s.mustCreate(s.order("k"))
				if again.ID != first.ID || again.State != catalog.StateQueued {
					t.Errorf("the repeat returned %v %v", again.ID, again.State)
				}
				if fired.Fired() == 0 || s.posts() != 1 {
					t.Errorf("the fault fired %d times, %d orders posted", fired.Fired(), s.posts())
				}
			})
		})
	}
}

func TestA429AfterALostAnswerIsWaitedOutAndTriedAgain(t *testing.T) {
	inClientStack(t, 1000, func(t *testing.T, s *clientStack) {
		s.sandbox.Inject(sandbox.Fault{Route: "POST /generations", Count: 1, AfterCommit: true, Reset: true})
		slow := s.sandbox.Inject(sandbox.Fault{Route: "POST /generations", Count: 1, Status: 429, Body: `{}`})
		s.mustCreate(s.order("k"))
		if slow.Fired() != 1 || s.posts() != 3 {
			t.Errorf("the 429 came %d times, %d orders posted; want 1 and 3", slow.Fired(), s.posts())
		}
		s.wantCharges("k", 1)
	})
}

func TestAnOutcomeThatIsUnknownStaysSoUntilTheCatalogNamesTheOrder(t *testing.T) { // fault A10
	inClientStack(t, 1000, func(t *testing.T, s *clientStack) {
		lost := s.sandbox.Inject(sandbox.Fault{Route: "POST /generations", AfterCommit: true, Reset: true})
		s.briefly(s.order("k"), catalog.KindOutcomeUnknown)
		lost.Remove()
		for _, status := range []int{401, 402, 404, 307, 429} {
			fault := s.sandbox.Inject(sandbox.Fault{Route: "POST /generations", Status: status, Body: `{}`})
			s.briefly(s.order("k"), catalog.KindOutcomeUnknown)
			if fault.Fired() == 0 {
				t.Errorf("%d did not come", status)
			}
			fault.Remove()
		}
		s.mustCreate(s.order("k"))
		s.wantCharges("k", 1)
	})
}

// briefly places an order with a short deadline, and expects an error of the given kind.
func (s *clientStack) briefly(o order, want catalog.Kind) {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err := s.client.Create(ctx, s.cred, o)
	s.wantKind(err, want)
	s.finish()
}

func TestAnOrderThatTookTheLastMoneyIsNotCalledRefused(t *testing.T) { // fault A10
	inClientStackOf(t, sandbox.Config{Repeats: sandbox.Repeats{MoneyFirst: true}}, 1, func(t *testing.T, s *clientStack) { // the balance is the price of one haiku
		s.sandbox.Inject(sandbox.Fault{Route: "POST /generations", Count: 1, AfterCommit: true, Reset: true})
		s.briefly(s.order("k"), catalog.KindOutcomeUnknown)
		s.briefly(s.order("k"), catalog.KindOutcomeUnknown)
		restarted := s.process(s.transport)
		_, err := restarted.Create(t.Context(), s.cred, s.order("k"))
		s.wantKind(err, catalog.KindInsufficientFunds)
		if known, ok := errors.AsType[*orders.Error](err); !ok || known.Outcome != orders.NotPlacedByThisCall {
			t.Errorf("a process that knows nothing of it returns %+v", err) // an earlier call may have placed the order
		}
		if err := s.sandbox.TopUp(t.Context(), s.key, 1, "one more"); err != nil {
			t.Fatal(err)
		}
		s.mustCreate(s.order("k"))
		s.wantCharges("k", 1)
	})
}

func TestARotatedSharedAPIKeyBuysNothingTwice(t *testing.T) { // fault A11
	inClientStackOf(t, sandbox.Config{Repeats: sandbox.Repeats{PerAPIKey: true}}, 1000, func(t *testing.T, s *clientStack) {
		next, err := s.sandbox.AddKey(t.Context(), s.key, "")
		if err != nil {
			t.Fatal(err)
		}
		lost := s.sandbox.Inject(sandbox.Fault{Route: "POST /generations", Count: 1, AfterCommit: true, Reset: true})
		s.cred = catalog.Shared(func() catalog.Secret {
			if lost.Fired() > 0 {
				return catalog.NewSecret(next)
			}
			return catalog.NewSecret(s.key)
		})
		s.mustCreate(s.order("k"))
		s.wantCharges("k", 1)
	})
}

func TestNothingIsPostedForACallerThatHasLeftBefore(t *testing.T) {
	inClientStack(t, 1000, func(t *testing.T, s *clientStack) {
		s.sandbox.Inject(sandbox.Fault{Route: "POST /quote", Delay: sandbox.Delay(300 * time.Millisecond)})
		order := s.order("k")
		order.MaxCostCents = new(int64(1000))
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_, err := s.client.Create(ctx, s.cred, order)
		if known, ok := errors.AsType[*orders.Error](err); !ok || known.Outcome != orders.NotPlacedByThisCall || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		s.finish()
		if s.posts() != 0 {
			t.Errorf("%d orders posted for a caller who had left", s.posts())
		}
		over, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := s.client.Create(over, s.cred, order); err != context.Canceled {
			t.Errorf("a call whose context was done returned %v", err)
		}
		s.finish()
		if s.posts() != 0 || len(s.audit()) != 0 {
			t.Errorf("%d orders posted, charges %v", s.posts(), s.audit())
		}
	})
}

func TestThePauseBetweenAttemptsEndsWithTheTimeOfTheCaller(t *testing.T) {
	inClientStack(t, 1000, func(t *testing.T, s *clientStack) {
		s.sandbox.Inject(sandbox.Fault{Route: "POST /generations", Status: 503, Header: map[string]string{"Retry-After": "60"}})
		begun := time.Now()
		s.briefly(s.order("k"), catalog.KindOutcomeUnknown)
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("the pause of one minute lasted until %v after the deadline of the caller", took)
		}
		if s.posts() != 1 {
			t.Errorf("%d orders posted", s.posts())
		}
	})
}

func TestARefusalAfterAConnectionThatNeverWasIsBelieved(t *testing.T) {
	inClientStack(t, 0, func(t *testing.T, s *clientStack) {
		var attempts atomic.Int32
		client := s.process(transportFunc(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPost && attempts.Add(1) == 1 {
				return nil, &net.OpError{Op: "dial", Err: context.DeadlineExceeded}
			}
			return s.transport.RoundTrip(r)
		}))
		_, err := client.Create(t.Context(), s.cred, s.order("k"))
		s.wantKind(err, catalog.KindInsufficientFunds)
		if attempts.Load() != 2 {
			t.Errorf("%d attempts, want 2", attempts.Load())
		}
	})
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
