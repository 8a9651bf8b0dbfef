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

// expiringRequest returns a copy of a request that expires after the given duration, measured by the ledger's clock.
func expiringRequest(t *testing.T, l *ledger.Ledger, r ledger.Request, left time.Duration) ledger.Request {
	t.Helper()
	now, err := l.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.ExpireTime = now.Add(left)
	return r
}

// passExpireTimes moves the expire times of all orders into the past.
func passExpireTimes(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	l.Exec(t, "UPDATE orders SET expire_time = order_time WHERE expire_time <> 0")
}

func TestExpiredOrderIsNotResent(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		r := expiringRequest(t, l, request("k"), time.Hour)
		o := write(t, l, r)
		conclude(t, l, o, lifecycle.Uncertain, "")
		unlimited := request("unlimited")
		conclude(t, l, write(t, l, unlimited), lifecycle.Uncertain, "")
		read, _, err := l.Get(t.Context(), o.ID)
		if until, again := l.ResendUntil(read, theAPIKey); err != nil || !again || !until.Equal(r.ExpireTime) {
			t.Errorf("before the expire time, the order may be resent until %v: %v, %v", until, again, err)
		}
		passExpireTimes(t, l)
		l.Exec(t, "UPDATE orders SET retry_time = 0")
		if resumed, found, err := l.Resume(t.Context(), theAPIKey, ""); !found || err != nil || resumed.IdempotencyKey != unlimited.IdempotencyKey {
			t.Errorf("the resumed order is %+v, %v, %v", resumed, found, err)
		}
		wantNoResume(t, l, "the expired order is resumed")
		r.ExpireTime = time.Time{} // a repeat without an expire time does not remove the expire time of the first request
		if again, step := call(t, l, r); step.Answer != lifecycle.Unresolved || !again.IsPastExpireTime() {
			t.Errorf("the step for a repeat is %+v", step)
		}
		if moved, err := l.Expire(t.Context(), 10); moved != 1 || err != nil {
			t.Errorf("the reservations of %d orders expire, want 1: %v", moved, err)
		}
		if read, _, err = l.Get(t.Context(), o.ID); err != nil || read.ReservedCents != 0 || read.UnconfirmedCents != r.PriceCents || read.Inputs != "" {
			t.Errorf("the expired order is %+v, %v", read, err)
		}
		resolve(t, l, o, theAPIKey, ledger.Resolution{Generation: "g1", By: ada})
	})
}

func TestLeaseEndsAtExpireTimeOfOrder(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		const rest = 5 * time.Second
		r := expiringRequest(t, l, request("k"), rest)
		o := write(t, l, r)
		if left := l.Sendable(o); left <= 0 || left > rest {
			t.Errorf("the first attempt may be sent within %v", left)
		}
		if may, left, err := l.Renew(t.Context(), o.ID, 1, theAPIKey); !may || left <= 0 || left > rest || err != nil {
			t.Errorf("the next attempt may be sent within %v: %v, %v", left, may, err)
		}
		passExpireTimes(t, l)
		if may, _, err := l.Renew(t.Context(), o.ID, 1, theAPIKey); may || !errors.Is(err, ledger.ErrOrderExpired) {
			t.Errorf("after the expire time, Renew returns %v, %v", may, err)
		}
		if may, _, err := l.Renew(t.Context(), o.ID, 2, theAPIKey); may || err != nil {
			t.Errorf("under another lease, Renew returns %v, %v", may, err)
		}
	})
}

func TestRejectionOfExpiredOrderReleasesAllBudgets(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		limited := func(key string) ledger.Request {
			r := labeledRequest(key, "apollo", 11)
			r.Limits.DailyCents, r.Total.DailyCents = cents(11), cents(11)
			return r
		}
		o := write(t, l, expiringRequest(t, l, limited("k"), time.Hour))
		passExpireTimes(t, l)
		if got := conclude(t, l, o, lifecycle.TurnedAway, ""); got != lifecycle.NotPlaced {
			t.Errorf("a rejection after the expire time returns %v", got)
		}
		write(t, l, limited("next"))
		wantNoDifference(t, url)
	})
}

func TestNewOrderWithPastExpireTimeIsRejected(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		past := expiringRequest(t, l, request("k"), -time.Minute)
		for name, test := range map[string]struct {
			request ledger.Request
			from    time.Duration
			want    error
		}{
			"without an expire time":       {request("k"), 0, nil},
			"expire time in the future":    {expiringRequest(t, l, request("k"), time.Minute), 50 * time.Second, nil},
			"expire time in the year 9999": {ledger.Request{ExpireTime: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)}, 200 * 365 * 24 * time.Hour, nil},
			"expire time in the past":      {past, -time.Hour, ledger.ErrOrderExpired},
		} {
			if left, _, err := l.TimeToExpire(t.Context(), test.request); left < test.from || !errors.Is(err, test.want) {
				t.Errorf("%s: %v, %v", name, left, err)
			}
		}
		if _, free, err := l.Write(t.Context(), past); free || !errors.Is(err, ledger.ErrOrderExpired) {
			t.Errorf("writing an expired order returns %v, %v", free, err)
		}
		if all, err := l.List(t.Context(), ledger.Filter{AnyState: true}, ledger.Position{}, 10); len(all) != 0 || err != nil {
			t.Errorf("the ledger contains %+v, want no orders, %v", all, err)
		}
	})
}

// The second replica opens the ledger in simulated time, so its own clock is years behind the database's
// clock. The order must expire by the database's clock.
func TestTheDatabasesClockDecidesWhenAnOrderExpires(t *testing.T) {
	url := proctest.Database(t)
	right := open(t, url)
	o := write(t, right, expiringRequest(t, right, request("k"), time.Hour))
	conclude(t, right, o, lifecycle.Uncertain, "")
	synctest.Test(t, func(t *testing.T) {
		wrong := open(t, url)
		wantAction(t, wrong, request("k"), lifecycle.Submit, "before the expire time its caller is told")
		change(t, url, "UPDATE orders SET leased_until = 0, retry_time = 0, expire_time = order_time")
		wantNoResume(t, wrong, "after the expire time it is sent again")
		wantAnswer(t, wrong, request("k"), lifecycle.Unresolved, "after the expire time its caller is told")
	})
}
