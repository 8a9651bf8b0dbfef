package ledger

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// copiedTable is a table of a ledger with the columns of its primary key.
type copiedTable struct {
	name string
	key  []string
}

// copiedTables are the tables of a copy, each table before those that refer to it. Leases and live replicas are
// not copied.
var copiedTables = []copiedTable{
	{"orders", []string{"id"}},
	{"labels", []string{"order_id", "name"}},
	{"movements", []string{"order_id", "number"}},
	{"budgets", []string{"owner", "period", "start_time"}},
	{"rollups", []string{"period", "owner", "start_time", "caller", "model_id", "part"}},
	{"events", []string{"id"}},
	{"contents", []string{"generation_id"}},
	{"audit", []string{"audit_time", "id"}},
}

const (
	copyAtOnce   = 2_000 // rows in a transaction
	insertAtOnce = 200   // rows of a statement

	copying  = "copying"   // the fact of a copy that is not whole: of which ledger
	copiedTo = "copied to" // the facts of a table, and where in it the copy is
)

// Copied is what a copy has come to.
type Copied struct {
	Verified

	Rows int64
}

// Copy copies a ledger into a new one, of another kind or the same, both of which nobody uses. It goes on where one was
// broken off, and compares each row in the end. done is told now and then how many rows of a table there are, of all. The audit
// of the new one has who has copied it.
func Copy(ctx context.Context, from, to string, by By, done func(table string, rows, all int64), differs func(Difference)) (Copied, error) {
	c := &copier{ctx: ctx, done: done}
	defer c.close()
	if err := c.openSource(from); err != nil {
		return Copied{}, named("FROM", err)
	}
	if err := c.openTarget(to); err != nil {
		return Copied{}, named("TO", err)
	}
	for _, table := range copiedTables {
		if err := c.table(table); err != nil {
			return Copied{}, fmt.Errorf("the rows of %s were not all copied, and the same command goes on: %w", table.name, err)
		}
	}
	if err := c.compare(); err != nil {
		return Copied{}, err
	}
	if err := c.finish(Act{By: by, Action: ActCopy, Became: struct {
		Rows int64 `json:"rows"`
	}{c.rows}}); err != nil {
		return Copied{}, named("TO", err)
	}
	looked, err := c.to.Verify(ctx, differs, func(int) {})
	if err == nil && looked.Differences == 0 {
		err = c.seal(by)
	}
	return Copied{looked, c.rows}, err
}

// seal seals the ledger that was copied, in the transaction that has kept others from writing to it.
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

// named is an error of the ledger that an argument names.
func named(argument string, err error) error {
	return fmt.Errorf("%s: %s", argument, strings.TrimPrefix(unusable(err).Error(), "EASEL_LEDGER_URL: "))
}

// copier copies a ledger.
type copier struct {
	ctx      context.Context
	from, to *Ledger
	source   *sql.Tx // one state of from, which no other process can change
	schema   int64   // of from
	facts    [][]any // the same
	rows     int64
	done     func(table string, rows, all int64)
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

// openSource opens the ledger that is copied, and keeps others from writing to it.
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
	if c.from.IsShared() { // before the first look at it
		if _, err := c.source.ExecContext(c.ctx, `LOCK TABLE orders, labels, movements, budgets, rollups, events, contents, audit, facts IN SHARE MODE NOWAIT`); err != nil {
			return err
		}
	}
	c.facts, err = c.read(`SELECT name, value FROM facts ORDER BY name`)
	return err
}

// openTarget opens the ledger that the copy is written to, which is new, or has a part of the same copy.
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
	if err := c.sameSchema(); err != nil {
		return err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", c.facts))
	return c.to.inTx(c.ctx, func(tx *sql.Tx) error { return c.begin(tx, hex.EncodeToString(sum[:])) })
}

// sameSchema refuses what this program would not copy, as a later one has added it.
func (c *copier) sameSchema() error {
	to, err := c.to.version(c.ctx)
	if err == nil && c.schema != to {
		err = fmt.Errorf("its schema is %d, and that of FROM is %d: copy it with the Easel that has served FROM last", to, c.schema)
	}
	return err
}

// begin notes of which ledger the copy is.
func (c *copier) begin(tx *sql.Tx, source string) error {
	begun, err := factOf(c.ctx, tx, copying)
	switch {
	case err != nil:
		return err
	case begun == source:
		return nil
	case begun != "":
		return errors.New("it has a part of a copy of another ledger, or FROM was used since: name a new file or database")
	}
	for _, table := range copiedTables {
		some := 0
		if err := tx.QueryRowContext(c.ctx, `SELECT COUNT(*) FROM (SELECT 1 FROM `+table.name+` LIMIT 1) AS one`).Scan(&some); err != nil {
			return err
		}
		if some > 0 {
			return fmt.Errorf("it is no new ledger, as its %s are not empty: name a new file or database", table.name)
		}
	}
	return note(c.ctx, tx, copying, source)
}

// isWhole refuses a ledger that has a part of a copy.
func (l *Ledger) isWhole(ctx context.Context) error {
	begun, err := factOf(ctx, l.writes.DB, copying)
	if err == nil && begun != "" {
		err = errors.New("EASEL_LEDGER_URL: a copy into this ledger is not whole: easel ledger copy with the same FROM and TO goes on with it")
	}
	return unusable(err)
}

// factOf is a fact of a ledger, "" where there is none.
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

// inTx commits the changes of do, in one transaction without bounds of time and without a turn.
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

// read reads rows of the ledger that is copied.
func (c *copier) read(query string, args ...any) (all [][]any, err error) {
	err = eachRow(c.ctx, c.source, func(row []any) { all = append(all, slices.Clone(row)) }, query, args...)
	return all, err
}

// eachRow reads rows, whose texts are texts in each database.
func eachRow(ctx context.Context, db querier, each func([]any), query string, args ...any) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err tells more
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
		each(row)
	}
	return rows.Err()
}

// table copies what is left of a table.
func (c *copier) table(t copiedTable) error {
	columns, err := c.columns(t.name)
	if err != nil {
		return err
	}
	all, rows := int64(0), int64(0)
	if err := c.source.QueryRowContext(c.ctx, `SELECT COUNT(*) FROM `+t.name).Scan(&all); err != nil {
		return err
	}
	if err := c.to.writes.QueryRowContext(c.ctx, `SELECT COUNT(*) FROM `+t.name).Scan(&rows); err != nil {
		return err
	}
	last, err := c.position(t)
	for err == nil {
		c.done(t.name, rows, all)
		var some [][]any
		if some, err = c.after(t, columns, last); err != nil || len(some) == 0 {
			break
		}
		last = nil
		for _, name := range t.key {
			last = append(last, some[len(some)-1][slices.Index(columns, name)])
		}
		rows += int64(len(some))
		err = c.to.inTx(c.ctx, func(tx *sql.Tx) error { return c.put(tx, t, columns, some, last) })
	}
	c.rows += all
	return err
}

// columns are those of a table that hold what was written.
func (c *copier) columns(table string) (names []string, err error) {
	query := `SELECT name FROM pragma_table_xinfo($1) WHERE hidden = 0 ORDER BY cid`
	if c.to.IsShared() {
		query = `SELECT column_name FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = $1 AND is_generated = 'NEVER' ORDER BY ordinal_position`
	}
	err = eachRow(c.ctx, c.to.writes, func(row []any) { names = append(names, fmt.Sprint(row[0])) }, query, table)
	return names, err
}

// position is the key of the last row of a table that was copied.
func (c *copier) position(t copiedTable) (last []any, err error) {
	text, err := factOf(c.ctx, c.to.writes, copiedTo+" "+t.name)
	if err != nil || text == "" {
		return nil, err
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&last); err != nil {
		return nil, err
	}
	for n, value := range last {
		if number, ok := value.(json.Number); ok {
			if last[n], err = number.Int64(); err != nil {
				return nil, err
			}
		}
	}
	return last, nil
}

// after reads the rows that come next, in the order of the ledger that is copied.
func (c *copier) after(t copiedTable, columns []string, last []any) ([][]any, error) {
	where, key := "", strings.Join(t.key, ", ")
	if last != nil {
		where = ` WHERE (` + key + `) > (` + numbered(1, len(t.key)) + `)`
	}
	return c.read(`SELECT `+strings.Join(columns, ", ")+` FROM `+t.name+where+` ORDER BY `+key+fmt.Sprint(` LIMIT `, copyAtOnce), last...)
}

// numbered are so many arguments of a statement, from a number on.
func numbered(from, many int) string {
	names := make([]string, many)
	for n := range names {
		names[n] = fmt.Sprint("$", from+n)
	}
	return strings.Join(names, ", ")
}

// put writes rows, and how far the copy is. The journal is copied, and nothing else writes it meanwhile.
func (c *copier) put(tx *sql.Tx, t copiedTable, columns []string, rows [][]any, last []any) error {
	resume, err := c.withoutTriggers(tx, t.name)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(rows, insertAtOnce) {
		var values []string
		for n := range some {
			values = append(values, `(`+numbered(1+n*len(columns), len(columns))+`)`)
		}
		if _, err := tx.ExecContext(c.ctx, `INSERT INTO `+t.name+` (`+strings.Join(columns, ", ")+`) VALUES `+strings.Join(values, ", "), slices.Concat(some...)...); err != nil { //nolint:gosec // names of the schema alone
			return err
		}
	}
	for _, statement := range resume {
		if _, err := tx.ExecContext(c.ctx, statement); err != nil {
			return err
		}
	}
	position, err := json.Marshal(last)
	if err != nil {
		return err
	}
	return note(c.ctx, tx, copiedTo+" "+t.name, string(position))
}

// withoutTriggers takes the triggers of a table away for a transaction, and gives the statements that bring them back.
func (c *copier) withoutTriggers(tx *sql.Tx, table string) (resume []string, err error) {
	if c.to.IsShared() {
		_, err := tx.ExecContext(c.ctx, `ALTER TABLE `+table+` DISABLE TRIGGER USER`)
		return []string{`ALTER TABLE ` + table + ` ENABLE TRIGGER USER`}, err
	}
	var names []string
	err = eachRow(c.ctx, tx, func(row []any) {
		names, resume = append(names, fmt.Sprint(row[0])), append(resume, fmt.Sprint(row[1]))
	}, `SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = $1`, table)
	for _, name := range names {
		if err == nil {
			_, err = tx.ExecContext(c.ctx, `DROP TRIGGER `+name)
		}
	}
	return resume, err
}

// compare compares each row of both ledgers, whose orders are not the same.
func (c *copier) compare() error {
	for _, table := range copiedTables {
		columns, err := c.columns(table.name)
		if err != nil {
			return err
		}
		query, sums := `SELECT `+strings.Join(columns, ", ")+` FROM `+table.name, [2]tableSum{}
		for n, db := range []querier{c.source, c.to.writes} {
			if err := eachRow(c.ctx, db, sums[n].add, query); err != nil {
				return err
			}
		}
		if sums[0] != sums[1] {
			return fmt.Errorf("TO: its %s are not those of FROM (%d and %d rows): FROM was used since the copy began, so copy it into a new file or database", table.name, sums[1].rows, sums[0].rows)
		}
		c.done(table.name+" compared", sums[0].rows, sums[0].rows)
	}
	return nil
}

// tableSum is the sum of the digests of rows, in any order.
type tableSum struct {
	rows        int64
	first, last uint64
}

func (s *tableSum) add(row []any) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%#v", row))
	s.rows++
	s.first += binary.LittleEndian.Uint64(sum[:])
	s.last += binary.LittleEndian.Uint64(sum[8:])
}

// finish writes the facts of the ledger that was copied into the copy, which then belongs to the same catalog, and marks it.
func (c *copier) finish(act Act) error {
	return c.to.inTx(c.ctx, func(tx *sql.Tx) error {
		if err := c.to.addLine(c.ctx, tx, act); err != nil {
			return err
		}
		if _, err := tx.ExecContext(c.ctx, `DELETE FROM facts`); err != nil {
			return err
		}
		for _, fact := range c.facts {
			if fact[0] == databaseFact {
				continue
			}
			if err := note(c.ctx, tx, fact[0], fact[1]); err != nil {
				return err
			}
		}
		_, err := c.to.mark(c.ctx, tx)
		return err
	})
}
