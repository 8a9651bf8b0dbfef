package ledger

import (
	"context"
	"slices"
)

// stepRows is the maximum number of rows that one step of bulk work changes. Each step is a transaction, so an order waits for
// at most one step.
const stepRows = 100

// runSteps calls runStep repeatedly, each time in a new transaction, until a call changes fewer than [stepRows] rows. runStep
// changes rows in the order of their times, and returns these times. It must skip rows whose time is before startTime, which is
// zero in the first call, and then the latest time that the previous call returned. runSteps returns the number of changed
// rows, even if it also returns an error.
func (l *Ledger) runSteps(ctx context.Context, runStep func(tx *transaction, startTime int64) (times []int64, err error)) (rows int, err error) {
	for startTime := int64(0); ; {
		var times []int64
		err = l.runTx(ctx, func(tx *transaction) (err error) {
			times, err = runStep(tx, startTime)
			return err
		})
		if err != nil {
			return rows, err
		}
		if rows += len(times); len(times) < stepRows {
			return rows, nil
		}
		startTime = slices.Max(times)
	}
}

// ownersQuery returns an SQL query for the distinct owners of the rows in a table that match a condition. The query uses an
// index to skip from one owner to the next. The caller may append a condition on each_of.owner to the query.
func ownersQuery(table, condition string) string {
	least := `SELECT MIN(owner) FROM ` + table + ` WHERE ` + condition
	return `WITH RECURSIVE each_of (owner) AS (` + least + `
		UNION ALL SELECT (` + least + ` AND owner > each_of.owner) FROM each_of WHERE each_of.owner IS NOT NULL)
		SELECT owner FROM each_of WHERE owner IS NOT NULL`
}
