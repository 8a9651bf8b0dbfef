package orders_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/orders"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// backupInFlight places an order that the catalog rejects. It returns a backup of the ledger from the time when the
// order was already in the ledger, but not yet sent.
func backupInFlight(s *stack, key string) (copied []byte) {
	s.Helper()
	file, r := filepath.Join(s.TempDir(), "backup.db"), s.replica()
	r.setBefore(func(req *http.Request) error {
		if !isOrder(req) {
			return nil
		}
		_, err := ledger.Backup(s.Context(), "sqlite:"+s.path, file, func(d ledger.Difference) { s.Error(d) })
		return err
	})
	s.box.Inject(sandbox.Fault{Route: "POST /generations", Count: 1, Status: 402, Body: `{"code":"INSUFFICIENT_BALANCE"}`})
	_, err := r.place("studio", key, "a harbour")
	if outcomeOf(err) != orders.NotPlaced {
		s.Fatalf("the first order returns %v", err)
	}
	if copied, err = os.ReadFile(file); err != nil {
		s.Fatal(err)
	}
	return copied
}

func TestRestoredOrderIsNotResentAutomatically(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		backup := backupInFlight(s, "first")
		mustPlace(s, s.replica(), "second", "a harbour")
		s.restoreLedger(backup)
		r := s.replica()
		r.resendAbandoned(time.Minute)
		if charges := s.auditAccount(); charges != 1 {
			s.Fatalf("the rejected order was sent: %d charges", charges)
		}
		if held := s.list(ledger.Filter{Held: true}); len(held) != 1 || held[0].IdempotencyKey != "first" || !held[0].Held {
			s.Errorf("the held orders are %+v", held)
		}
		if _, err := r.place("studio", "first", "a harbour"); err != nil || s.auditAccount() != 2 {
			s.Errorf("the caller's repeat returned %v, with %d charges, want 2", err, s.auditAccount())
		}
	})
}

func TestRejectionIsNotDefiniteAfterRestore(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		s.restoreLedger(backupInFlight(s, "first"))
		r := s.replica()
		_, tooDear := r.place("studio", "new", "a harbour", func(r *orders.Request) { r.MaxCostCents = new(int64(0)) })
		s.box.Inject(sandbox.Fault{Route: "POST /generations", Count: 1, Status: 402, Body: `{"code":"INSUFFICIENT_BALANCE"}`})
		_, rejected := r.place("studio", "other", "a harbour")
		for _, err := range []error{tooDear, rejected} {
			if got := outcomeOf(err); got != orders.NotPlacedByThisCall {
				s.Errorf("the error %v reports the outcome as %s", err, got)
			}
		}
	})
}
