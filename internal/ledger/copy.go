package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// copiedTables are the tables that [Copy] copies. Each table comes after the tables that it refers to. The list omits the
// replicas table. It also omits the jobs table, because Copy writes new jobs for the copied rows.
var copiedTables = []string{"facts", "orders", "labels", "movements", "budgets", "rollups", "events", "contents", "audit"}

// insertBatch is the maximum number of rows in one INSERT.
const insertBatch = 200

// Copied is the result of [Copy]. Rows is the number of copied rows.
type Copied struct {
	Verified

	Rows int64
}

// Copy copies a ledger to a new ledger in the same or another kind of database. No other process may use either ledger while
// Copy runs. Copy writes the new ledger in one transaction and verifies it in another one. If the verification finds no
// difference, Copy seals the old ledger, so that servers no longer open it. Otherwise, it calls handleDifference with each
// difference. While it copies a table, it repeatedly calls reportProgress with the number of rows that were copied so far.
// actor is recorded in the audit logs of both ledgers.
func Copy(ctx context.Context, from, to string, actor By,
	reportProgress func(table string, rows int64), handleDifference func(Difference),
) (copied Copied, err error) {
	source, err := openUnused(ctx, from)
	if err != nil {
		return copied, withPrefix("FROM", err)
	}
	defer func() { _ = source.Close() }() // the error can be ignored: either the seal is already committed, or Copy has failed
	target, err := openTarget(ctx, to)
	if err != nil {
		return copied, withPrefix("TO", err)
	}
	defer func() { _ = target.Close() }() // the error can be ignored: either the copy is already committed, or Copy has failed
	part := "FROM"
	err = source.runOnce(ctx, source.writes, source.dialect.still, func(old *transaction) error {
		if err := old.keepOut(); err != nil {
			return err
		}
		part = "TO"
		if copied.Rows, err = target.copyFrom(old, actor, reportProgress); err != nil {
			return err
		}
		if copied.Verified, err = target.Verify(ctx, handleDifference); err != nil || copied.Differences > 0 {
			return err
		}
		part = "the copy is complete, but FROM could not be sealed, so do not start a server on FROM"
		return old.sealLedger(actor)
	})
	if err != nil {
		return copied, withPrefix(part, err)
	}
	return copied, nil
}

// withPrefix prefixes an error with the given text, such as FROM or TO, instead of the name of the setting.
func withPrefix(part string, err error) error {
	return fmt.Errorf("%s: %s", part, strings.TrimPrefix(addRemedy(err).Error(), "EASEL_LEDGER_URL: "))
}

// openTarget opens the ledger that the rows are copied to.
func openTarget(ctx context.Context, url string) (*Ledger, error) {
	at, err := parseDurable(url)
	if err != nil {
		return nil, err
	}
	l, err := openOffline(at)
	if err != nil {
		return nil, err
	}
	if err = l.checkIdle(ctx); err == nil {
		_, err = l.migrate(ctx)
	}
	if err == nil {
		err = l.checkSchema(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// keepOut prevents other processes from writing to the ledger until the transaction ends. It returns an error if the ledger is
// sealed.
func (t *transaction) keepOut() error {
	if t.l.IsShared() { // must precede the first query, which sets the snapshot of the transaction
		if _, err := t.exec(`LOCK TABLE ` + strings.Join(copiedTables, ", ") + ` IN SHARE MODE NOWAIT`); err != nil {
			return err
		}
	}
	sealed, err := timeFact(t.ctx, t, sealedFact)
	if err == nil && !sealed.IsZero() {
		err = errors.New("ledger is sealed because it was already copied; use the copy, or run easel ledger unseal if the copy is not used")
	}
	return err
}

// copyFrom copies the rows of the old ledger, and returns their number. The journal and the rollups are copied like other
// tables, so the triggers that would write them are disabled during the copy.
func (l *Ledger) copyFrom(old *transaction, actor By, reportProgress func(table string, rows int64)) (rows int64, err error) {
	err = l.runOnce(old.ctx, l.writes, nil, func(tx *transaction) error {
		if err := tx.checkEmpty(); err != nil {
			return err
		}
		resume, err := tx.withoutTriggers()
		if err != nil {
			return err
		}
		for _, table := range copiedTables {
			copied, err := tx.copyTable(old, table, reportProgress)
			if rows += copied; err != nil {
				return err
			}
		}
		jobs := []string{addDeliveries + `state = {pending}` + inLine, addCopies + `state = {waiting}`, addDeletions + `state = {doomed}`}
		if err := tx.execAll(slices.Concat(resume, jobs)...); err != nil {
			return err
		}
		if _, err := tx.markAsCopy(); err != nil {
			return err
		}
		return tx.addAuditLine(Act{By: actor, Action: ActCopy, Became: struct {
			Rows int64 `json:"rows"`
		}{rows}})
	})
	return rows, err
}

// checkEmpty returns an error if the ledger has data. Otherwise it deletes the rows of the facts table, which were written when
// the ledger was opened.
func (t *transaction) checkEmpty() error {
	for _, table := range copiedTables[1:] {
		used := false
		if err := t.scanRow([]any{&used}, `SELECT EXISTS (SELECT 1 FROM `+table+`)`); err != nil {
			return err
		}
		if used {
			return fmt.Errorf("not a new ledger: the table %s already has rows; use a new file or database", table)
		}
	}
	return t.execAll(`DELETE FROM facts`)
}

// copyTable copies the rows of a table and returns their number.
func (t *transaction) copyTable(old *transaction, table string, reportProgress func(table string, rows int64)) (copied int64, err error) {
	columns, err := t.columnNames(table)
	if err != nil {
		return 0, err
	}
	names, batch := strings.Join(columns, ", "), &clauses{}
	flush := func() (err error) {
		if rows := len(batch.all); rows > 0 {
			copied += int64(rows)
			_, err = t.exec(`INSERT INTO `+table+` (`+names+`) VALUES `+batch.takeParts(), batch.args...)
		}
		batch = &clauses{}
		reportProgress(table, copied)
		return err
	}
	err = old.queryRows(func(row scanner) error {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for n := range values {
			into[n] = &values[n]
		}
		if err := row.Scan(into...); err != nil {
			return err
		}
		batch.addCondition("("+strings.TrimPrefix(strings.Repeat(", %s", len(columns)), ", ")+")", values...)
		if len(batch.all) < insertBatch {
			return nil
		}
		return flush()
	}, `SELECT `+names+` FROM `+table)
	if err == nil {
		err = flush()
	}
	return copied, err
}

// columnNames returns the columns of a table, except generated columns.
func (t *transaction) columnNames(table string) ([]string, error) {
	query := `SELECT name FROM pragma_table_info($1)`
	if t.l.IsShared() {
		query = `SELECT column_name::TEXT FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = $1`
	}
	return queryList(t, scanText, query, table)
}

// withoutTriggers disables the triggers on the orders table. It returns the statements that restore them.
func (t *transaction) withoutTriggers() (resume []string, err error) {
	if t.l.IsShared() {
		return []string{`ALTER TABLE orders ENABLE TRIGGER USER`}, t.execAll(`ALTER TABLE orders DISABLE TRIGGER USER`)
	}
	var drop []string
	err = t.queryRows(func(row scanner) error {
		name, text := "", ""
		err := row.Scan(&name, &text)
		drop, resume = append(drop, `DROP TRIGGER `+name), append(resume, text)
		return err
	}, `SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'orders'`)
	if err == nil {
		err = t.execAll(drop...)
	}
	return resume, err
}
