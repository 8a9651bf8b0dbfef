package ledger_test

import (
	"context"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/proctest"
)

func TestSummaryMatchesOrders(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := openTelling(t, url, eventConfig(ledger.Limits{DailyCents: cents(100), MonthlyCents: cents(30)}))
		for key, seen := range map[string]lifecycle.Observation{"g1": {Status: lifecycle.Succeeded, CostCents: cents(9)}, "g2": {Status: lifecycle.Refunded}, "g3": {Deleted: true}} {
			conclude(t, l, write(t, l, request(key)), lifecycle.Named, key)
			observe(t, l, key, seen)
		}
		write(t, l, request("open"))
		l.Exec(t, "UPDATE orders SET order_time = order_time - 60000000")
		got, err := l.Summary(t.Context(), true)
		if err != nil || len(got.Owners) != 1 || got.Owners[0].OldestUnknown < time.Minute {
			t.Fatalf("the summary is %+v, %v", got, err)
		}
		want := []ledger.OwnerSummary{{Owner: "studio", Orders: 3, Unknown: 1, OldestUnknown: got.Owners[0].OldestUnknown, SpentCents: 29, RefundedCents: 9, ReservedCents: 11, UnconfirmedCents: 11}}
		budgets := got.Owners[0].Budgets
		if len(budgets) != 2 || budgets[0].Period != "day" || budgets[0].LeftCents() != 69 || budgets[1].LeftCents() != 0 {
			t.Errorf("the budgets are %+v", budgets)
		}
		got.Owners[0].Budgets = nil
		if !reflect.DeepEqual(got.Owners, want) || got.Unknown != 1 || got.OldestUnknown < time.Minute {
			t.Errorf("the summary is %+v, %v", got, err)
		}
	})
}

// A summary and the pages of a usage report must contain each owner once, in any locale of the database. The locale
// determines how the database sorts strings. For example, en-US sorts "B" after "a".
func TestSummaryListsEachOwnerOnceUnderICUCollation(t *testing.T) {
	at := proctest.Database(t)
	change(t, at, `CREATE DATABASE american TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US' ENCODING 'UTF8'`)
	l := open(t, changeURL(t, at, func(u *url.URL) { u.Path = "/american" }))
	owners := []string{"B", "a", "b", "b-a", "ba"}
	for _, owner := range owners {
		for _, key := range []string{"placed", "open"} {
			r := request(key)
			r.Namespace, r.Owner, r.Caller = owner, owner, owner
			if o := write(t, l, r); key == "placed" {
				conclude(t, l, o, lifecycle.Named, owner)
			}
		}
	}
	got, err := l.Summary(t.Context(), true)
	if err != nil || len(got.Owners) != len(owners) || got.Unknown != int64(len(owners)) {
		t.Fatalf("the summary is %+v, %v", got, err)
	}
	for n, owner := range got.Owners {
		if owner.Owner != owners[n] || owner.Orders != 1 || owner.Unknown != 1 {
			t.Errorf("owner %d is %+v", n, owner)
		}
	}
	var paged []string
	for after := []string(nil); ; {
		rows, err := l.Usage(t.Context(), ledger.UsageQuery{By: []ledger.Dimension{ledger.ByOwner}, End: time.Now().Add(time.Hour), After: after, Most: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) == 0 {
			break
		}
		after = rows[0].Dimensions
		paged = append(paged, after...)
	}
	if slices.Sort(paged); !slices.Equal(paged, owners) {
		t.Errorf("the pages of the usage contain %q", paged)
	}
}

// At any moment, each order except the first is either open with a reserved price, or rejected without a reservation. In
// each summary, the reserved amount must therefore be the price of an order times the number of open orders.
func TestSummaryIsConsistentDuringConcurrentWrites(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		write(t, l, request("always open"))
		writing, stop := context.WithCancel(t.Context())
		var writers sync.WaitGroup
		for n := range 4 {
			writers.Go(func() {
				for m := 0; writing.Err() == nil; m++ {
					o, _, err := l.Write(t.Context(), request(fmt.Sprint(n, " ", m)))
					if err == nil {
						_, err = l.Conclude(t.Context(), o.ID, 1, ledger.Conclusion{Outcome: lifecycle.TurnedAway})
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for range 100 {
			s, err := l.Summary(t.Context(), true)
			if err != nil || len(s.Owners) != 1 {
				t.Fatalf("the summary is %+v, %v", s, err)
			}
			if s.OldestUnknown <= 0 || s.Owners[0].ReservedCents != 11*s.Unknown || s.Owners[0].Unknown != s.Unknown {
				t.Errorf("%d orders are open, the oldest for %v, and %d cents are reserved", s.Unknown, s.OldestUnknown, s.Owners[0].ReservedCents)
				break
			}
		}
		stop()
		writers.Wait()
	})
}
