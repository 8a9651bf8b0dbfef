package ledger_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/proctest"
)

func TestTheFirstOrderOfAWindowIsToldWhatTheBudgetHasLeft(t *testing.T) {
	for name, url := range map[string]string{"SQLite": "sqlite:" + filepath.Join(t.TempDir(), "book.db"), "PostgreSQL": proctest.Database(t)} {
		l, limit := open(t, url), int64(10)
		for _, limits := range []ledger.Limits{{DailyCents: &limit}, {MonthlyCents: &limit}} {
			r := request("k") // of 11 cents
			r.Limits = limits
			_, _, err := l.Write(t.Context(), r)
			if full, ok := errors.AsType[*ledger.BudgetError](err); !ok || full.RemainingCents != limit || full.PriceCents != 11 {
				t.Errorf("%s: it is told %v", name, err)
			}
		}
	}
}
