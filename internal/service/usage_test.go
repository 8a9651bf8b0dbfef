package service

import (
	"testing"

	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/ledger"
)

// All values differ, so that the test fails if two fields are swapped.
func TestUsageRowContainsAllValues(t *testing.T) {
	by := []ledger.Dimension{ledger.ByLabel, ledger.ByModel, ledger.ByCaller, ledger.ByOwner, ledger.ByDay}
	u := ledger.Usage{
		Dimensions: []string{"apollo", "studio/poster", "poster", "studio", "2026-11-22"},
		Orders:     1, Failed: 2, Unknown: 3, CostCents: 4, RefundedCents: 5, ReservedCents: 6, UnconfirmedCents: 7,
	}
	want := &easelv1.UsageRow{
		Day: "2026-11-22", Owner: "studio", Caller: "poster", ModelId: "studio/poster", LabelValue: "apollo",
		OrderCount: 1, FailedCount: 2, UnknownCount: 3, CostCents: 4, RefundedCents: 5, ReservedCents: 6, UnconfirmedCents: 7,
		CurrencyCode: "EUR",
	}
	if got := usageRow(u, by, true); !proto.Equal(got, want) {
		t.Errorf("the row is %v, want %v", got, want)
	}
	want.Owner = ""
	if got := usageRow(u, by, false); !proto.Equal(got, want) {
		t.Errorf("without owners, the row is %v, want %v", got, want)
	}
}
