package ledger

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

//go:embed migrations
var migrationFiles embed.FS

// Keys of the facts table for values about the schema of a ledger.
const (
	schemaFact = "schema"        // key in the facts table for the number of the latest migration
	neededFact = "needed_schema" // key in the facts table for the minimum schema number that a program must support to use the ledger
)

// migrations returns the paths of the migration files, in order. Each file name starts with the number of the migration.
func (d dialect) migrations() (files []string) {
	for {
		next, _ := fs.Glob(migrationFiles, fmt.Sprintf("migrations/%s/%d_*.sql", d.kind, len(files)+1)) // cannot fail, because the pattern is valid
		if len(next) == 0 {
			return files
		}
		files = append(files, next...)
	}
}

// migrate applies the migrations that the ledger does not have yet, and returns their names.
func (l *Ledger) migrate(ctx context.Context) (applied []string, err error) {
	files := l.dialect.migrations()
	version, err := schemaVersion(ctx, l.dialect, l.writes)
	if err == nil && version < int64(len(files)) {
		err = l.runOnce(ctx, l.writes, nil, func(tx *transaction) error {
			applied, err = tx.migrate(files)
			return err
		})
	}
	if err != nil {
		return nil, addRemedy(err)
	}
	return applied, checkCompatible(ctx, l.writes, int64(len(files)))
}

// migrate applies the migrations that are missing. Another replica may have applied some before this transaction acquired the
// lock.
func (t *transaction) migrate(files []string) (applied []string, err error) {
	if _, err := t.querier.ExecContext(t.ctx, t.l.dialect.migrationLock); err != nil {
		return nil, err
	}
	version, err := schemaVersion(t.ctx, t.l.dialect, t)
	for n := version; err == nil && n < int64(len(files)); n++ {
		applied = append(applied, strings.TrimSuffix(path.Base(files[n]), ".sql"))
		err = t.applyMigration(files[n], n+1)
	}
	return applied, err
}

// applyMigration applies a migration and records its number. The migration file contains several SQL statements, which are
// executed as they are, without replacing placeholders.
func (t *transaction) applyMigration(file string, number int64) error {
	text, err := migrationFiles.ReadFile(file)
	if err == nil {
		_, err = t.querier.ExecContext(t.ctx, string(text))
	}
	if err == nil {
		_, err = t.exec(`INSERT INTO facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, schemaFact, strconv.FormatInt(number, 10))
	}
	return err
}

// schemaVersion returns the number of the latest applied migration. Zero means that the database has no ledger.
func schemaVersion(ctx context.Context, d dialect, db querier) (version int64, err error) {
	exists := false
	if err := db.QueryRowContext(ctx, d.hasFacts).Scan(&exists); err != nil || !exists {
		return 0, err
	}
	return numberFact(ctx, db, schemaFact)
}

// checkCompatible returns an error if a later release has changed the ledger in a way that this release does not support.
func checkCompatible(ctx context.Context, db querier, known int64) error {
	needed, err := numberFact(ctx, db, neededFact)
	if err == nil && needed > known {
		return fmt.Errorf("EASEL_LEDGER_URL: this ledger was changed by a later version of Easel (it needs schema %d, but this version supports %d); use the later version", needed, known)
	}
	return addRemedy(err)
}

// version returns the schema number. It returns an error if the database has no ledger.
func (l *Ledger) version(ctx context.Context) (version int64, err error) {
	version, err = schemaVersion(ctx, l.dialect, l.reads)
	if err == nil && version == 0 {
		return 0, &refusal{"ledger not found: use the URL of an existing ledger", errors.New("no schema")}
	}
	return version, addRemedy(err)
}

// checkSchema returns nil if the database has a ledger with this release's schema, and otherwise an error. A ledger with a
// newer schema may have data that this release does not support.
func (l *Ledger) checkSchema(ctx context.Context) error {
	have, err := l.version(ctx)
	if err != nil {
		return err
	}
	known := int64(len(l.dialect.migrations()))
	if have > known {
		return fmt.Errorf("EASEL_LEDGER_URL: this ledger has the schema of a later version of Easel (%d, but this version has %d); use the later version", have, known)
	}
	if have < known {
		return fmt.Errorf("EASEL_LEDGER_URL: this ledger has the schema of an older version of Easel (%d, but this version has %d); run easel ledger migrate", have, known)
	}
	return nil
}
