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

// store is a database with a single connection. For a database in memory, a second connection would open a different database.
type store struct {
	link
	db *sql.DB
}

// link runs statements on a database or in a transaction. A statement never uses the context of a request, because canceling
// the context could close the only connection and so delete a database in memory. Therefore, the methods below disable the
// linter contextcheck. Statements need no cancellation, because each takes less than a millisecond.
type link struct{ on runner }

// runner contains the methods that databases and transactions have in common.
type runner interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

//nolint:contextcheck // see link
func (s link) exec(query string, args ...any) (sql.Result, error) {
	return s.on.ExecContext(context.Background(), query, args...)
}

// update runs a statement and reports whether it changed a row.
func (s link) update(query string, args ...any) (changed bool, err error) {
	res, err := s.exec(query, args...)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// forEachRow runs a query and calls fn for each row. fn must not use the database.
//
//nolint:contextcheck // see link
func (s link) forEachRow(fn func(*sql.Rows) error, query string, args ...any) (err error) {
	rows, err := s.on.QueryContext(context.Background(), query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

//nolint:contextcheck // see link
func (s link) queryRow(query string, args ...any) *sql.Row {
	return s.on.QueryRowContext(context.Background(), query, args...)
}

// openStore opens the database file at path, or a database in memory if path is empty.
func openStore(path string) (*store, error) {
	file, pragmas := ":memory:", []string{"foreign_keys(1)"}
	if path != "" {
		// The exclusive lock prevents other processes from opening the file. Otherwise, two processes could create the same
		// IDs.
		file, pragmas = (&url.URL{Path: path}).EscapedPath(), append(pragmas, "locking_mode(EXCLUSIVE)", "journal_mode(WAL)", "synchronous(NORMAL)")
	}
	db, err := sql.Open("sqlite", "file:"+file+"?"+url.Values{"_pragma": pragmas, "_txlock": {"immediate"}}.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	st := &store{link{db}, db}
	if err := st.createTables(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return st, nil
}

const (
	// schemaVersion is the version of schema.sql. Increase it for every change that is incompatible with older files.
	schemaVersion = 2
	// busy is SQLite's error code for a file that another process has locked.
	busy = 5
)

// createTables creates the missing tables. If the file has another schema version, it returns an error and changes nothing.
func (st *store) createTables() error {
	version := 0
	err := st.queryRow(`PRAGMA user_version`).Scan(&version)
	var locked *sqlite.Error
	switch {
	case errors.As(err, &locked) && locked.Code()&0xff == busy:
		return errors.New("another sandbox uses the file")
	case err != nil:
		return err
	case version != 0 && version != schemaVersion: // a new file has version 0
		return fmt.Errorf("file has schema version %d, but this build requires version %d; use a new file", version, schemaVersion)
	}
	_, err = st.exec(schema + fmt.Sprintf(`;PRAGMA user_version = %d`, schemaVersion))
	return err
}

// tx runs fn in a transaction. It commits if fn returns nil, and rolls back otherwise. fn must use only the link that it
// receives, because the database has only one connection.
//
//nolint:contextcheck // see link
func (st *store) tx(fn func(link) error) error {
	tx, err := st.db.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // no effect after Commit; releases the connection after a panic
	if err := fn(link{tx}); err != nil {
		return err
	}
	return tx.Commit()
}
