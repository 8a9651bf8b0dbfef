package ledger

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
)

// Each statement is prepared only once. An in-memory ledger has only one connection, so it must not prepare a statement
// while a transaction uses this connection.
func TestStatementsOfSQLiteArePreparedOnce(t *testing.T) {
	const change, read = `UPDATE facts SET value = $1 WHERE name = 'unknown'`, `SELECT {now}`
	for name, url := range map[string]string{"in memory": InMemory, "in a file": "sqlite:" + filepath.Join(t.TempDir(), "ledger.db")} {
		t.Run(name, func(t *testing.T) {
			l := openLedger(t, url)
			changes := func(tx *transaction) error {
				_, err := tx.exec(change, "x")
				return err
			}
			reads := func(tx *transaction) error {
				_, err := tx.scanMaybeRow([]any{new(int64)}, read)
				return err
			}
			prepared := map[*sql.Stmt]bool{}
			for n := range 4 {
				if err := l.runTx(t.Context(), changes); err != nil {
					t.Fatal(err)
				}
				if err := l.runRead(t.Context(), reads); err != nil {
					t.Fatal(err)
				}
				if n > 0 { // skips the first transaction, which only records the statements to prepare
					prepared[l.writes.statement(change).prepared] = true
					prepared[l.reads.statement(read).prepared] = true
				}
			}
			if len(prepared) != 2 || prepared[nil] {
				t.Errorf("got the prepared statements %v, want 2", prepared)
			}
		})
	}
}

func TestTheNumberOfPreparedStatementsIsBounded(t *testing.T) {
	l := openLedger(t, InMemory)
	for n := range 2 * maxKept {
		got := 0
		if err := l.askOne(t.Context(), []any{&got}, fmt.Sprintf(`SELECT %d`, n)); err != nil || got != n {
			t.Fatalf("SELECT %d returns %d, %v", n, got, err)
		}
	}
	if kept := len(l.reads.kept); kept != maxKept {
		t.Errorf("%d prepared statements are kept", kept)
	}
}
