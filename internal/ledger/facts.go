package ledger

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// The facts of a ledger that is a copy, or that was copied.
const (
	copiedFact = "copied_time" // time when the ledger became a copy
	sealedFact = "sealed_time" // time when the ledger was copied into another one
)

// The facts about the store of results.
const (
	storeFact   = "store"        // name of the ledger in the store
	formerFact  = "store until " // prefix of the facts of earlier names; each has the time when it was replaced
	adoptedFact = "adopted_time" // time when an operator allowed the deletion of results that were copied under earlier names
)

// numberFact returns a fact that is a number, zero if it is missing.
func numberFact(ctx context.Context, db querier, name string) (number int64, err error) {
	err = db.QueryRowContext(ctx, `SELECT CAST(value AS BIGINT) FROM facts WHERE name = $1`, name).Scan(&number)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return number, err
}

// timeFact returns a fact that is a time, zero if it is missing.
func timeFact(ctx context.Context, db querier, name string) (time.Time, error) {
	number, err := numberFact(ctx, db, name)
	return fromMicros(number), err
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
