package ledger

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// The table facts contains named values, each of which is called a fact. These facts record when the ledger was
// copied.
const (
	copiedFact = "copied_time" // name of the fact that stores the time when the ledger became a copy
	sealedFact = "sealed_time" // name of the fact that stores the time when the ledger was copied into another one
)

// Names of rows in the table facts that describe the store for copies of results.
const (
	storeFact   = "store"        // current name of this ledger in the store for copies of results
	formerFact  = "store until " // prefix of the names of facts that hold former values of storeFact; the rest of the name is the time when the value was replaced
	adoptedFact = "adopted_time" // time when an operator adopted the copies that are stored under this ledger's earlier names
)

// numberFact returns the value of a fact as a number, or zero if the fact is missing.
func numberFact(ctx context.Context, db querier, name string) (number int64, err error) {
	err = db.QueryRowContext(ctx, `SELECT CAST(value AS BIGINT) FROM facts WHERE name = $1`, name).Scan(&number)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return number, err
}

// timeFact returns the value of a fact as a time, or the zero time if the fact is missing.
func timeFact(ctx context.Context, db querier, name string) (time.Time, error) {
	number, err := numberFact(ctx, db, name)
	return fromMicros(number), err
}

// tie stores value under name in the table facts, unless the name already has a value. It returns the stored value.
func (l *Ledger) tie(ctx context.Context, name, value string) (tied string, err error) {
	err = l.tx(ctx, func(tx *transaction) error {
		if _, err := tx.exec(`INSERT INTO facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`, name, value); err != nil {
			return err
		}
		return tx.row([]any{&tied}, `SELECT value FROM facts WHERE name = $1`, name)
	})
	return tied, err
}
