package sandbox

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"net/url"

	_ "modernc.org/sqlite" // registers the driver "sqlite"
)

//go:embed schema.sql
var schema string

// store is the database: one connection that writes, and a few that read. In memory both are the same
// single connection, because a second one would be a second database.
type store struct {
	write, read link
	pools       []*sql.DB
}

// link runs statements on a database or in a transaction. They never carry the context of a request:
// each takes well under a millisecond, and one that a leaving client could interrupt would cost an in-memory
// database its only connection. That is what the nolint marks say.
type link struct {
	conn interface {
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
		QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	}
}

//nolint:contextcheck // see link
func (s link) exec(query string, args ...any) (sql.Result, error) {
	return s.conn.ExecContext(context.Background(), query, args...)
}

// each reads rows one by one.
//
//nolint:contextcheck // see link
func (s link) each(read func(*sql.Rows) error, query string, args ...any) (err error) {
	rows, err := s.conn.QueryContext(context.Background(), query, args...)
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
	return s.conn.QueryRowContext(context.Background(), query, args...)
}

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
		_, err = st.write.exec(schema)
		return err
	}
	file := (&url.URL{Path: path}).EscapedPath()
	const waits, links = "busy_timeout(10000)", "foreign_keys(1)"
	if st.write, err = st.connect(file, "immediate", 1, waits, "journal_mode(WAL)", "synchronous(NORMAL)", links); err != nil {
		return err
	}
	if _, err = st.write.exec(schema); err != nil {
		return err
	}
	st.read, err = st.connect(file, "deferred", 4, waits, "query_only(1)")
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
	return link{db}, nil
}

// tx runs do in one writing transaction. An error rolls it back.
func (st *store) tx(do func(link) error) error {
	return begin(st.pools[0], do)
}

// snapshot runs do in one reading transaction: it sees a single moment.
func (st *store) snapshot(do func(link) error) error {
	return begin(st.pools[len(st.pools)-1], do)
}

//nolint:contextcheck // see link
func begin(db *sql.DB, do func(link) error) error {
	tx, err := db.BeginTx(context.Background(), nil)
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
	for _, db := range st.pools {
		faults = append(faults, db.Close())
	}
	return errors.Join(faults...)
}
