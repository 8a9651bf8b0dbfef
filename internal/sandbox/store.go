package sandbox

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"net/url"

	"modernc.org/sqlite"
)

//go:embed schema.sql
var schema string

// store is the database: one connection that writes, and a few that read. In memory both are the same
// single connection, because a second one would be a second database.
type store struct {
	write, read pool
	pools       []*sql.DB
	mine        *sql.Tx // keeps other processes out of the file
}

// pool is some connections to one database.
type pool struct {
	link
	db *sql.DB
}

// link runs statements on a database or in a transaction. They never carry the context of a request:
// each takes well under a millisecond, and one that a leaving client could interrupt would cost an in-memory
// database its only connection. That is what the nolint marks say.
type link struct{ on runner }

// runner is what a transaction and a database have in common.
type runner interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

//nolint:contextcheck // see link
func (s link) exec(query string, args ...any) (sql.Result, error) {
	return s.on.ExecContext(context.Background(), query, args...)
}

// update is exec for an update that may find nothing to do.
func (s link) update(query string, args ...any) (changed bool, err error) {
	res, err := s.exec(query, args...)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// each reads rows one by one.
//
//nolint:contextcheck // see link
func (s link) each(read func(*sql.Rows) error, query string, args ...any) (err error) {
	rows, err := s.on.QueryContext(context.Background(), query, args...)
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
	return s.on.QueryRowContext(context.Background(), query, args...)
}

// openStore opens a file, or a database in memory if there is none.
func openStore(path string) (*store, error) {
	st := &store{}
	if err := st.open(path); err != nil {
		return nil, errors.Join(err, st.close())
	}
	return st, nil
}

func (st *store) open(path string) (err error) {
	if path == "" {
		if st.write, err = st.connect(":memory:", "immediate", 1, "foreign_keys(1)"); err != nil {
			return err
		}
		st.read = st.write
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
	st.mine, err = beside.db.BeginTx(context.Background(), nil)
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
	db, version := st.write.db, 0
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
func (st *store) connect(file, begin string, connections int, pragmas ...string) (pool, error) {
	query := url.Values{"_pragma": pragmas, "_txlock": {begin}}
	db, err := sql.Open("sqlite", "file:"+file+"?"+query.Encode())
	if err != nil {
		return pool{}, err
	}
	st.pools = append(st.pools, db)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return pool{link: link{db}, db: db}, nil
}

// tx runs do in one writing transaction. An error rolls it back.
func (st *store) tx(do func(link) error) error { return st.write.begin(do) }

// snapshot runs do in one reading transaction: it sees a single moment.
func (st *store) snapshot(do func(link) error) error { return st.read.begin(do) }

//nolint:contextcheck // see link
func (p pool) begin(do func(link) error) error {
	tx, err := p.db.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing; after a panic it frees the connection
	if err := do(link{tx}); err != nil {
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
