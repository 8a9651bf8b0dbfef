package sandbox

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"sync"

	"modernc.org/sqlite"
)

//go:embed schema.sql
var schema string

// store is the database: one connection that writes, and a few that read. In memory both are the same
// single connection, because a second one would be a second database.
type store struct {
	write, read link
	pools       []*sql.DB
	cache       *cache  // nil for a file
	mine        *sql.Tx // keeps other processes out of the file
}

// link runs statements on a database or in a transaction. They never carry the context of a request:
// each takes well under a millisecond, and one that a leaving client could interrupt would cost an in-memory
// database its only connection. That is what the nolint marks say.
type link struct {
	kept  *statements
	tx    *sql.Tx  // nil outside of transactions
	fresh *[]*kept // the generations that the transaction wrote, as they are now
}

// put inserts or updates one generation in a transaction, and returns the row; [sql.ErrNoRows] says that
// there was none to update. No other statement writes one: the cache lives of that.
func (s link) put(query string, args ...any) (generation, error) {
	g, err := scanGeneration(s.queryRow(query+` RETURNING `+generationColumns, args...))
	if err == nil {
		*s.fresh = append(*s.fresh, &kept{generation: g})
	}
	return g, err
}

// change is put for an update that may find nothing to do.
func (s link) change(query string, args ...any) (bool, error) {
	_, err := s.put(query, args...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// runner is what a prepared statement, a transaction and a database have in common.
type runner interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// on finds what runs a query: its prepared statement where there is one.
func (s link) on(query string) runner {
	stmt := s.kept.find(query, s.tx == nil)
	switch {
	case stmt != nil && s.tx != nil:
		return prepared{s.tx.StmtContext(context.Background(), stmt)} //nolint:sqlclosecheck,contextcheck // see link; it ends with the transaction
	case stmt != nil:
		return prepared{stmt}
	case s.tx != nil:
		return s.tx
	}
	return s.kept.db
}

//nolint:contextcheck // see link
func (s link) exec(query string, args ...any) (sql.Result, error) {
	return s.on(query).ExecContext(context.Background(), query, args...)
}

// each reads rows one by one.
//
//nolint:contextcheck // see link
func (s link) each(read func(*sql.Rows) error, query string, args ...any) (err error) {
	rows, err := s.on(query).QueryContext(context.Background(), query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := read(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

//nolint:contextcheck // see link
func (s link) queryRow(query string, args ...any) *sql.Row {
	return s.on(query).QueryRowContext(context.Background(), query, args...)
}

// prepared runs a statement by the text that it was made from.
type prepared struct{ *sql.Stmt }

func (p prepared) ExecContext(ctx context.Context, _ string, args ...any) (sql.Result, error) {
	return p.Stmt.ExecContext(ctx, args...)
}

func (p prepared) QueryContext(ctx context.Context, _ string, args ...any) (*sql.Rows, error) {
	return p.Stmt.QueryContext(ctx, args...)
}

func (p prepared) QueryRowContext(ctx context.Context, _ string, args ...any) *sql.Row {
	return p.Stmt.QueryRowContext(ctx, args...)
}

// statements keeps the prepared statements of a pool. To parse one costs more than to run it: with them
// a read takes about half the time (BenchmarkRequests). The package has a few dozen, all of them constant.
type statements struct {
	db *sql.DB

	mu     sync.Mutex
	byText map[string]*sql.Stmt
	wanted []string // met first in a transaction, which may hold the only connection
}

// find gives the statement of a query. Where there is none, it is made, if now is the time for that.
func (k *statements) find(query string, idle bool) *sql.Stmt {
	k.mu.Lock()
	stmt, known := k.byText[query]
	if !known {
		k.byText[query] = nil
		k.wanted = append(k.wanted, query)
	}
	k.mu.Unlock()
	if known || !idle {
		return stmt
	}
	k.prepare()
	return k.find(query, false)
}

// prepare makes the statements that are wanted. One that can't be made stays a plain query, which says why.
//
//nolint:contextcheck // see link
func (k *statements) prepare() {
	k.mu.Lock()
	wanted := k.wanted
	k.wanted = nil
	k.mu.Unlock()
	for _, query := range wanted {
		if stmt, err := k.db.PrepareContext(context.Background(), query); err == nil { //nolint:sqlclosecheck // it ends with the database
			k.mu.Lock()
			k.byText[query] = stmt
			k.mu.Unlock()
		}
	}
}

// openStore opens a file, or a database in memory if there is none. listLimit is the longest list of generations.
func openStore(path string, listLimit int) (*store, error) {
	st := &store{}
	if err := st.open(path, listLimit); err != nil {
		return nil, errors.Join(err, st.close())
	}
	return st, nil
}

func (st *store) open(path string, listLimit int) (err error) {
	if path == "" {
		if st.write, err = st.connect(":memory:", "immediate", 1, "foreign_keys(1)"); err != nil {
			return err
		}
		st.read = st.write
		st.cache = newCache(listLimit)
		return st.create()
	}
	file := (&url.URL{Path: path}).EscapedPath()
	if err = st.lock(file); err != nil {
		return err
	}
	const waits, links = "busy_timeout(10000)", "foreign_keys(1)"
	if st.write, err = st.connect(file, "immediate", 1, waits, "journal_mode(WAL)", "synchronous(NORMAL)", links); err != nil {
		return err
	}
	if err = st.create(); err != nil {
		return err
	}
	st.read, err = st.connect(file, "deferred", 4, waits, "query_only(1)")
	return err
}

// busy is SQLite's code for what somebody else has locked.
const busy = 5

// lock keeps every other process, and every other sandbox of this one, out of a file. Two would each run
// its renders and draw the same ids. The lock is on a file beside it, because each connection of a pool
// must reach the file itself; the system frees it however the process ends.
//
//nolint:contextcheck // see link
func (st *store) lock(file string) error {
	beside, err := st.connect(file+"-lock", "exclusive", 1, "journal_mode(OFF)") // nothing is ever written
	if err != nil {
		return err
	}
	st.mine, err = beside.kept.db.BeginTx(context.Background(), nil)
	var refused *sqlite.Error
	if errors.As(err, &refused) && refused.Code() == busy {
		return errors.New("another sandbox has it open")
	}
	return err
}

// schemaVersion is that of schema.sql. A change of it that an older file does not fit needs the next number.
const schemaVersion = 2

// create makes the tables that are not there yet. A file of another schema is left as it is.
//
//nolint:contextcheck // see link
func (st *store) create() error {
	db, version := st.write.kept.db, 0
	if err := db.QueryRowContext(context.Background(), `PRAGMA user_version`).Scan(&version); err != nil {
		return err
	}
	if version != 0 && version != schemaVersion { // 0 is a new file
		return fmt.Errorf("it has version %d of the tables, this build reads version %d: begin a new file", version, schemaVersion)
	}
	_, err := db.ExecContext(context.Background(), schema+fmt.Sprintf(`;PRAGMA user_version = %d`, schemaVersion))
	return err
}

// connect opens a pool. begin is the kind of its transactions: one that writes must be immediate, because a
// deferred one that turns to writing late can be refused without waiting.
func (st *store) connect(file, begin string, connections int, pragmas ...string) (link, error) {
	query := url.Values{"_pragma": pragmas, "_txlock": {begin}}
	db, err := sql.Open("sqlite", "file:"+file+"?"+query.Encode())
	if err != nil {
		return link{}, err
	}
	st.pools = append(st.pools, db)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return link{kept: &statements{db: db, byText: map[string]*sql.Stmt{}}}, nil
}

// tx runs do in one writing transaction. An error rolls it back. The cache learns of the commit before
// anybody else gets the connection.
//
//nolint:contextcheck // see link
func (st *store) tx(do func(link) error) error {
	st.write.kept.prepare()
	conn, err := st.write.kept.db.Conn(context.Background())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // gives it back to the pool
	var fresh []*kept
	err = st.write.kept.begin(conn, func(tx link) error {
		tx.fresh = &fresh
		return do(tx)
	})
	if err == nil {
		st.cache.put(fresh...)
	}
	return err
}

// snapshot runs do in one reading transaction: it sees a single moment.
func (st *store) snapshot(do func(link) error) error {
	st.read.kept.prepare()
	return st.read.kept.begin(st.read.kept.db, do)
}

// fill runs a read that fills the cache, which nobody may write to meanwhile.
func (st *store) fill(do func(link) error) error {
	if st.cache == nil {
		return do(st.read)
	}
	return st.snapshot(do)
}

//nolint:contextcheck // see link
func (k *statements) begin(on interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}, do func(link) error,
) error {
	tx, err := on.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing; after a panic it frees the connection
	if err := do(link{kept: k, tx: tx}); err != nil {
		return err
	}
	return tx.Commit()
}

func (st *store) close() error {
	var faults []error
	if st.mine != nil {
		faults = append(faults, st.mine.Rollback())
	}
	for _, db := range st.pools {
		faults = append(faults, db.Close())
	}
	return errors.Join(faults...)
}
