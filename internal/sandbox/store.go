package sandbox

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"net/url"

	_ "modernc.org/sqlite" // registers the driver "sqlite"
)

//go:embed schema.sql
var schema string

// store is the database: one connection that writes, and a few that read. In memory both are the same
// single connection, because a second one would be a second database.
//
// No call carries the context of a request. Statements take well under a millisecond, and a transaction
// that a leaving client could interrupt would cost an in-memory database its only connection.
type store struct {
	write, read *sql.DB
}

func openStore(path string) (*store, error) {
	if path == "" {
		db, err := connect(":memory:", "immediate", 1, "foreign_keys(1)")
		if err != nil {
			return nil, err
		}
		st := &store{write: db, read: db}
		return st, st.migrate()
	}
	file := (&url.URL{Path: path}).EscapedPath()
	const waits, links = "busy_timeout(10000)", "foreign_keys(1)"
	write, err := connect(file, "immediate", 1, waits, "journal_mode(WAL)", "synchronous(NORMAL)", links)
	if err != nil {
		return nil, err
	}
	st := &store{write: write, read: write}
	if err := st.migrate(); err != nil {
		return nil, err
	}
	if st.read, err = connect(file, "deferred", 4, waits, "query_only(1)"); err != nil {
		return nil, errors.Join(err, write.Close())
	}
	return st, nil
}

// connect opens a pool. begin is the kind of its transactions: one that writes must be immediate, because a
// deferred one that turns to writing late can be refused without waiting.
func connect(file, begin string, connections int, pragmas ...string) (*sql.DB, error) {
	query := url.Values{"_pragma": pragmas, "_txlock": {begin}}
	db, err := sql.Open("sqlite", "file:"+file+"?"+query.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	if err := db.Ping(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func (st *store) migrate() error {
	if _, err := st.write.Exec(schema); err != nil {
		return errors.Join(fmt.Errorf("create tables: %w", err), st.write.Close())
	}
	return nil
}

// tx runs do in one writing transaction. An error rolls it back.
func (st *store) tx(do func(*sql.Tx) error) error {
	tx, err := st.write.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after Commit it does nothing
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func (st *store) close() error {
	if st.read == st.write {
		return st.write.Close()
	}
	return errors.Join(st.read.Close(), st.write.Close())
}
