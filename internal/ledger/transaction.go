package ledger

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// transaction is a transaction, with its statements in the words of its database.
type transaction struct {
	ctx        context.Context
	tx         querier
	statements *statements
	in         func(*sql.Stmt) carrier // a prepared statement, as tx carries it out
	l          *Ledger

	told bool // an event was written
}

// AnswerTime bounds each question to the ledger, all repeats of it together: a database that takes longer does not answer.
const AnswerTime = 5 * time.Second

// attempts is how often a transaction is carried out that the database has given up for another's sake.
const attempts = 5

// inTransaction commits what do has done, unless do fails. Its errors are a closed set: a [*BudgetError],
// [ErrGenerationTaken], [ErrKeyTaken], a [*Disagreed], that of a context that has ended, an [*Unavailable], and a
// [*Doubt], which alone leaves open whether anything was recorded. do may be called again.
func (l *Ledger) inTransaction(ctx context.Context, do func(*transaction) error) (err error) {
	bounded, cancel := context.WithTimeout(ctx, AnswerTime)
	defer cancel()
	for range attempts {
		if err = l.once(bounded, do); !givenUp(err) {
			break
		}
	}
	return unanswered(ctx, err)
}

// once carries a transaction out once.
func (l *Ledger) once(ctx context.Context, do func(*transaction) error) error {
	l.writes.statements.prepare(ctx)
	tx, err := l.writes.BeginTx(ctx, l.dialect.begin)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	t := &transaction{ctx: ctx, tx: tx, statements: l.writes.statements, in: func(s *sql.Stmt) carrier { return tx.StmtContext(ctx, s) }, l: l}
	if err := do(t); err != nil {
		return err
	}
	if err := tx.Commit(); givenUp(err) {
		return err
	} else if err != nil {
		return &Doubt{unusable(err)}
	}
	if t.told {
		select {
		case l.written <- struct{}{}:
		default:
		}
	}
	return nil
}

// Codes of PostgreSQL.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	lockNotAvailable     = "55P03"
)

// givenUp reports whether the database has given a transaction up for the sake of another: it has recorded nothing,
// and may do so when it is carried out again.
func givenUp(err error) bool {
	return saysOf(err, serializationFailure) || saysOf(err, deadlockDetected)
}

// saysOf reports whether an error of PostgreSQL has a code.
func saysOf(err error, code string) bool {
	server, ok := errors.AsType[*pgconn.PgError](err)
	return ok && server.Code == code
}

// reading is [Ledger.inTransaction] for what records nothing: it never ends in doubt, and each statement of it stands
// alone, as in PostgreSQL it does in a transaction too.
func (l *Ledger) reading(ctx context.Context, do func(*transaction) error) error {
	bounded, cancel := context.WithTimeout(ctx, AnswerTime)
	defer cancel()
	l.reads.statements.prepare(bounded)
	return unanswered(ctx, do(&transaction{ctx: bounded, tx: l.reads.DB, statements: l.reads.statements, in: func(s *sql.Stmt) carrier { return s }, l: l}))
}

// unanswered is the error of a transaction that was not committed, or may not have been.
func unanswered(ctx context.Context, err error) error {
	_, budget := errors.AsType[*BudgetError](err)
	_, disagreed := errors.AsType[*Disagreed](err)
	_, doubt := errors.AsType[*Doubt](err)
	switch {
	case err == nil || budget || disagreed || doubt || errors.Is(err, ErrGenerationTaken) || errors.Is(err, ErrKeyTaken):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return &Unavailable{unusable(err), saysOf(err, lockNotAvailable)}
}

func (t *transaction) exec(statement string, args ...any) (rows int64, err error) {
	var result sql.Result
	if prepared, text := t.statements.of(statement); prepared != nil {
		result, err = t.in(prepared).ExecContext(t.ctx, args...)
	} else {
		result, err = t.tx.ExecContext(t.ctx, text, args...)
	}
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (t *transaction) row(query string, args ...any) *sql.Row {
	prepared, text := t.statements.of(query)
	if prepared != nil {
		return t.in(prepared).QueryRowContext(t.ctx, args...)
	}
	return t.tx.QueryRowContext(t.ctx, text, args...)
}

func (t *transaction) rows(query string, args ...any) (*sql.Rows, error) {
	prepared, text := t.statements.of(query)
	if prepared != nil {
		return t.in(prepared).QueryContext(t.ctx, args...)
	}
	return t.tx.QueryContext(t.ctx, text, args...)
}

// now is the database's time.
func (t *transaction) now() (now int64, err error) {
	err = t.row(`SELECT {now}`).Scan(&now)
	return now, err
}
