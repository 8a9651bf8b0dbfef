package ledger

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	modernc "modernc.org/sqlite"
)

// Exec executes a statement on the connection that the ledger uses for writes.
func (l *Ledger) Exec(t *testing.T, statement string) {
	t.Helper()
	if _, err := l.writes.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// Refuse executes a statement that the database must reject, and returns the error.
func (l *Ledger) Refuse(t *testing.T, statement string) error {
	t.Helper()
	_, err := l.writes.ExecContext(t.Context(), statement)
	return err
}

// Reconnect closes the idle connections, so that the ledger opens new ones.
func (l *Ledger) Reconnect() {
	for _, db := range []*pool{l.writes, l.reads} {
		db.SetMaxIdleConns(0)
		db.SetMaxIdleConns(l.dialect.conns)
	}
}

// Hang executes a statement in a transaction that never ends, as if the host of the client had vanished.
func (l *Ledger) Hang(t *testing.T, statement string) {
	t.Helper()
	tx, err := l.writes.BeginTx(t.Context(), nil)
	if err == nil {
		_, err = tx.ExecContext(t.Context(), statement)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
}

// Report starts a long query, such as a usage report, that occupies a connection until end is called.
func (l *Ledger) Report(t *testing.T) (end func()) {
	t.Helper()
	rows, err := l.reads.QueryContext( //nolint:rowserrcheck // only the start of the result is read
		context.WithoutCancel(t.Context()), `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000) SELECT i FROM n, (SELECT COUNT(*) FROM orders) AS o`)
	if err != nil || !rows.Next() {
		t.Fatal(err)
	}
	return func() {
		if err := rows.Close(); err != nil && !hasCode(err, queryCanceled) { // the database may have canceled the query, because its timeout is 4.5 seconds
			t.Error(err)
		}
	}
}

// CountChanges starts counting the rows that each transaction updates or deletes in a table. largest returns the
// highest count of a single transaction so far.
func (l *Ledger) CountChanges(t *testing.T, table string) (largest func() int) {
	t.Helper()
	if l.IsShared() {
		l.Exec(t, `CREATE TABLE changes (transaction BIGINT)`)
		l.Exec(t, `CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO changes VALUES (txid_current()); RETURN NULL; END $$`)
		l.Exec(t, `CREATE TRIGGER changes AFTER UPDATE OR DELETE ON `+table+` FOR EACH ROW EXECUTE FUNCTION note_change()`)
		return func() (most int) {
			t.Helper()
			if err := l.reads.QueryRowContext(t.Context(), `SELECT COALESCE(MAX(rows), 0) FROM (SELECT COUNT(*) AS rows FROM changes GROUP BY transaction) AS counts`).Scan(&most); err != nil {
				t.Fatal(err)
			}
			return most
		}
	}
	conn, err := l.writes.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	var rows, most atomic.Int64
	if err := conn.Raw(func(raw any) error {
		hooks := raw.(modernc.HookRegisterer)
		hooks.RegisterPreUpdateHook(func(change modernc.SQLitePreUpdateData) {
			if change.TableName == table {
				rows.Add(1)
			}
		})
		hooks.RegisterCommitHook(func() int32 {
			most.Store(max(most.Load(), rows.Swap(0)))
			return 0
		})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return func() int { return int(most.Load()) }
}

// Repeat runs a transaction whose first attempts fail with err, and whose next attempt succeeds. failures is the number of
// attempts that fail. Repeat returns the number of attempts that the ledger made, and the error that it returned in the end.
func (l *Ledger) Repeat(t *testing.T, failures int, err error) (attempts int, finalErr error) {
	t.Helper()
	finalErr = l.runTx(t.Context(), func(*transaction) error {
		if attempts++; attempts <= failures {
			return err
		}
		return nil
	})
	return attempts, finalErr
}

// Ask returns the only value in the result of a query.
func (l *Ledger) Ask(t *testing.T, query string) (answer string) {
	t.Helper()
	if err := l.writes.QueryRowContext(t.Context(), query).Scan(&answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

// CopiedTables returns the sorted names of the tables that [Copy] copies, together with the names in others.
func CopiedTables(others ...string) []string {
	others = append(others, copiedTables...)
	slices.Sort(others)
	return others
}
