package ledger_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// movedRequest returns a request with the given idempotency key from the same caller, but in another team.
func movedRequest(key string) ledger.Request {
	r := request(key)
	r.Namespace, r.Owner, r.UpstreamKey = "print", "print", "up-print-"+key
	return r
}

func TestCallerCannotReuseIdempotencyKeyInNewTeam(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		for _, r := range []ledger.Request{request("k"), movedRequest("k")} { // both calls look up the key before either order is written
			if _, step := call(t, l, r); step.Action != lifecycle.Write {
				t.Fatalf("the idempotency key is already in use: %+v", step)
			}
		}
		first, free, err := l.Write(t.Context(), request("k"))
		if !free || err != nil {
			t.Fatalf("the first order is not written: %v", err)
		}
		if _, free, err := l.Write(t.Context(), movedRequest("k")); free || err != nil {
			t.Errorf("a second order is written with the same key: %v", err)
		}
		if free, err := l.IsFree(t.Context(), movedRequest("k")); free || err != nil {
			t.Errorf("after the caller changed teams, the idempotency key is no longer in use: %v", err)
		}
		wantAnswer(t, l, movedRequest("k"), lifecycle.Reused, "the step for the key in the new team")
		other := movedRequest("k")
		other.Caller = "somebody-else"
		if free, err := l.IsFree(t.Context(), other); !free || err != nil {
			t.Errorf("the idempotency key is also in use for another caller: %v", err)
		}
		conclude(t, l, first, lifecycle.TurnedAway, "")
		if free, err := l.IsFree(t.Context(), movedRequest("k")); !free || err != nil {
			t.Errorf("after a rejection, the idempotency key is still in use: %v", err)
		}
		write(t, l, movedRequest("k"))
	})
}

func TestConcurrentRequestsInTwoTeamsWriteOneOrder(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		var all sync.WaitGroup
		written := make(chan string, 16)
		for n := range cap(written) {
			all.Go(func() {
				r := []func(string) ledger.Request{request, movedRequest}[n%2]("k")
				_, free, err := l.Write(t.Context(), r)
				if err != nil {
					t.Error(err)
				}
				if free {
					written <- r.Owner
				}
			})
		}
		all.Wait()
		if len(written) != 1 {
			t.Errorf("%d orders are written, want 1", len(written))
		}
	})
}

func TestOrderOfRemovedCallerIsNotWritten(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		removed := errors.New("the caller was removed")
		r := request("k")
		r.Limits = ledger.Limits{DailyCents: cents(100)}
		r.Agreed = func() error { return removed }
		_, free, err := l.Write(t.Context(), r)
		if disagreed, ok := errors.AsType[*ledger.Disagreed](err); free || !ok || !errors.Is(disagreed.Err, removed) {
			t.Errorf("writing the order of a removed caller returns %v, %v", free, err)
		}
		if free, err := l.IsFree(t.Context(), r); !free || err != nil {
			t.Errorf("after the failed write, the idempotency key is in use: %v", err)
		}
		if budgets, err := l.Budgets(t.Context(), r.Owner, r.Limits); err != nil || budgets[0].ReservedCents != 0 {
			t.Errorf("the budgets are %+v, want no reserved amount, %v", budgets, err)
		}
		r.Agreed = func() error { return nil }
		write(t, l, r)
	})
}

// All API keys of an account can access the same generations. If a caller repeats an order with a new forwarded API
// key, the ledger therefore has two orders for one generation.
func TestForwardedAPIKeysOfOneAccountMayShareGeneration(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		for _, apiKey := range []string{"sum-of-the-old-one", "sum-of-the-new-one"} {
			r := request("k")
			r.Caller, r.Namespace, r.Owner, r.APIKey = "", apiKey, apiKey, apiKey
			if answer := conclude(t, l, write(t, l, r), lifecycle.Named, "g1"); answer != lifecycle.Replay {
				t.Errorf("under the API key %s, recording the generation returns %v", apiKey, answer)
			}
		}
		held := write(t, l, request("k"))
		if _, err := l.Conclude(t.Context(), held.ID, held.Leases, ledger.Conclusion{Outcome: lifecycle.Named, Generation: "g1"}); !errors.Is(err, ledger.ErrGenerationTaken) {
			t.Errorf("under a shared API key, recording the same generation for another order returns %v", err)
		}
	})
}

func TestALedgerBelongsToOneAccount(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		for _, step := range []struct {
			account string
			own     bool
		}{{"acc_1", true}, {"acc_2", false}, {"acc_1", true}} {
			if own, err := l.BelongsTo(t.Context(), step.account); own != step.own || err != nil {
				t.Errorf("the ledger belongs to %s: %v, %v", step.account, own, err)
			}
		}
	})
}

// When the resend window of an order ends, its reserved amount is counted as spent, but its outcome remains unknown.
func TestReservationCountsAsSpentAfterResendWindow(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := openWith(t, ledger.Config{URL: url, ResendWindow: time.Minute}) // with a longer window, an order that has passed it can belong to the previous month
		limits := ledger.Limits{DailyCents: cents(100), MonthlyCents: cents(100)}
		late, early := write(t, l, request("late")), write(t, l, request("early"))
		wantMoved := func(when string, want int, spent, reserved int64) {
			t.Helper()
			if moved, err := l.Expire(t.Context(), 10); moved != want || err != nil {
				t.Errorf("%s: the reservations of %d orders expire, %v", when, moved, err)
			}
			all, err := l.Budgets(t.Context(), "studio", limits)
			if err != nil || all[1].SpentCents != spent || all[1].ReservedCents != reserved {
				t.Errorf("%s: %+v, %v", when, all, err)
			}
		}
		wantMoved("at once", 0, 0, 22)
		l.Exec(t, "UPDATE orders SET order_time = order_time - 60000000 WHERE idempotency_key = 'late'")
		wantMoved("under a lease", 0, 0, 22)
		l.Exec(t, "UPDATE orders SET leased_until = 0")
		wantMoved("after the window", 1, 11, 11)
		wantMoved("again", 0, 11, 11)
		if o, _, err := l.Get(t.Context(), late.ID); err != nil || o.UnconfirmedCents != 11 || o.ReservedCents != 0 || o.State != lifecycle.Open {
			t.Errorf("the order is %+v, %v", o, err)
		}
		resolve(t, l, late, theAPIKey, ledger.Resolution{Generation: "g1", By: ledger.By{Actor: "ops"}})
		wantMoved("after its resolution as placed", 0, 0, 22)
		resolve(t, l, late, theAPIKey, ledger.Resolution{By: ledger.By{Actor: "ops"}})
		wantMoved("after its resolution as not placed", 0, 0, 11)
		conclude(t, l, early, lifecycle.Named, "g2")
		wantMoved("after the other order is placed", 0, 9, 2)
	})
}

func TestUnconfirmedChargeIsCheckedDailyForAMonth(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		for key, seen := range map[string][]lifecycle.Observation{
			"proven": {{Status: lifecycle.Succeeded, CostCents: cents(9)}}, "silent": {{Status: lifecycle.Succeeded, Whole: true}}, "deleted": {{Deleted: true}},
		} {
			conclude(t, l, write(t, l, request(key)), lifecycle.Named, key)
			observe(t, l, key, seen...)
		}
		wantDue := func(when string, want ...string) {
			t.Helper()
			due, err := l.Due(t.Context(), time.Minute, 10)
			if err != nil || len(due) != len(want) {
				t.Fatalf("%s: the due generations are %v, %v", when, due, err)
			}
			for n, one := range due {
				if one.Generation != want[n] {
					t.Errorf("%s: the due generations are %v", when, due)
				}
			}
		}
		age := func(hours string) {
			l.Exec(t, "UPDATE orders SET order_time = order_time - 3600000000 * "+hours+", placed_time = placed_time - 3600000000 * "+hours+", observed_time = observed_time - 3600000000 * "+hours)
		}
		wantDue("at once")
		age("23")
		wantDue("within a day")
		l.Exec(t, "UPDATE orders SET observed_time = observed_time - 60000000 WHERE generation_id = 'silent'")
		age("1")
		wantDue("after a day", "silent", "deleted")
		observe(t, l, "silent", lifecycle.Observation{Status: lifecycle.Refunded, CostCents: cents(9)})
		wantDue("after the refund", "deleted")
		age("720")
		wantDue("after a month")
	})
}
