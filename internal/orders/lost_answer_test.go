package orders_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/orders"
	"github.com/easel-grpc/easel/internal/sandbox"
)

func TestRepeatedRequestSucceedsIfStateReadFails(t *testing.T) {
	for name, fault := range map[string]sandbox.Fault{
		"404": {Status: 404, Body: `{}`}, "500": {Status: 500}, "reset": {Reset: true},
	} {
		t.Run(name, func(t *testing.T) {
			inClientStack(t, 1000, func(t *testing.T, s *clientStack) {
				first := s.mustCreate(s.order("k"))
				fault.Route = "GET /generations/{id}"
				fired := s.box.Inject(fault)
				again := s.mustCreate(s.order("k"))
				if again.ID != first.ID || again.State != catalog.StateQueued {
					t.Errorf("the repeat returned %v %v", again.ID, again.State)
				}
				if fired.Fired() == 0 || s.posts() != 1 {
					t.Errorf("the fault fired %d times and %d orders were posted, want at least one fault and 1 order", fired.Fired(), s.posts())
				}
			})
		})
	}
}

// placeBriefly places the order o with a timeout of 300 ms, and checks that the call fails with an error of the
// kind want.
func (s *clientStack) placeBriefly(o order, want catalog.Kind) {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err := s.client.Create(ctx, s.cred, o)
	s.wantKind(err, want)
	s.finish()
}

func TestOrderMayExistDespiteInsufficientFundsError(t *testing.T) {
	inClientStackOf(t, sandbox.Config{Repeats: sandbox.Repeats{MoneyFirst: true}}, 1, func(t *testing.T, s *clientStack) { // the balance of 1 cent is sufficient for one haiku
		s.box.Inject(sandbox.Fault{Route: "POST /generations", Count: 1, AfterCommit: true, Reset: true})
		s.placeBriefly(s.order("k"), catalog.KindOutcomeUnknown)
		s.placeBriefly(s.order("k"), catalog.KindOutcomeUnknown)
		restarted := s.process(s.transport)
		_, err := restarted.Create(t.Context(), s.cred, s.order("k"))
		s.wantKind(err, catalog.KindInsufficientFunds)
		if outcomeOf(err) != orders.NotPlacedByThisCall {
			t.Errorf("a process that does not know the order returns %+v", err) // the restarted process lost the ledger, so it cannot know whether the earlier call placed the order
		}
		if err := s.box.TopUp(t.Context(), s.key, 1, "one more"); err != nil {
			t.Fatal(err)
		}
		s.mustCreate(s.order("k"))
		s.wantCharges("k", 1)
	})
}

func TestOrderIsNotSentIfCallerLeavesBeforeFirstAttempt(t *testing.T) {
	inClientStack(t, 1000, func(t *testing.T, s *clientStack) {
		s.box.Inject(sandbox.Fault{Route: "POST /quote", Delay: sandbox.Delay(300 * time.Millisecond)})
		order := s.order("k")
		order.MaxCostCents = new(int64(1000))
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_, err := s.client.Create(ctx, s.cred, order)
		if outcomeOf(err) != orders.NotPlacedByThisCall || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		s.finish()
		if s.posts() != 0 {
			t.Errorf("%d orders were posted for a caller that had disconnected", s.posts())
		}
		over, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := s.client.Create(over, s.cred, order); err != context.Canceled {
			t.Errorf("a call whose context was done returned %v", err)
		}
		s.finish()
		if s.posts() != 0 || s.auditAccount() != 0 {
			t.Errorf("%d orders were posted, with %d charges, want none", s.posts(), s.auditAccount())
		}
	})
}
