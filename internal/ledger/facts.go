package ledger

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Keys of the facts table, which contains named values. Each value is called a fact. If a ledger was copied, or restored from
// a backup, there are two ledgers with the same orders: the original and the copy. These facts distinguish them.
const (
	copiedFact = "copied_time" // key in a copy's facts table: the time when the ledger was marked as a copy of an original ledger
	sealedFact = "sealed_time" // key in a sealed original's facts table: the time when it was sealed, after it was copied into another ledger
)

// Keys of the facts table for values about the store for copies of results.
const (
	storeFact   = "store"        // key in the facts table for the ledger's current name in the store for copies of results
	formerFact  = "store until " // prefix of the keys in the facts table for the ledger's former names; each key ends with the time when the name was replaced
	adoptedFact = "adopted_time" // key in the facts table for the time when an operator adopted the copies under the ledger's earlier names
)

// numberFact returns a value of the facts table as a number, or zero if the table has no row with the given name.
func numberFact(ctx context.Context, db querier, name string) (number int64, err error) {
	err = db.QueryRowContext(ctx, `SELECT CAST(value AS BIGINT) FROM facts WHERE name = $1`, name).Scan(&number)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return number, err
}

// timeFact returns a value of the facts table as a time, or the zero time if the table has no row with the given
// name.
func timeFact(ctx context.Context, db querier, name string) (time.Time, error) {
	number, err := numberFact(ctx, db, name)
	return fromMicros(number), err
}

// storeOnce stores a named value in the facts table, unless the name already has a value. It returns the stored value.
func (l *Ledger) storeOnce(ctx context.Context, name, value string) (tied string, err error) {
	err = l.runTx(ctx, func(tx *transaction) error {
		if _, err := tx.exec(`INSERT INTO facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`, name, value); err != nil {
			return err
		}
		return tx.scanRow([]any{&tied}, `SELECT value FROM facts WHERE name = $1`, name)
	})
	return tied, err
}
