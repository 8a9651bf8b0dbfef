package ledger

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A query fails with a *Busy error after AnswerTime. If the caller's deadline is earlier, it fails
// with the error of the caller's context instead. The in-memory database is always available, so
// the test uses a query that never ends.
func TestSlowQueryFailsAtTimeoutOrCallerDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openLedger(t, InMemory)
		waits := func(tx *transaction) error {
			<-tx.ctx.Done()
			return tx.ctx.Err()
		}
		for name, question := range map[string]func(context.Context, func(*transaction) error) error{"a transaction": l.runTx, "a read": l.runRead} {
			began := time.Now()
			err := question(t.Context(), waits)
			if slow, ok := errors.AsType[*Busy](err); !ok || !errors.Is(slow, context.DeadlineExceeded) || time.Since(began) != AnswerTime {
				t.Errorf("%s: %v after %v", name, err, time.Since(began))
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := question(ctx, waits); err != context.DeadlineExceeded { //nolint:errorlint // the error is returned unwrapped
				t.Errorf("%s: got %v at the caller's deadline, want context.DeadlineExceeded", name, err)
			}
			cancel()
		}
	})
}
