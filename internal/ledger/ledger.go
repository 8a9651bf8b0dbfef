// Package ledger is the book of orders, in SQL: who ordered what under which idempotency key, for how
// much, and what became of it.
package ledger

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql migrations/*/*.sql
var migrations embed.FS

// ClaimTime is how long a claim lasts that is not renewed, by the database's clock.
const ClaimTime = 20 * time.Second

// ResendWindow is the usual one: how long the catalog remembers an idempotency key is not shown.
const ResendWindow = 12 * time.Hour

// Config says which ledger it is.
type Config struct {
	// URL is [InMemory], sqlite:FILE, or postgres://….
	URL string
	// Catalog is the base URL of the catalog. A ledger belongs to one.
	Catalog string
	// ResendWindow is how long after its first attempt an order may be sent again. 0 is [ResendWindow].
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
	dialect dialect
	writes  pool
	reads   pool          // of what is read outside of transactions: that of PostgreSQL is the same
	lock    *flock.Flock  // that this process has on a file of SQLite; nil elsewhere
	window  time.Duration // in which an order may be sent again
	refunds time.Duration // after a failure
	catalog string
	durable bool // it outlives the process
	outbox  *Outbox
	written chan struct{} // has a value after an event was written

	// Counts is what this process has found in the book since its start.
	Counts Counts
}

// Counts count what operators should know of.
type Counts struct {
	Faults atomic.Int64 // two truths about an order
	Dearer atomic.Int64 // charges above the quote
}

// IsDurable reports whether the ledger outlives its process, so that what is not in it was never ordered.
func (l *Ledger) IsDurable() bool { return l.durable }

// pool is a pool of connections, with the statements that are kept prepared on them.
type pool struct {
	*sql.DB
	statements *statements
}

func newPool(db *sql.DB, d dialect) pool { return pool{db, newStatements(db, d.words, d.statements)} }

// Open opens a ledger, and brings its schema up to date. Its errors name the setting and the cure, and
// never the password.
func Open(ctx context.Context, config Config) (*Ledger, error) {
	at, err := parse(config.URL)
	if err != nil {
		return nil, err
	}
	if config.Connector != nil {
		at.statements, at.file = 0, ""
	}
	l := &Ledger{
		dialect: at.dialect, window: cmp.Or(config.ResendWindow, ResendWindow), refunds: config.RefundWindow,
		catalog: config.Catalog, durable: IsDurable(config.URL), outbox: config.Outbox, written: make(chan struct{}, 1),
	}
	if err := l.open(ctx, at, config); err != nil {
		_ = l.Close() // the first error says more
		return nil, named(ctx, err)
	}
	return l, nil
}

// open takes the file of SQLite for this process, brings the schema up to date, and opens the pools.
func (l *Ledger) open(ctx context.Context, at place, config Config) error {
	if err := l.take(at.file); err != nil {
		return err
	}
	db, err := at.open(at.bounded(), at.conns, config.Connector)
	if err != nil {
		return unusable(err)
	}
	l.writes = newPool(db, at.dialect)
	l.reads = l.writes
	if err := l.migrate(ctx, at); err != nil {
		return err
	}
	if at.file != "" {
		if db, err = at.open(at.dsn+sqliteReading, sqliteReaders, nil); err != nil {
			return unusable(err)
		}
		l.reads = newPool(db, at.dialect)
	}
	return l.belong(ctx, config.Catalog)
}

// take makes this process the only one that has a file of SQLite, and the file readable by nobody else. Its name in
// front of that of the lock is all that a second process is told.
func (l *Ledger) take(file string) error {
	if file == "" {
		return nil
	}
	made, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, fileMode) //nolint:gosec // the operator names it
	if err != nil {
		return &refusal{cures[fileProblem(file)], err}
	}
	for _, part := range []string{"", "-wal", "-shm"} { // these stay where a process was killed
		_ = os.Chmod(file+part, fileMode) // of one that is another user's the start warns
	}
	if err := made.Close(); err != nil {
		return &refusal{cures["disk"], err}
	}
	lock := flock.New(file+".lock", flock.SetPermissions(fileMode))
	switch taken, err := lock.TryLock(); {
	case err != nil:
		return &refusal{cures["path"], err}
	case !taken:
		return &refusal{cures["busy"], fmt.Errorf("%s is locked", lock.Path())}
	}
	l.lock = lock
	return nil
}

// fileProblem is why a file can't be opened to write.
func fileProblem(file string) string {
	read, err := os.Open(file) //nolint:gosec // the operator names it
	if err != nil {
		return "path"
	}
	defer func() { _ = read.Close() }()
	if info, err := read.Stat(); err != nil || info.IsDir() {
		return "path"
	}
	return "readonly"
}

// fileMode is that of a ledger's file: prompts and money stand in it.
const fileMode = 0o600

// named names the setting in an error that does not: a connection may break at any time.
func named(ctx context.Context, err error) error {
	if ctx.Err() != nil || strings.Contains(err.Error(), "EASEL_LEDGER_URL") {
		return err
	}
	return &refusal{"the database does not answer: start Easel again when it does", err}
}

// Close closes the ledger.
func (l *Ledger) Close() (err error) {
	for _, p := range []pool{l.reads, l.writes} {
		if p.DB != nil {
			err = errors.Join(err, p.Close())
		}
	}
	if l.lock != nil {
		err = errors.Join(err, l.lock.Close())
	}
	return err
}

// migrate brings the schema up to date. One replica does it at a time, in PostgreSQL over connections without the
// bounds of the others: to fill an index may take long.
func (l *Ledger) migrate(ctx context.Context, at place) error {
	db := l.writes.DB
	if at.goose == goose.DialectPostgres {
		unbounded, err := at.open(at.dsn, at.conns, nil)
		if err != nil {
			return unusable(err)
		}
		defer func() { _ = unbounded.Close() }() // what it has done is done
		db = unbounded
	}
	files, err := at.migrations()
	if err != nil {
		return err
	}
	options := []goose.ProviderOption{goose.WithDisableGlobalRegistry(true)}
	if at.locker != nil {
		locker, err := at.locker()
		if err != nil {
			return err
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	provider, err := goose.NewProvider(at.goose, db, files, options...)
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
	return compatible(ctx, db, known)
}

// compatible refuses a book that a later program has changed so that this one can't read it any more. A
// migration that the program of the release before can't work with raises the fact.
func compatible(ctx context.Context, db *sql.DB, known int64) error {
	needed := int64(0)
	err := db.QueryRowContext(ctx, `SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'needed_migration'`).Scan(&needed)
	if err == nil && needed > known {
		return fmt.Errorf("EASEL_LEDGER_URL: a later Easel has changed this ledger so that this one can't read it (it needs migration %d, and this one knows %d): install the later one again", needed, known)
	}
	return unusable(err)
}

// belong ties the ledger to a catalog, or refuses one that belongs to another.
func (l *Ledger) belong(ctx context.Context, catalog string) error {
	tied, err := l.tie(ctx, "catalog", catalog)
	if err == nil && tied != catalog {
		return fmt.Errorf("EASEL_LEDGER_URL: this ledger belongs to the catalog at %s, and EASEL_UPSTREAM_URL is %s: give each catalog a ledger of its own", tied, catalog)
	}
	return err
}

// BelongsTo ties the ledger to the account of a held API key, and reports whether it belongs to that one. It notes the
// digest of its name.
func (l *Ledger) BelongsTo(ctx context.Context, account string) (bool, error) {
	sum := sha256.Sum256([]byte(account))
	digest := hex.EncodeToString(sum[:])
	tied, err := l.tie(ctx, "account", digest)
	return tied == digest, err
}

// tie notes a fact, unless another one is noted under its name, and gives the one that is.
func (l *Ledger) tie(ctx context.Context, name, value string) (tied string, err error) {
	err = l.inTransaction(ctx, func(tx *transaction) error {
		if _, err := tx.exec(`INSERT INTO facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`, name, value); err != nil {
			return err
		}
		return tx.row(`SELECT value FROM facts WHERE name = $1`, name).Scan(&tied)
	})
	return tied, err
}

// Unavailable is an error of a ledger that does not answer: nothing was recorded.
type Unavailable struct {
	Err error
	// Locked means that it does, and somebody else has locked a row for long.
	Locked bool
}

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
	ctx        context.Context
	tx         querier
	statements *statements
	in         func(*sql.Stmt) carrier // a prepared statement, as tx carries it out
	l          *Ledger

	told bool // an event was written
}

// attempts is how often a transaction is carried out that the database has given up for another's sake.
const attempts = 5

// inTransaction commits what do has done, unless do fails. Its errors are a closed set: a [*BudgetError],
// [ErrGenerationTaken], [ErrKeyTaken], a [*Disagreed], that of a context that has ended, an [*Unavailable], and a
// [*Doubt], which alone leaves open whether anything was recorded. do may be called again.
func (l *Ledger) inTransaction(ctx context.Context, do func(*transaction) error) (err error) {
	for range attempts {
		if err = l.once(ctx, do); !givenUp(err) {
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
	l.reads.statements.prepare(ctx)
	return unanswered(ctx, do(&transaction{ctx: ctx, tx: l.reads.DB, statements: l.reads.statements, in: func(s *sql.Stmt) carrier { return s }, l: l}))
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
