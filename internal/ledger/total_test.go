package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/proctest"
)

func TestTotalBudgetIsNeverExceeded(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		before := request("before there was a limit")
		before.Owner, before.Namespace = "shop", "shop"
		conclude(t, l, write(t, l, before), lifecycle.Named, "g-before") // this order is charged 9 cents, and 2 cents are still reserved
		placed, rejected := writeConcurrently(t, l, url, 60, func(n int) ledger.Request {
			r := request(fmt.Sprint("k", n))
			r.Owner = []string{"studio", "shop", "press", "blog"}[n%4]
			r.Namespace, r.Total = r.Owner, ledger.Limits{DailyCents: cents(100)}
			return r
		})
		if placed != 8 || len(rejected) != 52 {
			t.Errorf("%d orders of 11 cents are placed within a budget of 100 cents, 11 of which were used, and %d are rejected", placed, len(rejected))
		}
		for _, full := range rejected {
			if !full.Total || full.Period != "day" || full.PriceCents != 11 || full.RemainingCents >= 11 {
				t.Errorf("the rejection is %+v", full)
			}
		}
		wantNoDifference(t, url)
	})
}

// requests records the messages that a client sends, in order.
type requests struct {
	mu  sync.Mutex
	all []string
}

func (r *requests) Write(message []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, string(message))
	return len(message), nil
}

// A transaction that updates a total budget locks the budget's row. The orders of all owners wait for
// this lock, so it may be held only for one query and the commit.
func TestTotalBudgetLockIsHeldBriefly(t *testing.T) {
	sent := &requests{}
	relay := newRelay(t, proctest.Database(t), sent)
	l := openTelling(t, relay.url(t, "exec"), eventConfig(ledger.Limits{DailyCents: cents(12)})) // each order reaches a threshold of the budget
	r := request("k")
	r.Limits, r.Total = ledger.Limits{DailyCents: cents(12)}, ledger.Limits{DailyCents: cents(100), MonthlyCents: cents(1000)}
	if _, free, err := l.Write(t.Context(), r); err != nil || !free {
		t.Fatal(free, err)
	}
	sent.mu.Lock()
	defer sent.mu.Unlock()
	locks := slices.IndexFunc(sent.all, func(message string) bool { return strings.Contains(message, "easel total") })
	if locks < 0 || locks+3 != len(sent.all) || !strings.Contains(strings.ToLower(sent.all[locks+2]), "commit") {
		t.Errorf("the messages after the lock are %q", sent.all[max(0, locks):])
	}
}
