package ledger_test

import (
	"errors"
	"testing"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// An operator declares an order rejected while its POST is still in flight. This frees the idempotency key, and
// the caller uses the key for a second order. Then the catalog returns a generation for the first order. The
// ledger must record it as the generation of the first order.
func TestLateGenerationIsAssignedToItsOriginalOrder(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		first := write(t, l, request("monday"))
		l.Exec(t, `UPDATE orders SET leased_until = 0`)
		resolve(t, l, first, "another API key", ledger.Resolution{By: ledger.By{Actor: "ops"}})
		second := write(t, l, request("monday"))
		step, err := l.Conclude(t.Context(), first.ID, 1, ledger.Conclusion{Outcome: lifecycle.Named, Generation: "gen_1", CostCents: cents(11), Written: &first})
		if err != nil || step.Action != lifecycle.Report || step.Answer != lifecycle.Replay {
			t.Errorf("recording the late generation returns %+v, %v", step, err)
		}
		if own, err := l.Own(t.Context(), nil, "gen_1"); err != nil || own["gen_1"].ID != first.ID || *own["gen_1"].CostCents != 11 {
			t.Errorf("the order with the late generation is %+v, %v", own, err)
		}
		if o, step := call(t, l, request("monday")); o.ID != second.ID || step.Action != lifecycle.Wait {
			t.Errorf("a repeat of the key returns %+v, %+v", o, step)
		}
		if answer := conclude(t, l, second, lifecycle.Named, "gen_2"); answer != lifecycle.Replay {
			t.Errorf("recording the generation of the second order returns %v", answer)
		}
		wantNoDifference(t, url)
	})
}

func TestConstraintViolationIsReportedAsFault(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		o := write(t, l, request("k"))
		_, err := l.Conclude(t.Context(), o.ID, o.Leases, ledger.Conclusion{Outcome: lifecycle.Named, Generation: "g1", CostCents: cents(-1)})
		if _, ok := errors.AsType[*ledger.Contradiction](err); !ok || !ledger.IsFault(err) {
			t.Errorf("a charge below zero returns %v", err)
		}
	})
}
