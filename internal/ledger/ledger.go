// Package ledger is the book of orders, in SQL: who ordered what under which idempotency key, for how
// much, and what became of it.
package ledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

// ClaimTime is how long a claim lasts that is not renewed, by the database's clock.
const ClaimTime = 20 * time.Second

// Config says which ledger it is.
type Config struct {
	// URL is sqlite:FILE, or postgres://….
	URL string
	// Catalog is the base URL of the catalog. A ledger belongs to one.
	Catalog string
	// ResendWindow is how long after its first attempt an order may be sent again.
	ResendWindow time.Duration
	// RefundWindow is how long after a failure a refund may still come. 0 settles failures at once.
	RefundWindow time.Duration
	// Connector connects to the database in the place of its driver, in the dialect that the URL names. Nil is the
	// driver's own.
	Connector driver.Connector
	// Outbox says who is told of events. Nil: nobody, and none are stored.
	Outbox *Outbox
}

// Ledger is the book of orders. All times in it are of the database's clock.
type Ledger struct {
	db         *sql.DB
	dialect    dialect
	statements *statements
	window     time.Duration // in which an order may be sent again
	refunds    time.Duration // after a failure
	catalog    string
	outbox     *Outbox
}

// Open opens a ledger, and brings its schema up to date. Its errors name the setting and the cure, and
// never the password.
func Open(ctx context.Context, config Config) (*Ledger, error) {
	d, dsn, err := parse(config.URL)
	if err != nil {
		return nil, err
	}
	db, err := d.open(dsn, config.Connector)
	if err != nil {
		return nil, unusable(err)
	}
	if config.Connector != nil {
		d.statements = 0
	}
	l := &Ledger{db: db, dialect: d, statements: newStatements(db, d.words, d.statements), window: config.ResendWindow, refunds: config.RefundWindow, catalog: config.Catalog, outbox: config.Outbox}
	if err := l.prepare(ctx, config.Catalog); err != nil {
		_ = db.Close() // the first error says more
		return nil, named(ctx, err)
	}
	return l, nil
}

// named names the setting in an error that does not: a connection may break at any time.
func named(ctx context.Context, err error) error {
	if ctx.Err() != nil || strings.Contains(err.Error(), "EASEL_LEDGER_URL") {
		return err
	}
	return &refusal{"the database does not answer: start Easel again when it does", err}
}

// prepare makes the book ready for this process.
func (l *Ledger) prepare(ctx context.Context, catalog string) error {
	if err := l.migrate(ctx); err != nil {
		return err
	}
	return l.belong(ctx, catalog)
}

// Close closes the ledger.
func (l *Ledger) Close() error { return l.db.Close() }

// migrate brings the schema up to date. One replica does it at a time.
func (l *Ledger) migrate(ctx context.Context) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	options := []goose.ProviderOption{goose.WithDisableGlobalRegistry(true)}
	if l.dialect.locker != nil {
		locker, err := l.dialect.locker()
		if err != nil {
			return err
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	provider, err := goose.NewProvider(l.dialect.goose, l.db, files, options...)
	if err != nil {
		return unusable(err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return unusable(err)
	}
	_, known, err := provider.GetVersions(ctx)
	if err != nil {
		return unusable(err)
	}
	return l.compatible(ctx, known)
}

// compatible refuses a book that a later program has changed so that this one can't read it any more. A
// migration that the program of the release before can't work with raises the fact.
func (l *Ledger) compatible(ctx context.Context, known int64) error {
	needed := int64(0)
	err := l.reading(ctx, func(tx *transaction) error {
		return tx.row(`SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'needed_migration'`).Scan(&needed)
	})
	if err == nil && needed > known {
		return fmt.Errorf("EASEL_LEDGER_URL: a later Easel has changed this ledger so that this one can't read it (it needs migration %d, and this one knows %d): install the later one again", needed, known)
	}
	return err
}

// belong ties the ledger to a catalog, or refuses one that belongs to another.
func (l *Ledger) belong(ctx context.Context, catalog string) error {
	tied := ""
	err := l.inTransaction(ctx, func(tx *transaction) error {
		if _, err := tx.exec(`INSERT INTO facts (name, value) VALUES ('catalog', $1) ON CONFLICT (name) DO NOTHING`, catalog); err != nil {
			return err
		}
		return tx.row(`SELECT value FROM facts WHERE name = 'catalog'`).Scan(&tied)
	})
	if err == nil && tied != catalog {
		return fmt.Errorf("EASEL_LEDGER_URL: this ledger belongs to the catalog at %s, and EASEL_UPSTREAM_URL is %s: give each catalog a ledger of its own", tied, catalog)
	}
	return err
}

// Unavailable is an error of a ledger that does not answer: nothing was recorded.
type Unavailable struct{ Err error }

func (e *Unavailable) Error() string { return "the ledger does not answer: " + e.Err.Error() }

// Unwrap gives what the database said.
func (e *Unavailable) Unwrap() error { return e.Err }

// Doubt is an error of a commit: what it would have recorded may be recorded, or not.
type Doubt struct{ Err error }

func (e *Doubt) Error() string {
	return "it is not known whether the ledger has recorded it: " + e.Err.Error()
}

// Unwrap gives what the database said.
func (e *Doubt) Unwrap() error { return e.Err }

// transaction is a transaction, with its statements in the words of its database.
type transaction struct {
	ctx context.Context
	tx  querier
	in  func(*sql.Stmt) carrier // a prepared statement, as tx carries it out
	l   *Ledger

	told bool // an event was written
}

// inTransaction commits what do has done, unless do fails. Its errors are a closed set: a [*BudgetError],
// [ErrGenerationTaken], that of a context that has ended, an [*Unavailable], and a [*Doubt], which alone leaves open
// whether anything was recorded.
func (l *Ledger) inTransaction(ctx context.Context, do func(*transaction) error) error {
	l.statements.prepare(ctx)
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return unanswered(ctx, err)
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	t := &transaction{ctx: ctx, tx: tx, in: func(s *sql.Stmt) carrier { return tx.StmtContext(ctx, s) }, l: l}
	if err := do(t); err != nil {
		return unanswered(ctx, err)
	}
	if err := tx.Commit(); err != nil {
		return &Doubt{unusable(err)}
	}
	if t.told && l.outbox.Written != nil {
		l.outbox.Written()
	}
	return nil
}

// reading is [Ledger.inTransaction] for what records nothing: it never ends in doubt, and each statement of it stands
// alone, as in PostgreSQL it does in a transaction too.
func (l *Ledger) reading(ctx context.Context, do func(*transaction) error) error {
	l.statements.prepare(ctx)
	if err := do(&transaction{ctx: ctx, tx: l.db, in: func(s *sql.Stmt) carrier { return s }, l: l}); err != nil {
		return unanswered(ctx, err)
	}
	return nil
}

// unanswered is the error of a transaction that was not committed.
func unanswered(ctx context.Context, err error) error {
	_, budget := errors.AsType[*BudgetError](err)
	switch {
	case budget || errors.Is(err, ErrGenerationTaken):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return &Unavailable{unusable(err)}
}

func (t *transaction) exec(statement string, args ...any) (rows int64, err error) {
	var result sql.Result
	if prepared, text := t.l.statements.of(statement); prepared != nil {
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
	prepared, text := t.l.statements.of(query)
	if prepared != nil {
		return t.in(prepared).QueryRowContext(t.ctx, args...)
	}
	return t.tx.QueryRowContext(t.ctx, text, args...)
}

func (t *transaction) rows(query string, args ...any) (*sql.Rows, error) {
	prepared, text := t.l.statements.of(query)
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
