package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// parseDurable parses the URL of a ledger. It returns an error if the ledger is in memory.
func parseDurable(url string) (location, error) {
	at, err := parseURL(url)
	if err == nil && !IsDurable(url) {
		err = errors.New("EASEL_LEDGER_URL: a ledger in memory is only visible to its own process; use sqlite:FILE or postgres://…")
	}
	return at, err
}

// parseExisting parses the URL of a durable ledger. It rejects a SQLite file that does not exist, because opening the file
// would create it.
func parseExisting(url string) (location, error) {
	at, err := parseDurable(url)
	if err != nil || at.file == "" {
		return at, err
	}
	if _, err := os.Stat(at.file); err != nil {
		return at, &refusal{remedies["path"], err}
	}
	return at, nil
}

// openOne opens a ledger for a command, with one connection and without timeouts.
func openOne(at location, dsn string) (*Ledger, error) {
	db, err := at.open(cmp.Or(at.offline, dsn), 1, nil)
	if err != nil {
		return nil, addRemedy(err)
	}
	return &Ledger{dialect: at.dialect, window: ResendWindow, kind: string(at.kind), writes: db, reads: db}, nil
}

// openOffline opens a ledger for a command that needs it exclusively. It locks a SQLite file, so that no server can use it. It
// does not lock a PostgreSQL database; [Ledger.checkIdle] checks whether other clients use it.
func openOffline(at location) (*Ledger, error) {
	l, err := openOne(at, at.writing)
	if err == nil {
		if err = l.lockFile(at.file); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	return l, err
}

// openUnused opens a ledger. It returns an error if another process uses the ledger, or if the schema of the ledger differs
// from this release's schema.
func openUnused(ctx context.Context, url string) (*Ledger, error) {
	at, err := parseExisting(url)
	if err != nil {
		return nil, err
	}
	l, err := openOffline(at)
	if err != nil {
		return nil, err
	}
	for _, check := range []func(context.Context) error{l.checkIdle, l.checkSchema} {
		if err := check(ctx); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	return l, nil
}

// OpenReadOnly opens a ledger for reading, even while servers use it. It returns an error if the schema of the ledger differs
// from this release's schema.
func OpenReadOnly(ctx context.Context, url string) (*Ledger, error) {
	at, err := parseExisting(url)
	if err != nil {
		return nil, err
	}
	l, err := openOne(at, at.reading)
	if err != nil {
		return nil, err
	}
	if err := l.checkSchema(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// changeUnused changes a ledger in one transaction. It returns an error if another process uses the ledger.
func changeUnused(ctx context.Context, url string, change func(*transaction) error) error {
	l, err := openUnused(ctx, url)
	if err == nil {
		err = errors.Join(l.runOnce(ctx, l.writes, nil, change), l.Close())
	}
	return addRemedy(err)
}

// idleWithin is the maximum time to wait for the sessions of a stopped server to close. idleAgain is the interval between
// checks.
const idleWithin, idleAgain = 3 * time.Second, 100 * time.Millisecond

// checkIdle returns an error if a PostgreSQL database still has other client connections after idleWithin.
func (l *Ledger) checkIdle(ctx context.Context) error {
	if !l.IsShared() {
		return nil
	}
	for end := time.Now().Add(idleWithin); ; {
		others, who := 0, ""
		err := l.reads.QueryRowContext(ctx, `SELECT COUNT(*), COALESCE(MIN(usename || ' from ' || COALESCE(host(client_addr), 'this host')), '') FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`).Scan(&others, &who)
		switch {
		case err != nil || others == 0:
			return addRemedy(err)
		case time.Now().After(end):
			return fmt.Errorf("EASEL_LEDGER_URL: the ledger is in use by %d other connections (user %s); stop the servers that use it", others, who)
		}
		select {
		case <-time.After(idleAgain):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Migrate updates the schema of a ledger. Operators use it if the servers' database user has no permission to change tables.
// Replicas may use the ledger while Migrate runs. Migrate returns the schema number and the names of the applied migrations.
// actor is recorded in the audit log.
func Migrate(ctx context.Context, url string, actor By) (version int64, applied []string, err error) {
	at, err := parseDurable(url)
	if err != nil {
		return 0, nil, err
	}
	l, err := openOffline(at)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = l.Close() }() // an error does not matter, because either all changes are committed or Migrate has failed
	before, err := schemaVersion(ctx, l.dialect, l.reads)
	if err == nil {
		applied, err = l.migrate(ctx)
	}
	if err != nil {
		return 0, nil, withSetting(ctx, addRemedy(err))
	}
	version, err = l.version(ctx)
	if err == nil && len(applied) > 0 {
		err = l.Audit(ctx, Act{By: actor, Action: ActMigrate, Was: schema{before}, Became: schema{version}})
	}
	return version, applied, err
}

// schema is the JSON form of a schema number in the audit log.
type schema struct {
	Schema int64 `json:"schema"`
}

// Backup writes a copy of a SQLite ledger into a new file, and compares the amounts in the copy with the copy's journal. It
// passes each difference to handleDifference. The new ledger is marked as a copy, so its open orders are on hold. A server may
// use the original ledger at the same time.
func Backup(ctx context.Context, url, file string, handleDifference func(Difference)) (looked Verified, err error) {
	at, err := parseExisting(url)
	if err != nil {
		return looked, err
	}
	if at.file == "" {
		return looked, errors.New("EASEL_LEDGER_URL: backup supports only SQLite; use pg_dump --format=custom --file=FILE DATABASE, and pg_restore")
	}
	if _, err := os.Lstat(file); err == nil {
		return looked, fmt.Errorf("%s already exists; use a new file", file)
	}
	dir, err := os.MkdirTemp(filepath.Dir(file), ".easel-backup-") // accessible only to this user
	if err != nil {
		return looked, fmt.Errorf("create backup directory: %w; make sure that this user can write there", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // removes only temporary files, because the finished backup is outside this directory
	part := filepath.Join(dir, "ledger.db")
	if err := vacuumInto(ctx, at, part); err != nil {
		return looked, err
	}
	if looked, err = Verify(ctx, "sqlite:"+part, handleDifference); err != nil {
		return looked, err
	}
	if err := changeUnused(ctx, "sqlite:"+part, func(tx *transaction) error {
		_, err := tx.markAsCopy()
		return err
	}); err != nil {
		return looked, err
	}
	if err := errors.Join(syncToDisk(part), os.Link(part, file)); err != nil { // unlike a rename, a link never replaces a file
		return looked, fmt.Errorf("move the finished backup to its final name: %w", err)
	}
	return looked, syncToDisk(filepath.Dir(file))
}

// vacuumInto copies a consistent snapshot of a SQLite file to a new file.
func vacuumInto(ctx context.Context, at location, part string) error {
	if err := os.WriteFile(part, nil, fileMode); err != nil {
		return err
	}
	db, err := at.open(at.reading, 1, nil)
	if err != nil {
		return addRemedy(err)
	}
	defer func() { _ = db.Close() }()                                        // an error does not matter, because the connection does not change the ledger
	if _, err := db.ExecContext(ctx, `PRAGMA query_only(OFF)`); err != nil { // query_only would also prevent VACUUM INTO from writing the new file
		return addRemedy(err)
	}
	_, err = db.ExecContext(ctx, `VACUUM INTO $1`, part)
	return addRemedy(err)
}

// syncToDisk flushes a file or directory to disk.
func syncToDisk(path string) error {
	f, err := os.Open(path) //nolint:gosec // the operator chooses the path
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
