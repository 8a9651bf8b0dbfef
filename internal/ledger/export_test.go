package ledger

import "testing"

// Exec sends a statement over the ledger's own connection.
func (l *Ledger) Exec(t *testing.T, statement string) {
	t.Helper()
	if _, err := l.db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// Prepared is how many statements are kept prepared.
func (l *Ledger) Prepared() (count int) {
	l.statements.mu.Lock()
	defer l.statements.mu.Unlock()
	for _, prepared := range l.statements.kept {
		if prepared != nil {
			count++
		}
	}
	return count
}

// Reconnect closes the connections that nobody uses.
func (l *Ledger) Reconnect() {
	l.db.SetMaxIdleConns(0)
	l.db.SetMaxIdleConns(l.dialect.conns)
}
