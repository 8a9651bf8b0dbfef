// Package ledger stores orders in an SQL database: the caller, the idempotency key, the price and the outcome of each
// order.
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

// ResendWindow is the default resend window. The time for which the catalog remembers an idempotency key is unknown.
const ResendWindow = 12 * time.Hour

// Config is the configuration of a ledger.
type Config struct {
	// URL is [InMemory], sqlite:FILE, or postgres://….
	URL string
	// Catalog is the base URL of the catalog. A ledger belongs to one catalog.
	Catalog string
	// ResendWindow is the time after the first attempt in which an order may be resent. Zero means [ResendWindow].
	ResendWindow time.Duration
	// RefundWindow is the time after a failure in which a refund may arrive. Zero settles failures immediately.
	RefundWindow time.Duration
	// Connector connects to the database in place of the driver. The URL selects the dialect. If nil, the driver
	// connects.
	Connector driver.Connector
	// Outbox has the owners that are notified of events. If nil, no events are stored.
	Outbox *Outbox
	// Contents means that results are copied.
	Contents bool
	// Audited is called with each line of the audit after its commit. It must not block or use the ledger. It may be nil.
	Audited func(context.Context, AuditLine)
	// Logger logs outages of the database. Nil discards them.
	Logger *slog.Logger
}

// Ledger stores orders. All its times are read from the database's clock.
type Ledger struct {
	dialect  dialect
	writes   *pool
	reads    *pool         // pool for queries outside transactions; equal to writes, except for a SQLite file
	lock     *os.File      // the locked file next to a file of SQLite; otherwise nil
	window   time.Duration // time in which an order may be resent
	refunds  time.Duration // time after a failure in which a refund may arrive
	catalog  string
	kind     string // see [Kind]
	outbox   *Outbox
	audited  func(context.Context, AuditLine) // see [Config]
	jobAdded chan struct{}                    // has a value after a job was written
	contents bool                             // whether results are copied
	copied   time.Time                        // see [Ledger.CopyTime]

	statements, commits operation

	available availability

	// Counts has the counters of this process since its start.
	Counts Counts
	// AccountUnknown is set until the account of a shared API key is known to be the account of the ledger: see
	// [Ledger.BelongsTo]. No order is sent while it is set.
	AccountUnknown atomic.Bool
}

// Counts has counters for operators.
type Counts struct {
	Faults atomic.Int64 // contradictions about an order
	Dearer atomic.Int64 // charges above the quote
}

// IsDurable reports whether the ledger outlives its process. An order that a durable ledger lacks was never placed.
func (l *Ledger) IsDurable() bool { return IsDurable(l.kind) }

// IsShared reports whether several processes may use the ledger concurrently.
func (l *Ledger) IsShared() bool { return l.dialect.kind == postgresKind }

// Open opens a ledger, and brings its schema up to date. Its errors name the setting and the remedy, and never contain
// the password.
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
		_ = l.Close() // the first error is more specific
		return nil, withSetting(ctx, err)
	}
	return l, nil
}

// open locks the SQLite file for this process, brings the schema up to date, and opens the pools.
func (l *Ledger) open(ctx context.Context, at place, config Config) error {
	if err := l.take(at.file); err != nil {
		return err
	}
	db, err := at.open(at.writing, at.conns, config.Connector)
	if err != nil {
		return unusable(err)
	}
	l.writes, l.reads = db, db
	if _, err := l.migrate(ctx); err != nil {
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

// take locks a SQLite file for this process, and makes it readable only by this user. A second process gets an error that
// names the lock file.
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
	if file, err = filepath.EvalSymlinks(file); err != nil { // SQLite derives other names from the target
		return &refusal{cures["path"], errors.Join(err, made.Close())}
	}
	for _, part := range []string{"", "-wal", "-shm"} { // these remain after a process was killed
		_ = os.Chmod(file+part, fileMode) // startup warns about another user's file
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

// fileMode is the mode of a ledger's file, which contains prompts and money.
const fileMode = 0o600

// withSetting adds the setting to an error that lacks it, because a connection can break at any time.
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

// belong binds the ledger to a catalog, or rejects a ledger that belongs to another catalog.
func (l *Ledger) belong(ctx context.Context, catalog string) error {
	tied, err := l.tie(ctx, "catalog", catalog)
	if err == nil && tied != catalog {
		return fmt.Errorf("EASEL_LEDGER_URL: this ledger belongs to the catalog at %s, and EASEL_UPSTREAM_URL is %s: use a separate ledger for each catalog", tied, catalog)
	}
	return err
}

// BelongsTo binds the ledger to the account of a shared API key, and reports whether it belongs to that account. It
// stores the digest of the account's name.
func (l *Ledger) BelongsTo(ctx context.Context, account string) (bool, error) {
	sum := sha256.Sum256([]byte(account))
	digest := hex.EncodeToString(sum[:])
	tied, err := l.tie(ctx, "account", digest)
	return tied == digest, err
}

// tie stores a fact, unless the name has a value already, and returns the stored value.
func (l *Ledger) tie(ctx context.Context, name, value string) (tied string, err error) {
	err = l.tx(ctx, func(tx *transaction) error {
		if _, err := tx.exec(`INSERT INTO facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`, name, value); err != nil {
			return err
		}
		return tx.row([]any{&tied}, `SELECT value FROM facts WHERE name = $1`, name)
	})
	return tied, err
}

// Outbox has the owners that are notified of events, and the data of the events. Every event is written. It is delivered
// if the process that writes it knows a receiver of its owner. The functions are called within transactions, so they must
// not use the ledger or block.
type Outbox struct {
	// Teams are the owners that this process knows, by name.
	Teams func() map[string]Team
	// Generation returns the data of an event about the generation of an order, as JSON. text is the text of the result,
	// or nil.
	Generation func(o Order, text *string) string
	// Budget returns the data of an event about a budget, as JSON.
	Budget func(Budget) string
}

// Team is the configuration of an owner in this process.
type Team struct {
	Limits     Limits
	Subscribed bool          // whether it receives events
	Retention  time.Duration // time after which content is erased; zero means never
	// KeepDeleted means that the copy of a result is kept when the owner deletes the generation in the catalog.
	KeepDeleted bool
}

// teams returns the owners that this process knows.
func (l *Ledger) teams() map[string]Team {
	if l.outbox == nil {
		return nil
	}
	return l.outbox.Teams()
}

// IsSubscriber reports whether this process knows a receiver of events of an owner.
func (l *Ledger) IsSubscriber(owner string) bool { return l.teams()[owner].Subscribed }
