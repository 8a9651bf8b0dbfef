package ledger

import "testing"

// Exec sends a statement over the ledger's own connection.
func (l *Ledger) Exec(t *testing.T, statement string) {
	t.Helper()
	if _, err := l.db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}
