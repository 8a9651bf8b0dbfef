package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// The facts of a ledger that is a copy, or that was copied.
const (
	copiedFact   = "copied_time" // time when the ledger became a copy
	databaseFact = "database"    // identity of the database of PostgreSQL that was opened last
	sealedFact   = "sealed_time" // time when the ledger was copied into another one
)

// CopyTime returns the time when the ledger became a copy of another one, zero if it is not a copy.
func (l *Ledger) CopyTime() time.Time { return l.copied }

// IsCopy reports whether the ledger is a copy of another one. The other ledger may have orders that this one never had, so
// a key without an order here may still have one.
func (l *Ledger) IsCopy() bool { return !l.copied.IsZero() }

// recognize marks a ledger that pg_restore has put into another database, and rejects a sealed ledger.
func (l *Ledger) recognize(ctx context.Context) error {
	return l.inTx(ctx, func(tx *sql.Tx) error {
		if err := l.compareDatabase(ctx, tx); err != nil {
			return err
		}
		sealed, err := timeFact(ctx, tx, sealedFact)
		if err == nil && !sealed.IsZero() {
			err = fmt.Errorf("EASEL_LEDGER_URL: this ledger was copied into another one on %s and is sealed: name the copy, or run easel ledger unseal if the copy is not used", sealed.Format(time.DateOnly))
		}
		if err == nil {
			l.copied, err = timeFact(ctx, tx, copiedFact)
		}
		return err
	})
}

// compareDatabase compares the database with the one that was opened last. Of several replicas that start, one writes the mark.
func (l *Ledger) compareDatabase(ctx context.Context, tx *sql.Tx) error {
	if !l.IsShared() {
		return nil
	}
	known, now := "", ""
	err := tx.QueryRowContext(ctx, `SELECT value, `+databaseIdentity+` FROM facts WHERE name = $1 FOR UPDATE`, databaseFact).Scan(&known, &now)
	if err == nil && known != now {
		_, err = l.markRestored(ctx, tx, By{Actor: "easel", Origin: "database " + now}, ActRestored)
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) || known == now && now != "" {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO facts (name, value) SELECT $1, `+databaseIdentity+` ON CONFLICT (name) DO UPDATE SET value = excluded.value`, databaseFact)
	return err
}

// mark records that a ledger is a copy. Its open orders are held for their callers. Results are copied to a new place in the
// store, so that no copy of the other ledger is replaced.
func (l *Ledger) mark(ctx context.Context, tx querier) (held int64, err error) {
	for _, statement := range []string{
		`UPDATE facts SET name = '` + formerFact + `' || CAST({now} AS TEXT) WHERE name = '` + storeFact + `'`,
		`DELETE FROM facts WHERE name = '` + adoptedFact + `'`,
		`INSERT INTO facts (name, value) VALUES ('` + copiedFact + `', CAST({now} AS TEXT)) ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
	} {
		if _, err := tx.ExecContext(ctx, l.dialect.words.Replace(statement)); err != nil {
			return 0, err
		}
	}
	marked, err := tx.ExecContext(ctx, l.dialect.words.Replace(`UPDATE orders SET held = 1 WHERE state = {open}`))
	if err != nil {
		return 0, err
	}
	return marked.RowsAffected()
}

// markRestored writes the mark, and its line of the audit.
func (l *Ledger) markRestored(ctx context.Context, tx querier, by By, action Action) (held int64, err error) {
	if held, err = l.mark(ctx, tx); err != nil {
		return 0, err
	}
	return held, l.addLine(ctx, tx, Act{By: by, Action: action, Became: struct {
		Held int64 `json:"held"`
	}{held}})
}

// Restored marks a ledger that was restored from a snapshot, a file or a log, and that no process uses. It returns the number
// of orders that are held.
func Restored(ctx context.Context, url string, by By) (held int64, err error) {
	err = changeUnused(ctx, url, func(l *Ledger, tx *sql.Tx) error {
		held, err = l.markRestored(ctx, tx, by, ActRestored)
		return err
	})
	return held, err
}

// Unseal allows servers to use a ledger again that was copied into another one. The ledger counts as a copy from then on, as
// the other one may have been used. Unseal returns the number of orders that are held.
func Unseal(ctx context.Context, url string, by By) (held int64, err error) {
	err = changeUnused(ctx, url, func(l *Ledger, tx *sql.Tx) error {
		sealed, err := factOf(ctx, tx, sealedFact)
		if err != nil {
			return err
		}
		if sealed == "" {
			return errors.New("EASEL_LEDGER_URL: this ledger is not sealed")
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM facts WHERE name = $1`, sealedFact); err != nil {
			return err
		}
		if l.IsShared() {
			if _, err := tx.ExecContext(ctx, `DROP FUNCTION refuse_sealed CASCADE`); err != nil {
				return err
			}
		}
		held, err = l.markRestored(ctx, tx, by, ActUnseal)
		return err
	})
	return held, err
}

// seal keeps servers from using a ledger that was copied. In PostgreSQL a trigger stops a server that was cut off during the copy.
func (l *Ledger) seal(ctx context.Context, tx querier, by By) error {
	statements := []string{l.dialect.words.Replace(`INSERT INTO facts (name, value) VALUES ('` + sealedFact + `', CAST({now} AS TEXT))`)}
	if l.IsShared() {
		statements = append(statements, `CREATE FUNCTION refuse_sealed() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN RAISE EXCEPTION 'the ledger is sealed: it was copied into another one'; END $$`,
			`CREATE TRIGGER orders_sealed BEFORE INSERT OR UPDATE OR DELETE ON orders FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed()`)
	}
	for _, statement := range statements {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return l.addLine(ctx, tx, Act{By: by, Action: ActSeal})
}

// changeUnused changes a ledger that no process uses.
func changeUnused(ctx context.Context, url string, change func(*Ledger, *sql.Tx) error) error {
	l, err := openUnused(ctx, url)
	if err == nil {
		err = errors.Join(l.inTx(ctx, func(tx *sql.Tx) error { return change(l, tx) }), l.Close())
	}
	return unusable(err)
}

// timeFact returns a fact that is a time, zero if it is missing.
func timeFact(ctx context.Context, db querier, name string) (time.Time, error) {
	number, err := numberFact(ctx, db, name)
	return fromMicros(number), err
}
