package orders

import (
	"context"
	"errors"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

// ledgerTimeout bounds each question to the ledger.
const ledgerTimeout = 5 * time.Second

// ask bounds a question to the ledger. One that takes too long has no answer.
func ask(ctx context.Context, question func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	err := question(bounded)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		var doubt *ledger.Doubt
		if !errors.As(err, &doubt) {
			return &ledger.Unavailable{Err: err}
		}
	}
	return err
}

// sleep waits, and reports whether ctx goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
