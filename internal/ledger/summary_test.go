package ledger_test

import (
	"slices"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

func TestTheSummaryIsThatOfTheOrders(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		for key, seen := range map[string]ledger.Observation{"g1": {Status: ledger.Succeeded}, "g2": {Status: ledger.Refunded}, "g3": {Deleted: true}} {
			conclude(t, l, write(t, l, request(key)), lifecycle.Named, key)
			if _, err := l.Observe(t.Context(), key, seen); err != nil {
				t.Fatal(err)
			}
		}
		write(t, l, request("open"))
		l.Exec(t, "UPDATE orders SET order_time = order_time - 60000000")
		got, err := l.Summary(t.Context())
		if err != nil || len(got.Owners) != 1 || got.Owners[0].OldestUnknown < time.Minute {
			t.Fatalf("it is %+v, %v", got, err)
		}
		want := []ledger.OwnerSummary{{Owner: "studio", Orders: 3, Unknown: 1, OldestUnknown: got.Owners[0].OldestUnknown, SpentCents: 27, RefundedCents: 9, ReservedCents: 11, UnconfirmedCents: 9, DayCents: 29, MonthCents: 29}}
		if !slices.Equal(got.Owners, want) || got.Unknown != 1 || got.OldestUnknown < time.Minute {
			t.Errorf("it is %+v, %v", got, err)
		}
	})
}
