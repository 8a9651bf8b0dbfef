package ledger_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// times contains the columns with the times at which background work is due, keyed by table name.
var times = map[string][]string{
	"orders":   {"leased_until", "retry_time", "placed_time", "observed_time", "ended_time"},
	"events":   {"event_time"},
	"replicas": {"seen_time"},
}

// turnClockBack adds a duration to all times in a ledger, as if the database's clock had been turned back.
func turnClockBack(t *testing.T, l *ledger.Ledger, by time.Duration) {
	t.Helper()
	for table, columns := range times {
		for _, column := range columns {
			l.Exec(t, fmt.Sprintf("UPDATE %[1]s SET %[2]s = %[2]s + %[3]d WHERE %[2]s > 0", table, column, by.Microseconds()))
		}
	}
}

// takeWork tries to lease work of each kind, as another process would. The returned map contains true for each kind
// of work that it could lease.
func takeWork(t *testing.T, l *ledger.Ledger) map[string]bool {
	t.Helper()
	ctx, all := t.Context(), map[string]bool{}
	note := func(kind string, found bool, err error) {
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		all[kind] = all[kind] || found
	}
	_, step, err := l.Call(ctx, request("called"))
	note("an order of a caller", step.Action == lifecycle.Submit, err)
	for range 2 {
		o, found, err := l.Resume(ctx, theAPIKey, "")
		note("an order to resend", found && o.IdempotencyKey == "resumed", err)
	}
	due, err := l.Due(ctx, time.Minute, 10)
	note("an order to settle", slices.ContainsFunc(due, func(d ledger.Due) bool { return d.Generation == "settled" }), err)
	return all
}

func TestLeaseExpiresAfterClockIsSetBack(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		write(t, l, request("called"))
		resumed, settled := request("resumed"), request("settled")
		resumed.Namespace, resumed.Owner, resumed.Caller = "print", "print", "printer"
		conclude(t, l, write(t, l, resumed), lifecycle.Uncertain, "")
		settled.Namespace, settled.Owner, settled.Caller = "settled", "settled", "settled"
		conclude(t, l, write(t, l, settled), lifecycle.Named, "settled")
		observe(t, l, "settled", lifecycle.Observation{Status: lifecycle.Failed})
		takeWork(t, l)
		for kind, free := range takeWork(t, l) {
			if free {
				t.Errorf("%s is leased although its lease has not expired", kind)
			}
		}
		turnClockBack(t, l, 24*time.Hour)
		for kind, free := range takeWork(t, l) {
			if !free {
				t.Errorf("%s is not leased although its lease is from before the clock correction", kind)
			}
		}
	})
}

func TestReservationExpiresDespiteClockCorrection(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		write(t, l, request("k"))
		turnClockBack(t, l, 24*time.Hour)
		l.Exec(t, fmt.Sprintf("UPDATE orders SET order_time = order_time - %d", (2*window).Microseconds()))
		if moved, err := l.Expire(t.Context(), 10); moved != 1 || err != nil {
			t.Errorf("the reservations of %d orders expire, want 1, %v", moved, err)
		}
	})
}
