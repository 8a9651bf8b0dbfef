// Package ledger is the book of orders, in SQL: who ordered what under which idempotency key, for how
// much, and what became of it.
package ledger

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

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
	// Contents means that results are copied.
	Contents bool
	// Audited is told of each line of the audit once it is written. It may not wait, nor ask the ledger. Nil: nobody is told.
	Audited func(context.Context, AuditLine)
	// Logger logs outages of the database. Nil discards them.
	Logger *slog.Logger
}

// Ledger is the book of orders. All times in it are of the database's clock.
type Ledger struct {
	dialect  dialect
	writes   *pool
	reads    *pool         // pool for queries outside transactions; equal to writes, except for a SQLite file
	lock     *os.File      // the locked file next to a file of SQLite; otherwise nil
	window   time.Duration // in which an order may be sent again
	refunds  time.Duration // after a failure
	catalog  string
	kind     string // see [Kind]
	outbox   *Outbox
	audited  func(context.Context, AuditLine) // see [Config]
	jobAdded chan struct{}                    // has a value after a job was written
	contents bool                             // are copied
	copied   time.Time                        // see [Ledger.CopyTime]

	statements, commits operation

	available availability

	// Counts is what this process has found in the book since its start.
	Counts Counts
	// AccountUnknown is set until the account of a shared API key is known to be that of the ledger: see
	// [Ledger.BelongsTo]. No order is sent before.
	AccountUnknown atomic.Bool
}

// Counts count what operators should know of.
type Counts struct {
	Faults atomic.Int64 // two truths about an order
	Dearer atomic.Int64 // charges above the quote
}

// IsDurable reports whether the ledger outlives its process, so that what is not in it was never ordered.
func (l *Ledger) IsDurable() bool { return IsDurable(l.kind) }

// IsShared reports whether several processes may use the ledger at once.
func (l *Ledger) IsShared() bool { return l.dialect.kind == postgresKind }

// Open opens a ledger, and brings its schema up to date. Its errors name the setting and the cure, and
// never the password.
func Open(ctx context.Context, config Config) (*Ledger, error) {
	at, err := parse(config.URL)
	if err != nil {
		return nil, err
	}
	if config.Connector != nil {
		at.file, at.reading = "", ""
	}
	l := &Ledger{
		dialect: at.dialect, window: cmp.Or(config.ResendWindow, ResendWindow), refunds: config.RefundWindow,
		catalog: config.Catalog, kind: Kind(config.URL), outbox: config.Outbox, audited: config.Audited,
		contents: config.Contents, jobAdded: make(chan struct{}, 1),
	}
	l.statements, l.commits = at.operation("statements"), at.operation("commit")
	l.available.logger = cmp.Or(config.Logger, slog.New(slog.DiscardHandler))
	if err := l.open(ctx, at, config); err != nil {
		_ = l.Close() // the first error says more
		return nil, withSetting(ctx, err)
	}
	return l, nil
}

// open takes the file of SQLite for this process, brings the schema up to date, and opens the pools.
func (l *Ledger) open(ctx context.Context, at place, config Config) error {
	if err := l.take(at.file); err != nil {
		return err
	}
	db, err := at.open(at.writing, at.conns, config.Connector)
	if err != nil {
		return unusable(err)
	}
	l.writes, l.reads = db, db
	if _, err := l.migrate(ctx, at); err != nil {
		return err
	}
	if err := l.recognize(ctx); err != nil {
		return unusable(err)
	}
	if at.reading != "" {
		if l.reads, err = at.open(at.reading, sqliteReaders, nil); err != nil {
			return unusable(err)
		}
	}
	if !l.IsDurable() { // its journal is deleted with its orders
		if _, err := db.ExecContext(ctx, `DROP TRIGGER movements_kept`); err != nil {
			return unusable(err)
		}
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
		cure := "path"
		if errors.Is(err, os.ErrPermission) {
			cure = "rights"
		}
		return &refusal{cures[cure], err}
	}
	if file, err = filepath.EvalSymlinks(file); err != nil { // SQLite names the others after the file itself
		return &refusal{cures["path"], errors.Join(err, made.Close())}
	}
	for _, part := range []string{"", "-wal", "-shm"} { // these stay where a process was killed
		_ = os.Chmod(file+part, fileMode) // of one that is another user's the start warns
	}
	if err := made.Close(); err != nil {
		return &refusal{cures["disk"], err}
	}
	lock, err := os.OpenFile(file+".lock", os.O_CREATE|os.O_RDWR, fileMode) //nolint:gosec // the operator names it
	if err != nil {
		return &refusal{cures["path"], err}
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		cure := "path"
		if errors.Is(err, syscall.EWOULDBLOCK) {
			cure = "busy"
		}
		return &refusal{cures[cure], fmt.Errorf("lock %s: %w", lock.Name(), err)}
	}
	l.lock = lock
	return nil
}

// fileMode is that of a ledger's file: prompts and money stand in it.
const fileMode = 0o600

// withSetting names the setting in an error that does not: a connection may break at any time.
func withSetting(ctx context.Context, err error) error {
	if ctx.Err() != nil || strings.Contains(err.Error(), "EASEL_LEDGER_URL") {
		return err
	}
	return &refusal{"the database does not answer: start Easel again when it does", err}
}

// Close closes the ledger.
func (l *Ledger) Close() (err error) {
	for _, db := range []*pool{l.reads, l.writes} {
		if db != nil {
			err = errors.Join(err, db.Close())
		}
	}
	if l.lock != nil {
		if closed := l.lock.Close(); !errors.Is(closed, os.ErrClosed) { // a second Close is harmless
			err = errors.Join(err, closed)
		}
	}
	return err
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
	err = l.tx(ctx, func(tx *transaction) error {
		if _, err := tx.exec(`INSERT INTO facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`, name, value); err != nil {
			return err
		}
		return tx.row([]any{&tied}, `SELECT value FROM facts WHERE name = $1`, name)
	})
	return tied, err
}

// Outbox has the owners that are notified of events, and the data of the events. Every event is written. It is delivered if the
// process that writes it knows a receiver of its owner. The functions are called within transactions: none may use the ledger
// or wait.
type Outbox struct {
	// Teams are the owners that this process knows, by name.
	Teams func() map[string]Team
	// Generation is the data of an event about the generation of an order, as JSON. Text is that of its result,
	// where it has one.
	Generation func(o Order, text *string) string
	// Budget is the data of an event about a budget, as JSON.
	Budget func(Budget) string
}

// Team is what a process knows of an owner.
type Team struct {
	Limits     Limits
	Subscribed bool          // of events
	Retention  time.Duration // after which what names content is erased; 0 is never
	// KeepDeleted means that the copy of a result stays which the owner deletes in the catalog.
	KeepDeleted bool
}

// teams are the owners that this process knows.
func (l *Ledger) teams() map[string]Team {
	if l.outbox == nil {
		return nil
	}
	return l.outbox.Teams()
}

// IsSubscriber reports whether this process knows that an owner is told of events.
func (l *Ledger) IsSubscriber(owner string) bool { return l.teams()[owner].Subscribed }
