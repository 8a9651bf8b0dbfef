package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// copiedTables are the tables of a copy, each table before those that refer to it. Leases and live replicas are
// not copied, and the jobs of the copy follow from its rows.
var copiedTables = []string{"orders", "labels", "movements", "budgets", "rollups", "events", "contents", "audit"}

// insertBatch is the number of rows of a statement.
const insertBatch = 200

// Copied is the result of a copy.
type Copied struct {
	Verified

	Rows int64
}

// Copy copies a ledger into a new one, of another kind or the same. No process may use either of them. It writes the copy in
// one transaction, and verifies it. It calls done repeatedly with the number of copied rows of a table. The audit of the new
// ledger records the user that has copied it.
func Copy(ctx context.Context, from, to string, by By, done func(table string, rows int64), differs func(Difference)) (Copied, error) {
	c := &copier{ctx: ctx, done: done}
	defer c.close()
	if err := c.openSource(from); err != nil {
		return Copied{}, named("FROM", err)
	}
	if err := c.openTarget(to); err != nil {
		return Copied{}, named("TO", err)
	}
	if err := c.to.inTx(ctx, func(tx *sql.Tx) error { return c.copy(tx, by) }); err != nil {
		return Copied{}, named("TO", err)
	}
	looked, err := c.to.Verify(ctx, differs)
	if err == nil && looked.Differences == 0 {
		err = c.seal(by)
	}
	return Copied{looked, c.rows}, err
}

// seal seals the source in the transaction that has kept other processes from writing to it.
func (c *copier) seal(by By) error {
	err := c.from.seal(c.ctx, c.source, by)
	if err == nil {
		err = c.source.Commit()
	}
	if err != nil {
		return fmt.Errorf("the copy is complete, but FROM could not be sealed, so start no server on it: %w", named("FROM", err))
	}
	return nil
}

// named returns an error of a ledger, prefixed with the argument that names the ledger.
func named(argument string, err error) error {
	return fmt.Errorf("%s: %s", argument, strings.TrimPrefix(unusable(err).Error(), "EASEL_LEDGER_URL: "))
}

// copier copies a ledger.
type copier struct {
	ctx      context.Context
	from, to *Ledger
	source   *sql.Tx // one state of from, which no other process can change
	schema   int64   // schema version of from
	rows     int64
	done     func(table string, rows int64)
}

func (c *copier) close() {
	if c.source != nil {
		_ = c.source.Rollback() // after a commit it does nothing
	}
	for _, l := range []*Ledger{c.from, c.to} {
		if l != nil {
			_ = l.Close() // what was written is committed
		}
	}
}

// openSource opens the ledger that is copied, and keeps other processes from writing to it.
func (c *copier) openSource(url string) (err error) {
	if c.from, err = openUnused(c.ctx, url); err != nil {
		return err
	}
	if sealed, err := timeFact(c.ctx, c.from.writes, sealedFact); err != nil || !sealed.IsZero() {
		return cmp.Or(err, errors.New("it was copied before, and is sealed: the copy is the ledger, or run easel ledger unseal if the copy is not used"))
	}
	if c.schema, err = c.from.version(c.ctx); err != nil {
		return err
	}
	if c.source, err = c.from.writes.BeginTx(c.ctx, c.from.dialect.still); err != nil {
		return err
	}
	if c.from.IsShared() { // before the first query
		_, err = c.source.ExecContext(c.ctx, `LOCK TABLE facts, `+strings.Join(copiedTables, ", ")+` IN SHARE MODE NOWAIT`)
	}
	return err
}

// openTarget opens the ledger that the copy is written to.
func (c *copier) openTarget(url string) error {
	at, err := durable(url)
	if err != nil {
		return err
	}
	if c.to, err = openApart(at); err != nil {
		return err
	}
	if err := c.to.idle(c.ctx); err != nil {
		return err
	}
	if _, err := c.to.migrate(c.ctx, at); err != nil {
		return err
	}
	to, err := c.to.version(c.ctx)
	if err == nil && c.schema != to { // a later release may have data that this one would not copy
		err = fmt.Errorf("its schema is %d, and that of FROM is %d: copy it with the Easel that has served FROM last", to, c.schema)
	}
	return err
}

// copy writes the copy.
func (c *copier) copy(tx *sql.Tx, by By) error {
	for _, table := range copiedTables {
		if err := c.table(tx, table); err != nil {
			return err
		}
	}
	for _, jobs := range []string{addDeliveries + `state = {pending}` + inLine, addCopies + `state = {waiting}`, addDeletions + `state = {doomed}`} {
		if _, err := tx.ExecContext(c.ctx, c.to.dialect.words.Replace(jobs)); err != nil {
			return err
		}
	}
	if err := c.to.addLine(c.ctx, tx, Act{By: by, Action: ActCopy, Became: struct {
		Rows int64 `json:"rows"`
	}{c.rows}}); err != nil {
		return err
	}
	return c.facts(tx)
}

// table copies a table. The journal and the sums are copied like all others, so triggers must not write them.
func (c *copier) table(tx *sql.Tx, table string) error {
	if rows, err := c.count(tx, table); err != nil || rows > 0 {
		return cmp.Or(err, fmt.Errorf("it is not a new ledger, because its %s are not empty: name a new file or database", table))
	}
	columns, err := c.columns(tx, table)
	if err != nil {
		return err
	}
	resume, err := c.withoutTriggers(tx, table)
	if err == nil {
		err = c.rowsOf(tx, table, columns)
	}
	for _, statement := range resume {
		if err == nil {
			_, err = tx.ExecContext(c.ctx, statement)
		}
	}
	return err
}

// rowsOf copies the rows of a table, and compares their number.
func (c *copier) rowsOf(tx *sql.Tx, table string, columns []string) error {
	rows, batch := int64(0), [][]any(nil)
	put := func() error {
		err := c.put(tx, table, columns, batch)
		rows, batch = rows+int64(len(batch)), nil
		c.done(table, rows)
		return err
	}
	err := eachRow(c.ctx, c.source, func(row []any) error {
		if batch = append(batch, slices.Clone(row)); len(batch) < insertBatch {
			return nil
		}
		return put()
	}, `SELECT `+strings.Join(columns, ", ")+` FROM `+table)
	if err == nil {
		err = put()
	}
	if err != nil {
		return err
	}
	c.rows += rows
	for _, db := range []querier{c.source, tx} {
		if have, err := c.count(db, table); err != nil || have != rows {
			return cmp.Or(err, fmt.Errorf("%d of %d %s copied", rows, have, table))
		}
	}
	return nil
}

func (c *copier) count(db querier, table string) (rows int64, err error) {
	err = db.QueryRowContext(c.ctx, `SELECT COUNT(*) FROM `+table).Scan(&rows)
	return rows, err
}

// columns returns the columns of a table that are not generated.
func (c *copier) columns(tx *sql.Tx, table string) (names []string, err error) {
	query := `SELECT name FROM pragma_table_xinfo($1) WHERE hidden = 0 ORDER BY cid`
	if c.to.IsShared() {
		query = `SELECT column_name FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = $1 AND is_generated = 'NEVER' ORDER BY ordinal_position`
	}
	err = eachRow(c.ctx, tx, func(row []any) error { names = append(names, fmt.Sprint(row[0])); return nil }, query, table)
	return names, err
}

// numbered returns consecutive argument names of a statement, such as $3, $4.
func numbered(from, many int) string {
	names := make([]string, many)
	for n := range names {
		names[n] = fmt.Sprint("$", from+n)
	}
	return strings.Join(names, ", ")
}

// put writes rows in one statement.
func (c *copier) put(tx *sql.Tx, table string, columns []string, rows [][]any) error {
	if len(rows) == 0 {
		return nil
	}
	var values []string
	for n := range rows {
		values = append(values, `(`+numbered(1+n*len(columns), len(columns))+`)`)
	}
	_, err := tx.ExecContext(c.ctx, `INSERT INTO `+table+` (`+strings.Join(columns, ", ")+`) VALUES `+strings.Join(values, ", "), slices.Concat(rows...)...) //nolint:gosec // names of the schema only
	return err
}

// withoutTriggers disables the triggers of a table, and returns the statements that restore them.
func (c *copier) withoutTriggers(tx *sql.Tx, table string) (resume []string, err error) {
	if c.to.IsShared() {
		_, err := tx.ExecContext(c.ctx, `ALTER TABLE `+table+` DISABLE TRIGGER USER`)
		return []string{`ALTER TABLE ` + table + ` ENABLE TRIGGER USER`}, err
	}
	var names []string
	err = eachRow(c.ctx, tx, func(row []any) error {
		names, resume = append(names, fmt.Sprint(row[0])), append(resume, fmt.Sprint(row[1]))
		return nil
	}, `SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = $1`, table)
	for _, name := range names {
		if err == nil {
			_, err = tx.ExecContext(c.ctx, `DROP TRIGGER `+name)
		}
	}
	return resume, err
}

// facts copies the facts of the source, so that the copy belongs to the same catalog, and marks the copy.
func (c *copier) facts(tx *sql.Tx) error {
	var all [][2]any
	if err := eachRow(c.ctx, c.source, func(row []any) error { all = append(all, [2]any{row[0], row[1]}); return nil }, `SELECT name, value FROM facts WHERE name <> $1`, databaseFact); err != nil {
		return err
	}
	if _, err := tx.ExecContext(c.ctx, `DELETE FROM facts`); err != nil {
		return err
	}
	for _, fact := range all {
		if err := note(c.ctx, tx, fact[0], fact[1]); err != nil {
			return err
		}
	}
	_, err := c.to.mark(c.ctx, tx)
	return err
}

// factOf returns a fact of a ledger, empty if it is missing.
func factOf(ctx context.Context, db querier, name string) (value string, err error) {
	err = db.QueryRowContext(ctx, `SELECT value FROM facts WHERE name = $1`, name).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return value, err
}

func note(ctx context.Context, tx *sql.Tx, name, value any) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, value)
	return err
}

// inTx commits the changes of do, in one transaction without a timeout.
func (l *Ledger) inTx(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := l.writes.BeginTx(ctx, l.dialect.begin)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// eachRow calls each with the rows of a query until it fails. Text is a string in each database.
func eachRow(ctx context.Context, db querier, each func([]any) error, query string, args ...any) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err has the error
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	row, into := make([]any, len(names)), make([]any, len(names))
	for n := range row {
		into[n] = &row[n]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for n, value := range row {
			if text, ok := value.([]byte); ok {
				row[n] = string(text)
			}
		}
		if err := each(row); err != nil {
			return err
		}
	}
	return rows.Err()
}
