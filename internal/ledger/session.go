package ledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// statement is one statement of a session.
type statement struct {
	text    string
	args    []any
	each    func(scanner) error // is called with each row; nil: it gives none
	changed int64               // rows
	last    bool                // it takes rows for which others wait: it goes behind those of others that go together with it
}

// scanner scans a row.
type scanner interface{ Scan(into ...any) error }

// session carries statements out: in one transaction, or each of them alone.
type session interface {
	// send carries some out, one after the other. Where one fails, those behind it are not carried out.
	send(ctx context.Context, statements []*statement) error
	commit(ctx context.Context) error
}

// measured is a session whose operations are measured.
type measured struct {
	session
	pool *pool
}

func (m measured) send(ctx context.Context, statements []*statement) error {
	return m.pool.sends.measure(ctx, func(ctx context.Context) error { return m.session.send(ctx, statements) })
}

func (m measured) commit(ctx context.Context) error {
	return m.pool.commits.measure(ctx, m.session.commit)
}

// session runs do in a session: in the transaction that begin starts, or without one if begin is empty. A transaction that do
// has not committed is rolled back.
func (p *pool) session(ctx context.Context, begin string, do func(session) error) error {
	if p.pipelined {
		return p.overPipeline(ctx, begin, do)
	}
	p.prepare(ctx)
	s := &sqlSession{querier: p, pool: p, ctx: ctx}
	if begin != "" {
		tx, err := p.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // after a commit it does nothing
		s.querier, s.tx = tx, tx
	}
	return do(measured{s, p})
}

// sqlSession sends statements one by one, prepared where the pool keeps them so.
type sqlSession struct {
	querier
	ctx  context.Context
	pool *pool
	tx   *sql.Tx // nil where each statement stands alone
}

func (s *sqlSession) commit(context.Context) error { return s.tx.Commit() }

func (s *sqlSession) send(ctx context.Context, statements []*statement) (err error) {
	for _, one := range statements {
		if err == nil && one.each == nil {
			err = s.exec(ctx, one)
		} else if err == nil {
			err = s.query(ctx, one)
		}
	}
	return err
}

func (s *sqlSession) exec(ctx context.Context, one *statement) (err error) {
	var result sql.Result
	if prepared, words := s.statement(one.text); prepared != nil { //nolint:sqlclosecheck // the pool closes it
		result, err = prepared.ExecContext(ctx, one.args...)
	} else {
		result, err = s.ExecContext(ctx, words, one.args...)
	}
	if err == nil {
		one.changed, err = result.RowsAffected()
	}
	return err
}

func (s *sqlSession) query(ctx context.Context, one *statement) (err error) {
	var rows *sql.Rows
	if prepared, words := s.statement(one.text); prepared != nil { //nolint:sqlclosecheck // the pool closes it
		rows, err = prepared.QueryContext(ctx, one.args...)
	} else {
		rows, err = s.QueryContext(ctx, words, one.args...)
	}
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err tells more
	for rows.Next() {
		if err := one.each(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// statement gives a statement that is prepared for the transaction, nil where there is none, and its text then.
func (s *sqlSession) statement(text string) (prepared *sql.Stmt, words string) {
	prepared, words = s.pool.statement(text)
	if prepared != nil && s.tx != nil {
		return s.tx.StmtContext(s.ctx, prepared), ""
	}
	return prepared, words
}

// pipeline sends statements to PostgreSQL together, in one round trip. The first ones of a transaction begin it.
type pipeline struct {
	pool  *pool
	conn  *pgx.Conn
	begin string // sent with the first statements; empty without a transaction
}

// The states of a transaction in PostgreSQL that are looked at.
const (
	noTransaction     = 'I'
	abortedByAnError  = 'E'
	takeBackWithin    = time.Second
	beginTransaction  = "begin isolation level read committed"
	beginSnapshot     = "begin isolation level repeatable read, read only" // a file of SQLite needs no more than a transaction
	commitTransaction = "commit"
	rolledBack        = "ROLLBACK" // is what a commit of an aborted transaction is answered
)

// errNotSent means that there is nothing to commit: a statement has failed, or the connection has ended.
var errNotSent = errors.New("the transaction was aborted before its end")

// overPipeline gives a pipeline over a connection of the pool.
func (p *pool) overPipeline(ctx context.Context, begin string, do func(session) error) error {
	conn, err := p.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // it goes back to the pool
	s := &pipeline{pool: p, begin: begin}
	_ = conn.Raw(func(raw any) error {
		s.conn = raw.(*stdlib.Conn).Conn() //nolint:forcetypeassert // it is the driver of the dialect
		err = do(measured{s, p})
		s.takeBack(ctx)
		if s.conn.IsClosed() || s.conn.PgConn().TxStatus() != noTransaction {
			return driver.ErrBadConn // which the pool throws away
		}
		return nil
	})
	return err
}

func (s *pipeline) send(ctx context.Context, statements []*statement) error {
	batch := &pgx.Batch{}
	if s.begin != "" && s.conn.PgConn().TxStatus() == noTransaction {
		batch.Queue(s.begin)
	}
	for _, one := range statements {
		queued := batch.Queue(s.pool.inWords(one.text), one.args...)
		if one.each == nil {
			queued.Exec(func(done pgconn.CommandTag) error {
				one.changed = done.RowsAffected()
				return nil
			})
			continue
		}
		queued.Query(func(rows pgx.Rows) error {
			for rows.Next() {
				if err := one.each(rows); err != nil {
					return err
				}
			}
			return rows.Err()
		})
	}
	return s.conn.SendBatch(ctx, batch).Close()
}

func (s *pipeline) commit(ctx context.Context) error {
	switch status := s.conn.PgConn().TxStatus(); {
	case s.conn.IsClosed(), status == abortedByAnError:
		return errNotSent
	case status == noTransaction: // it has asked nothing
		return nil
	}
	done, err := s.conn.PgConn().Exec(ctx, commitTransaction).ReadAll() // as a query of its own, which needs no statement
	if err == nil && len(done) == 1 && done[0].CommandTag.String() == rolledBack {
		return errNotSent
	}
	return err
}

// takeBack takes back what was not committed.
func (s *pipeline) takeBack(ctx context.Context) {
	if s.conn.IsClosed() || s.conn.PgConn().TxStatus() == noTransaction {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeBackWithin)
	defer cancel()
	_, _ = s.conn.Exec(ctx, "rollback") // where it fails, the connection is thrown away
}
