package ledger_test

import (
	"errors"
	"testing"

	"github.com/easel-grpc/easel/internal/ledger"
)

func TestBudgetErrorContainsRemainingAmount(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l, limit := open(t, url), int64(10)
		for _, limits := range []ledger.Limits{{DailyCents: &limit}, {MonthlyCents: &limit}} {
			r := request("k") // an order costs 11 cents
			r.Limits = limits
			_, _, err := l.Write(t.Context(), r)
			if full, ok := errors.AsType[*ledger.BudgetError](err); !ok || full.RemainingCents != limit || full.PriceCents != 11 {
				t.Errorf("writing an order above the budget returns %v", err)
			}
		}
	})
}
