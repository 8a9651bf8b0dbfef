package orders_test

import (
	"os"
	"path/filepath"
	"testing"
)

// restoreLedger replaces the ledger's file with copied, a copy that backUpLedger returned earlier.
func (s *stack) restoreLedger(copied []byte) {
	s.Helper()
	if err := s.ledger.Close(); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(s.path, copied, 0o600); err != nil {
		s.Fatal(err)
	}
	s.open()
}

// backUpLedger closes the ledger, copies its file, and opens the ledger again. It returns the copy. No other
// process may have the ledger open while backUpLedger runs.
func (s *stack) backUpLedger() []byte {
	s.Helper()
	if err := s.ledger.Close(); err != nil {
		s.Fatal(err)
	}
	copied, err := os.ReadFile(s.path)
	if left, _ := filepath.Glob(s.path + "-*"); err != nil || len(left) > 0 {
		s.Fatal(left, err)
	}
	s.open()
	return copied
}

func TestRepeatedRequestRestoresOrderMissingFromBackup(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		mustPlace(s, s.replica(), "known", "a harbour")
		older := s.backUpLedger()
		first, err := s.replica().place("studio", "forgotten", "a harbour")
		if err != nil {
			s.Fatal(err)
		}
		s.restoreLedger(older)
		r, owner := s.replica(), "studio"
		if own, err := r.orders.Owned(s.Context(), &owner, first.Generation.ID); err != nil || len(own) != 0 {
			s.Errorf("the forgotten generation belongs to %v, %v", own, err)
		}
		again, err := r.place("studio", "forgotten", "a harbour")
		if err != nil || again.Generation.ID != first.Generation.ID || again.Replayed {
			s.Errorf("the repeat returned %+v, %v", again, err)
		}
		if own, err := r.orders.Owned(s.Context(), &owner, first.Generation.ID); err != nil || len(own) != 1 {
			s.Errorf("after the repeat the generation belongs to %v, %v", own, err)
		}
		if known, err := r.place("studio", "known", "a harbour"); err != nil || !known.Replayed || s.auditAccount() != 2 {
			s.Errorf("the repeat of the order before the backup returned %+v, %v, with %d charges", known, err, s.auditAccount())
		}
	})
}
