package ledger

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Names of the facts about copying a ledger. A fact is a row of the table facts.
const (
	copiedFact = "copied_time" // time when the ledger became a copy
	sealedFact = "sealed_time" // time when the ledger was copied into another one
)

// Names of the facts about the store that contains copies of results.
const (
	storeFact   = "store"        // name of this ledger in the store
	formerFact  = "store until " // prefix of the facts that contain earlier names; the time when the name was replaced follows
	adoptedFact = "adopted_time" // time when an operator adopted the results that were copied under earlier names
)

// numberFact returns a fact that is a number, or zero if it is missing.
func numberFact(ctx context.Context, db querier, name string) (number int64, err error) {
	err = db.QueryRowContext(ctx, `SELECT CAST(value AS BIGINT) FROM facts WHERE name = $1`, name).Scan(&number)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return number, err
}

// timeFact returns a fact that is a time, or zero if it is missing.
func timeFact(ctx context.Context, db querier, name string) (time.Time, error) {
	number, err := numberFact(ctx, db, name)
	return fromMicros(number), err
}

// tie stores a fact if the fact has no value yet. It returns the stored value.
func (l *Ledger) tie(ctx context.Context, name, value string) (tied string, err error) {
	err = l.tx(ctx, func(tx *transaction) error {
		if _, err := tx.exec(`INSERT INTO facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`, name, value); err != nil {
			return err
		}
		return tx.row([]any{&tied}, `SELECT value FROM facts WHERE name = $1`, name)
	})
	return tied, err
}
