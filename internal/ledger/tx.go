package ledger

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	modernc "modernc.org/sqlite"
)

// querier executes statements. It is a pool or a transaction.
type querier interface {
	ExecContext(ctx context.Context, statement string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// transaction executes statements in the dialect of its database. It also collects the notifications to send after the commit.
type transaction struct {
	querier
	pool *pool
	ctx  context.Context
	l    *Ledger

	statements operation

	jobAdded bool
	audited  []AuditLine
}

// AnswerTime is the timeout for a ledger operation, including its retries.
const AnswerTime = 5 * time.Second

// maxAttempts is the maximum number of attempts for a transaction that the database aborts because of a conflict.
const maxAttempts = 5

// runTx calls fn in a transaction, and commits the transaction unless fn returns an error. It returns only these errors: a
// [*BudgetError], [ErrGenerationTaken], [ErrKeyTaken], [ErrLeaseLost], [ErrOrderExpired], a [*Disagreed], a [*Contradiction],
// ctx.Err(), an [*Unavailable], a [*Busy], or a [*Doubt]. After any error except a [*Doubt], nothing was committed. If runTx
// retries, for example after a conflict, it calls fn again.
func (l *Ledger) runTx(ctx context.Context, fn func(*transaction) error) error {
	return l.runRetried(ctx, func(ctx context.Context) error { return l.runOnce(ctx, l.writes, nil, fn) })
}

// runRead calls fn, and calls it again for each retry. The queries of fn are executed outside a transaction. They have no
// spans, because almost every call has such a query, and a span would cost as much as the query.
func (l *Ledger) runRead(ctx context.Context, fn func(*transaction) error) error {
	return l.runRetried(ctx, func(ctx context.Context) error {
		l.reads.prepareUsed(ctx)
		return fn(&transaction{querier: l.reads, pool: l.reads, ctx: ctx, l: l, statements: l.statements.untraced()})
	})
}

// runRetried calls fn at most maxAttempts times within [AnswerTime]. It calls fn again only if mayRetry allows it. It returns
// one of the errors that [Ledger.runTx] returns.
func (l *Ledger) runRetried(ctx context.Context, fn func(context.Context) error) (err error) {
	bounded, cancel := context.WithTimeout(ctx, AnswerTime)
	defer cancel()
	for range maxAttempts {
		if err = fn(bounded); !mayRetry(err) {
			break
		}
	}
	err = l.classifyError(ctx, err)
	l.available.recordResult(err)
	return err
}

// runOnce calls fn in a transaction, without retries.
func (l *Ledger) runOnce(ctx context.Context, p *pool, options *sql.TxOptions, fn func(*transaction) error) error {
	p.prepareUsed(ctx)
	tx, err := p.BeginTx(ctx, options)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	t := &transaction{querier: tx, pool: p, ctx: ctx, l: l, statements: l.statements}
	if err := fn(t); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil { // certainly not committed, because no commit was sent
		return err
	}
	err = l.commits.measure(ctx, func(context.Context) error { return tx.Commit() })
	if err != nil && !wasNotCommitted(err) {
		return &Doubt{addRemedy(err)}
	}
	if err == nil {
		t.publishAudit()
	}
	return err
}

// publishAudit passes the audit lines to [Config.Audited]. If the transaction has added a job, it also wakes the loop that runs
// jobs. publishAudit is called after the commit.
func (t *transaction) publishAudit() {
	for _, line := range t.audited {
		if t.l.audited != nil {
			t.l.audited(t.ctx, line)
		}
	}
	if t.jobAdded {
		sendSignal(t.l.jobAdded)
	}
}

// sendSignal sends a signal to a channel, unless the channel is full.
func sendSignal(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// Error codes of PostgreSQL and SQLite for conflicts and timeouts.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	lockNotAvailable     = "55P03"
	queryCanceled        = "57014"

	sqliteBusy = 5
)

// mayRetry reports whether a transaction may be retried. It may be retried if the database aborted it because of a conflict, or
// if it was not sent because the connection was closed. A commit whose result is unknown is not retried.
func mayRetry(err error) bool {
	if _, doubt := errors.AsType[*Doubt](err); doubt {
		return false
	}
	return wasNotCommitted(err) || pgconn.SafeToRetry(err)
}

// wasNotCommitted reports whether an error proves that the transaction was not committed, even if the commit was sent.
func wasNotCommitted(err error) bool {
	file, ok := errors.AsType[*modernc.Error](err)
	return hasCode(err, serializationFailure) || hasCode(err, deadlockDetected) || errors.Is(err, pgx.ErrTxCommitRollback) || ok && file.Code()&0xff == sqliteBusy
}

// hasCode reports whether an error is a PostgreSQL error with the given code.
func hasCode(err error, code string) bool {
	server, ok := errors.AsType[*pgconn.PgError](err)
	return ok && server.Code == code
}

// isSlow reports whether an operation timed out although the database is available. PostgreSQL is available if it returned the
// timeout error itself. A SQLite database is always available.
func (l *Ledger) isSlow(err error) bool {
	return hasCode(err, queryCanceled) || !l.IsShared() && errors.Is(err, context.DeadlineExceeded)
}

// classifyError converts an error to one of the errors that [Ledger.runTx] returns.
func (l *Ledger) classifyError(ctx context.Context, err error) error {
	_, budget := errors.AsType[*BudgetError](err)
	_, disagreed := errors.AsType[*Disagreed](err)
	_, doubt := errors.AsType[*Doubt](err)
	switch {
	case err == nil || budget || disagreed || doubt || errors.Is(err, ErrGenerationTaken) || errors.Is(err, ErrKeyTaken) || errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrOrderExpired):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case isContradiction(err):
		return &Contradiction{err}
	case l.isSlow(err):
		return &Busy{err}
	}
	return &Unavailable{addRemedy(err), hasCode(err, lockNotAvailable)}
}

// exec executes a statement and returns the number of changed rows.
func (t *transaction) exec(text string, args ...any) (rows int64, err error) {
	err = t.statements.measure(t.ctx, func(ctx context.Context) error {
		result, err := t.ExecContext(ctx, text, args...)
		if err == nil {
			rows, err = result.RowsAffected()
		}
		return err
	})
	return rows, err
}

// execAll executes statements without arguments, and stops at the first error.
func (t *transaction) execAll(statements ...string) error {
	for _, text := range statements {
		if _, err := t.exec(text); err != nil {
			return err
		}
	}
	return nil
}

// queryRows runs a query, and calls readRow for each row.
func (t *transaction) queryRows(readRow func(scanner) error, text string, args ...any) error {
	return t.statements.measure(t.ctx, func(ctx context.Context) error {
		rows, err := t.QueryContext(ctx, text, args...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }() // an error does not matter, because rows.Err returns it too
		for rows.Next() {
			if err := readRow(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// scanRow scans the only row of a query into the given variables. If there is no row, the error is [sql.ErrNoRows].
func (t *transaction) scanRow(into []any, text string, args ...any) error {
	found, err := t.scanMaybeRow(into, text, args...)
	if err == nil && !found {
		return sql.ErrNoRows
	}
	return err
}

// scanMaybeRow scans the only row of a query into the given variables, and reports whether there is a row.
func (t *transaction) scanMaybeRow(into []any, text string, args ...any) (found bool, err error) {
	err = t.queryRows(func(row scanner) error {
		found = true
		return row.Scan(into...)
	}, text, args...)
	return found, err
}

// currentTime returns the database's current time.
func (t *transaction) currentTime() (now time.Time, err error) {
	err = t.scanRow([]any{moment{&now}}, `SELECT {now}`)
	return now, err
}

// Now returns the database's current time.
func (l *Ledger) Now(ctx context.Context) (now time.Time, err error) {
	err = l.askOne(ctx, []any{moment{&now}}, `SELECT {now}`)
	return now, err
}

// queryList runs a query in a transaction, and returns its rows. readRow reads one row.
func queryList[T any](tx *transaction, readRow func(scanner, *T) error, query string, args ...any) (all []T, err error) {
	err = tx.queryRows(func(row scanner) error {
		var one T
		err := readRow(row, &one)
		all = append(all, one)
		return err
	}, query, args...)
	if err != nil {
		return nil, err
	}
	return all, nil
}

func scanText(row scanner, text *string) error { return row.Scan(text) }

// askOne runs a query outside a transaction, and scans its only row into the given variables. If there is no row, the variables
// remain unchanged.
func (l *Ledger) askOne(ctx context.Context, into []any, query string, args ...any) error {
	return l.runRead(ctx, func(tx *transaction) error {
		_, err := tx.scanMaybeRow(into, query, args...)
		return err
	})
}

// askList runs a query outside a transaction, and returns its rows. readRow reads one row.
func askList[T any](ctx context.Context, l *Ledger, readRow func(scanner, *T) error, query string, args ...any) (all []T, err error) {
	err = l.runRead(ctx, func(tx *transaction) error {
		all, err = queryList(tx, readRow, query, args...)
		return err
	})
	return all, err
}

// ExecContext implements [querier].
func (t *transaction) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	s := t.statement(ctx, text)
	if s.prepared != nil {
		return s.prepared.ExecContext(ctx, args...)
	}
	return t.querier.ExecContext(ctx, s.text, args...)
}

// QueryContext implements [querier].
func (t *transaction) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	s := t.statement(ctx, text)
	if s.prepared != nil {
		return s.prepared.QueryContext(ctx, args...)
	}
	return t.querier.QueryContext(ctx, s.text, args...)
}

// statement returns text as a statement in the database's dialect. If the pool has prepared the statement, the returned
// statement uses it within the transaction.
func (t *transaction) statement(ctx context.Context, text string) statement {
	s := t.pool.statement(text)
	if tx, ok := t.querier.(*sql.Tx); ok && s.prepared != nil {
		s.prepared = tx.StmtContext(ctx, s.prepared)
	}
	return s
}
