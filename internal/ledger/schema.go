package ledger

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
)

//go:embed migrations
var migrationFiles embed.FS

// The facts about the schema of a ledger.
const (
	schemaFact = "schema"        // number of the latest migration
	neededFact = "needed_schema" // number of the oldest schema that a program must know to use the ledger
)

// migrations returns the files that change the schema, the first one first. The name of a file begins with its number.
func (d dialect) migrations() ([]string, error) {
	dir := path.Join("migrations", string(d.kind))
	entries, err := migrationFiles.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	files := make([]string, len(entries))
	for _, entry := range entries {
		number, _, _ := strings.Cut(entry.Name(), "_")
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > len(files) || files[n-1] != "" {
			return nil, fmt.Errorf("migrations: file %s out of order", entry.Name())
		}
		files[n-1] = path.Join(dir, entry.Name())
	}
	return files, nil
}

// migrate applies the migrations that the ledger does not have yet, and returns their names. On PostgreSQL it uses a
// connection without the timeouts of the others, because filling an index may take long.
func (l *Ledger) migrate(ctx context.Context, at place) (applied []string, err error) {
	files, err := at.migrations()
	if err != nil {
		return nil, err
	}
	version, err := schemaVersion(ctx, at.dialect, l.writes)
	if err == nil && version < int64(len(files)) {
		applied, err = l.applyMigrations(ctx, at, files)
	}
	if err != nil {
		return nil, unusable(err)
	}
	return applied, compatible(ctx, l.writes, int64(len(files)))
}

// applyMigrations applies the missing migrations in one transaction.
func (l *Ledger) applyMigrations(ctx context.Context, at place, files []string) (applied []string, err error) {
	db := l.writes
	if at.migrating != "" {
		if db, err = at.open(at.migrating, 1, nil); err != nil {
			return nil, err
		}
		defer func() { _ = db.Close() }() // the commit has returned
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if at.migrationLock != "" {
		if _, err := tx.ExecContext(ctx, at.migrationLock); err != nil {
			return nil, err
		}
	}
	version, err := schemaVersion(ctx, at.dialect, tx) // another replica may have migrated before the lock was acquired
	for n := version; err == nil && n < int64(len(files)); n++ {
		applied = append(applied, strings.TrimSuffix(path.Base(files[n]), ".sql"))
		err = applyMigration(ctx, tx, files[n], n+1)
	}
	if err != nil {
		return nil, err
	}
	return applied, tx.Commit()
}

func applyMigration(ctx context.Context, tx *sql.Tx, file string, number int64) error {
	text, err := migrationFiles.ReadFile(file)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, string(text)); err != nil {
		return err
	}
	return note(ctx, tx, schemaFact, strconv.FormatInt(number, 10))
}

// schemaVersion returns the number of the latest migration of a ledger. Zero means that the database has no ledger.
func schemaVersion(ctx context.Context, d dialect, db querier) (version int64, err error) {
	exists := false
	if err := db.QueryRowContext(ctx, d.hasFacts).Scan(&exists); err != nil || !exists {
		return 0, err
	}
	return numberFact(ctx, db, schemaFact)
}

// numberFact returns a fact that is a number, zero if it is missing.
func numberFact(ctx context.Context, db querier, name string) (number int64, err error) {
	text, err := factOf(ctx, db, name)
	if err != nil || text == "" {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// compatible rejects a ledger that a later release has changed so that this one cannot use it.
func compatible(ctx context.Context, db querier, known int64) error {
	needed, err := numberFact(ctx, db, neededFact)
	if err == nil && needed > known {
		return fmt.Errorf("EASEL_LEDGER_URL: a later Easel has changed this ledger so that this one can't read it (it needs schema %d, and this one knows %d): install the later one again", needed, known)
	}
	return unusable(err)
}

// version returns the number of the schema. It rejects a database without a ledger.
func (l *Ledger) version(ctx context.Context) (version int64, err error) {
	version, err = schemaVersion(ctx, l.dialect, l.reads)
	if err == nil && version == 0 {
		return 0, &refusal{"there is no ledger here: name the one that a server has used", errors.New("no schema")}
	}
	return version, unusable(err)
}

// isCurrent rejects a database without a ledger, and a ledger with the schema of an earlier release.
func (l *Ledger) isCurrent(ctx context.Context) error {
	have, err := l.version(ctx)
	if err != nil {
		return err
	}
	files, err := l.dialect.migrations()
	if err == nil && have < int64(len(files)) {
		err = fmt.Errorf("EASEL_LEDGER_URL: the schema of this ledger is of an older Easel (%d, and this one has %d): run easel ledger migrate, or start this Easel on it once", have, len(files))
	}
	return err
}
