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
	"syscall"
	"time"
)

// ResendWindow is the default of [Config.ResendWindow]. It should not exceed the time for which the catalog remembers an
// idempotency key, but this time is unknown.
const ResendWindow = 12 * time.Hour

// Config is the configuration of a ledger.
type Config struct {
	// URL is [InMemory], sqlite:FILE, or postgres://….
	URL string
	// Catalog is the base URL of the catalog. A ledger belongs to one catalog.
	Catalog string
	// ResendWindow is the time after the first attempt within which an order may be resent. The default is the constant
	// [ResendWindow].
	ResendWindow time.Duration
	// RefundWindow is the time after a failure within which a refund may arrive. Zero means that failures are settled immediately.
	RefundWindow time.Duration
	// Connector opens the connections to the database. If nil, the driver for the URL opens them. In both cases, the URL selects
	// the dialect.
	Connector driver.Connector
	// Events configures the events that the ledger records. If nil, it records no events.
	Events *EventConfig
	// Contents reports whether this process copies results to a store.
	Contents bool
	// Audited is called with each line of the audit log after the line is committed. It must not block or use the ledger. It
	// may be nil.
	Audited func(context.Context, AuditLine)
	// Logger logs outages of the database. Nil means that they are not logged.
	Logger *slog.Logger
}

// Open opens a ledger and updates its schema. Its errors name the setting and the remedy, and never contain the password.
func Open(ctx context.Context, config Config) (*Ledger, error) {
	at, err := parseURL(config.URL)
	if err != nil {
		return nil, err
	}
	if config.Connector != nil {
		at.file, at.reading = "", ""
	}
	l := &Ledger{
		dialect: at.dialect, window: cmp.Or(config.ResendWindow, ResendWindow), refunds: config.RefundWindow,
		catalog: config.Catalog, kind: Kind(config.URL), events: config.Events, audited: config.Audited,
		contents: config.Contents, jobAdded: make(chan struct{}, 1),
	}
	l.statements, l.commits = newOperation(at.system, "statements"), newOperation(at.system, "commit")
	l.available.logger = cmp.Or(config.Logger, slog.New(slog.DiscardHandler))
	if err := l.open(ctx, at, config); err != nil {
		_ = l.Close() // the first error is more specific than an error from Close
		return nil, withSetting(ctx, err)
	}
	return l, nil
}

// open locks a SQLite file for this process, updates the schema, and opens the pools.
func (l *Ledger) open(ctx context.Context, at location, config Config) error {
	if err := l.lockFile(at.file); err != nil {
		return err
	}
	db, err := at.open(at.writing, at.conns, config.Connector)
	if err != nil {
		return addRemedy(err)
	}
	l.writes, l.reads = db, db
	if _, err := l.migrate(ctx); err != nil {
		return err
	}
	if err := l.detectRestore(ctx); err != nil {
		return addRemedy(err)
	}
	if at.reading != "" {
		if l.reads, err = at.open(at.reading, sqliteReaders, nil); err != nil {
			return addRemedy(err)
		}
	}
	if !l.IsDurable() { // an in-memory ledger also deletes the journal entries of old orders, which the trigger would prevent
		if _, err := db.ExecContext(ctx, `DROP TRIGGER movements_kept`); err != nil {
			return addRemedy(err)
		}
	}
	return l.tieToCatalog(ctx, config.Catalog)
}

// lockFile locks a SQLite file for this process, and makes it readable only by this user. If another process has locked it, the
// error contains the name of the lock file.
func (l *Ledger) lockFile(file string) error {
	if file == "" {
		return nil
	}
	made, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, fileMode) //nolint:gosec // the operator may choose any path
	if err != nil {
		cure := "path"
		if errors.Is(err, os.ErrPermission) {
			cure = "rights"
		}
		return &refusal{remedies[cure], err}
	}
	if file, err = filepath.EvalSymlinks(file); err != nil { // SQLite names -wal and -shm after the target of a symbolic link
		return &refusal{remedies["path"], errors.Join(err, made.Close())}
	}
	for _, part := range []string{"", "-wal", "-shm"} { // the -wal and -shm files remain if a process was killed
		_ = os.Chmod(file+part, fileMode) // fails if another user owns the file
	}
	if err := made.Close(); err != nil {
		return &refusal{remedies["disk"], err}
	}
	lock, err := os.OpenFile(file+".lock", os.O_CREATE|os.O_RDWR, fileMode) //nolint:gosec // the operator may choose any path
	if err != nil {
		return &refusal{remedies["path"], err}
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		cure := "path"
		if errors.Is(err, syscall.EWOULDBLOCK) {
			cure = "busy"
		}
		return &refusal{remedies[cure], fmt.Errorf("lock %s: %w", lock.Name(), err)}
	}
	l.lock = lock
	return nil
}

// fileMode is the mode of a ledger's files, which contain prompts and amounts of money.
const fileMode = 0o600

// withSetting adds the name EASEL_LEDGER_URL to an error that does not contain it, unless ctx is done. It is used for every
// step of opening a ledger, because a connection can fail at any step.
func withSetting(ctx context.Context, err error) error {
	if ctx.Err() != nil || strings.Contains(err.Error(), "EASEL_LEDGER_URL") {
		return err
	}
	return &refusal{"database unavailable: start Easel again when it is available", err}
}

// tieToCatalog ties the ledger to a catalog. It returns an error if the ledger belongs to another catalog.
func (l *Ledger) tieToCatalog(ctx context.Context, catalog string) error {
	tied, err := l.storeOnce(ctx, "catalog", catalog)
	if err == nil && tied != catalog {
		return fmt.Errorf("EASEL_LEDGER_URL: this ledger belongs to the catalog at %s, but EASEL_UPSTREAM_URL is %s; use a separate ledger for each catalog", tied, catalog)
	}
	return err
}

// BelongsTo ties the ledger to the account of the shared API key. It returns false if the ledger belongs to another account. It
// stores only a digest of the account's ID.
func (l *Ledger) BelongsTo(ctx context.Context, account string) (bool, error) {
	sum := sha256.Sum256([]byte(account))
	digest := hex.EncodeToString(sum[:])
	tied, err := l.storeOnce(ctx, "account", digest)
	return tied == digest, err
}
