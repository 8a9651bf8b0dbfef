package ledger

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/easel-grpc/easel/internal/gate"
)

// querier carries out statements: a pool, or a transaction.
type querier interface {
	ExecContext(ctx context.Context, statement string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// transaction is a transaction, with its statements in the words of its database.
type transaction struct {
	session
	ctx context.Context
	l   *Ledger

	eventWritten, contentWanted bool
	audited                     []AuditLine
}

// AnswerTime bounds each question to the ledger, all repeats of it together: a database that takes longer does not answer.
// In a file of SQLite it bounds the wait for a turn, and each turn.
const AnswerTime = 5 * time.Second

// attempts is how often a transaction is carried out that the database has given up for another's sake.
const attempts = 5

// inTransaction commits what do has done, unless do fails. Its errors are a closed set: a [*BudgetError],
// [ErrGenerationTaken], [ErrKeyTaken], a [*Disagreed], a [*Contradiction], that of a context that has ended, an
// [*Unavailable], a [*Busy], and a [*Doubt], the only one that leaves open whether anything was recorded. do may be called
// again.
func (l *Ledger) inTransaction(ctx context.Context, do func(*transaction) error) (err error) {
	return l.repeated(ctx, do, (*Ledger).once)
}

// inGroup is [Ledger.inTransaction] for what may go together with others of its kind, in whatever order its statements and
// theirs do; row is the name of the one that it takes. Where the database is one round trip away, that is how the
// transactions of an owner wait for its budgets. Those of a group take the same ones, see [budgetsOf]. What has no group goes
// alone.
func (l *Ledger) inGroup(ctx context.Context, group, row string, do func(*transaction) error) error {
	if group == "" || !l.IsShared() || l.groups.size() == 1 {
		return l.inTransaction(ctx, do)
	}
	return l.repeated(ctx, do, func(l *Ledger, t *transaction, do func(*transaction) error) error { //nolint:contextcheck // the transaction has it
		return l.groups.once(group, row, t, do)
	})
}

// repeated carries a transaction out, again where the database has given it up for another's sake.
func (l *Ledger) repeated(ctx context.Context, do func(*transaction) error, once func(*Ledger, *transaction, func(*transaction) error) error) (err error) {
	bounded, cancel := context.WithTimeout(ctx, AnswerTime)
	defer cancel()
	for range attempts {
		err = once(l, &transaction{ctx: bounded, l: l}, do)
		if _, doubt := errors.AsType[*Doubt](err); doubt || !givenUp(err) {
			break
		}
	}
	return l.unanswered(ctx, err)
}

// once carries a transaction out once.
func (l *Ledger) once(t *transaction, do func(*transaction) error) error {
	if l.IsDurable() && !l.IsShared() {
		return l.groups.once("", "", t, do)
	}
	err := l.transact(t.ctx, func(s session) error {
		t.session = s
		if err := do(t); err != nil {
			return err
		}
		return committed(s.commit(t.ctx))
	})
	if err == nil {
		t.publish()
	}
	return err
}

// transact gives a transaction to do, which commits it.
func (l *Ledger) transact(ctx context.Context, do func(session) error) error {
	turn, err := l.writes.turn(ctx)
	if err != nil {
		return err
	}
	defer turn.End(gate.Answer{})
	return l.writes.session(ctx, beginTransaction, do)
}

// committed is the error of a commit.
func committed(err error) error {
	if err == nil || notCommitted(err) {
		return err
	}
	return &Doubt{unusable(err)}
}

// publish tells of the lines of the audit, and wakes who waits for what was written.
func (t *transaction) publish() {
	for _, line := range t.audited {
		if t.l.audited != nil {
			t.l.audited(t.ctx, line)
		}
	}
	if t.eventWritten {
		ring(t.l.written)
	}
	if t.contentWanted {
		ring(t.l.wanted)
	}
}

// ring puts a value into a channel that may have one.
func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// Codes of PostgreSQL.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	lockNotAvailable     = "55P03"
	queryCanceled        = "57014"
)

// givenUp reports whether a transaction that was not committed may be carried out again: the database has given it up for
// the sake of another, or was asked nothing, as the connection had ended.
func givenUp(err error) bool { return notCommitted(err) || pgconn.SafeToRetry(err) }

// notCommitted reports whether the database has certainly recorded nothing, though it may have been asked to. What the driver
// calls safe to repeat is not: it says so too where the connection has ended before the answer to a commit.
func notCommitted(err error) bool {
	return saysOf(err, serializationFailure) || saysOf(err, deadlockDetected) || errors.Is(err, errNotSent)
}

// isSlow reports whether a question was given up because its answer took too long: the database has said so, or is a file,
// which is never away, or a report was asked for.
func (l *Ledger) isSlow(ctx context.Context, err error) bool {
	late := errors.Is(err, context.DeadlineExceeded) && (l.lock != nil || !l.IsDurable() || turnOf(ctx).Class == forReport)
	return late || saysOf(err, queryCanceled)
}

// saysOf reports whether an error of PostgreSQL has a code.
func saysOf(err error, code string) bool {
	server, ok := errors.AsType[*pgconn.PgError](err)
	return ok && server.Code == code
}

// reading is [Ledger.inTransaction] for what records nothing: it never ends in doubt, and each statement of it stands
// alone, as in PostgreSQL it does in a transaction too. do may be called again.
func (l *Ledger) reading(ctx context.Context, do func(*transaction) error) error {
	return l.read(ctx, "", do)
}

// snapshot runs do as [Ledger.reading] does, but all its statements read the ledger as it was at one moment.
func (l *Ledger) snapshot(ctx context.Context, do func(*transaction) error) error {
	return l.read(ctx, beginSnapshot, do)
}

func (l *Ledger) read(ctx context.Context, begin string, do func(*transaction) error) error {
	bounded, cancel := context.WithTimeout(ctx, AnswerTime)
	defer cancel()
	turn, err := l.reads.turn(bounded)
	if err != nil {
		return l.unanswered(ctx, err)
	}
	defer turn.End(gate.Answer{})
	for range attempts {
		err = l.reads.session(bounded, begin, func(s session) error { return do(&transaction{session: s, ctx: bounded, l: l}) })
		if !givenUp(err) {
			break
		}
	}
	return l.unanswered(ctx, err)
}

// unanswered returns the error of a transaction that was not committed, or may not have been, and records whether the
// database is available.
func (l *Ledger) unanswered(ctx context.Context, err error) error {
	err = l.classified(ctx, err)
	l.available.record(err)
	return err
}

// classified returns one of the errors of [Ledger.inTransaction].
func (l *Ledger) classified(ctx context.Context, err error) error {
	_, budget := errors.AsType[*BudgetError](err)
	_, disagreed := errors.AsType[*Disagreed](err)
	_, doubt := errors.AsType[*Doubt](err)
	switch {
	case err == nil || budget || disagreed || doubt || errors.Is(err, ErrGenerationTaken) || errors.Is(err, ErrKeyTaken):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	if _, busy := errors.AsType[*Busy](err); busy {
		return err
	}
	if contradicts(err) {
		return &Contradiction{err}
	}
	if l.isSlow(ctx, err) {
		return &Busy{err, 0}
	}
	return &Unavailable{unusable(err), saysOf(err, lockNotAvailable)}
}

// together carries statements out, in one round trip where the database is one away.
func (t *transaction) together(statements ...*statement) error { return t.send(t.ctx, statements) }

func (t *transaction) exec(text string, args ...any) (rows int64, err error) {
	one := &statement{text: text, args: args}
	err = t.together(one)
	return one.changed, err
}

// row reads the one row of a query. Without one the error is [sql.ErrNoRows].
func (t *transaction) row(text string, args ...any) scanner { return &onlyRow{t, text, args} }

type onlyRow struct {
	t    *transaction
	text string
	args []any
}

// Scan carries the query out.
func (r *onlyRow) Scan(into ...any) error {
	found := false
	err := r.t.together(&statement{text: r.text, args: r.args, each: func(row scanner) error {
		found = true
		return row.Scan(into...)
	}})
	if err == nil && !found {
		return sql.ErrNoRows
	}
	return err
}

// now is the database's time.
func (t *transaction) now() (now time.Time, err error) {
	err = t.row(`SELECT {now}`).Scan(moment{&now})
	return now, err
}

// collecting is a query whose rows are added to a list, each by scan.
func collecting[T any](into *[]T, scan func(scanner, *T) error, query string, args ...any) *statement {
	return &statement{text: query, args: args, each: func(row scanner) error {
		var one T
		err := scan(row, &one)
		*into = append(*into, one)
		return err
	}}
}

// collect reads the rows of a query, each by scan.
func collect[T any](tx *transaction, scan func(scanner, *T) error, query string, args ...any) (all []T, err error) {
	if err = tx.together(collecting(&all, scan, query, args...)); err != nil {
		return nil, err
	}
	return all, nil
}

// scanText scans a row of one text.
func scanText(row scanner, text *string) error { return row.Scan(text) }

// askOne reads the one row of a query that stands alone into some values, which stay as they are where there is none.
func (l *Ledger) askOne(ctx context.Context, into []any, query string, args ...any) error {
	return l.reading(ctx, func(tx *transaction) error {
		return tx.together(&statement{text: query, args: args, each: func(row scanner) error { return row.Scan(into...) }})
	})
}

// change carries a statement out that stands alone, and gives how many rows it has changed.
func (l *Ledger) change(ctx context.Context, text string, args ...any) (rows int64, err error) {
	err = l.inTransaction(ctx, func(tx *transaction) error {
		rows, err = tx.exec(text, args...)
		return err
	})
	return rows, err
}

// ask reads the rows of a query that stands alone.
func ask[T any](ctx context.Context, l *Ledger, scan func(scanner, *T) error, query string, args ...any) (all []T, err error) {
	err = l.reading(ctx, func(tx *transaction) error {
		all, err = collect(tx, scan, query, args...)
		return err
	})
	return all, err
}
