package ledger_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/proctest"
)

// The second replica runs in simulated time, so its own clock is years behind the database's clock. It must still use
// the same budget period, leases and resend window as the first replica.
func TestReplicasUseDatabaseClock(t *testing.T) {
	url := proctest.Database(t)
	right, limit := open(t, url), int64(20)
	r := request("k")
	r.Limits.MonthlyCents = &limit
	o := write(t, right, r)
	synctest.Test(t, func(t *testing.T) {
		wrong := open(t, url)
		if behind := time.Until(o.Time); behind < 24*time.Hour {
			t.Fatalf("the clock of the second replica is only %v behind", behind)
		}
		next := request("next")
		next.Limits = r.Limits
		_, _, err := wrong.Write(t.Context(), next)
		if full, ok := errors.AsType[*ledger.BudgetError](err); !ok || full.RemainingCents != 9 || full.Reset.Before(o.Time) {
			t.Errorf("the second replica does not use the budget of the same month: %v", err)
		}
		wantAction(t, wrong, r, lifecycle.Wait, "the second replica does not see the first replica's lease")
		for _, edge := range []struct {
			later  string
			resent bool
		}{{"11 hours", true}, {"2 hours", false}} {
			change(t, url, "UPDATE orders SET leased_until = 0, retry_time = 0, order_time = order_time - EXTRACT(EPOCH FROM interval '"+edge.later+"')::BIGINT * 1000000")
			if _, found, err := wrong.Resume(t.Context(), theAPIKey, ""); err != nil || found != edge.resent {
				t.Errorf("%s later, Resume finds an order: %v, %v", edge.later, found, err)
			}
		}
		wantAnswer(t, wrong, r, lifecycle.Unresolved, "after the window the step for the caller")
	})
	wantAnswer(t, right, r, lifecycle.Unresolved, "after the window the step at the first replica")
}
