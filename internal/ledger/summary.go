package ledger

import (
	"context"
	"time"
)

// Summary is what the book has in sum.
type Summary struct {
	Owners []OwnerSummary // in the order of their names
	// Unknown is how many orders have no outcome yet, the oldest since OldestUnknown.
	Unknown       int64
	OldestUnknown time.Duration
}

// OwnerSummary is the money of an owner, of all its orders.
type OwnerSummary struct {
	Owner string
	// SpentCents is gross: RefundedCents came back of it. UnconfirmedCents are within it.
	SpentCents, RefundedCents, ReservedCents, UnconfirmedCents int64
	// DayCents and MonthCents are what counts in the budgets of now.
	DayCents, MonthCents int64
}

// Summary reads the sums of the budgets, and no order that has an outcome.
func (l *Ledger) Summary(ctx context.Context) (s Summary, err error) {
	err = l.reading(ctx, func(tx *transaction) error {
		now, err := tx.now()
		if err != nil {
			return err
		}
		if err := summarizeUnknown(tx, &s, now); err != nil {
			return err
		}
		periods := (Limits{}).periods(time.UnixMicro(now).UTC())
		rows, err := tx.rows(`SELECT owner,
			CAST(SUM(CASE WHEN period = 'month' THEN spent_cents + refunded_cents ELSE 0 END) AS BIGINT),
			CAST(SUM(CASE WHEN period = 'month' THEN refunded_cents ELSE 0 END) AS BIGINT),
			CAST(SUM(CASE WHEN period = 'month' THEN reserved_cents ELSE 0 END) AS BIGINT),
			CAST(SUM(CASE WHEN period = 'month' THEN unconfirmed_cents ELSE 0 END) AS BIGINT),
			CAST(SUM(CASE WHEN period = 'day' AND start_time = $1 THEN spent_cents + reserved_cents ELSE 0 END) AS BIGINT),
			CAST(SUM(CASE WHEN period = 'month' AND start_time = $2 THEN spent_cents + reserved_cents ELSE 0 END) AS BIGINT)
			FROM budgets GROUP BY owner ORDER BY owner`, periods[0].start.UnixMicro(), periods[1].start.UnixMicro())
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }() // rows.Err tells more
		for rows.Next() {
			var o OwnerSummary
			if err := rows.Scan(&o.Owner, &o.SpentCents, &o.RefundedCents, &o.ReservedCents, &o.UnconfirmedCents, &o.DayCents, &o.MonthCents); err != nil {
				return err
			}
			s.Owners = append(s.Owners, o)
		}
		return rows.Err()
	})
	return s, err
}

// summarizeUnknown counts the orders of unknown outcome.
func summarizeUnknown(tx *transaction, s *Summary, now int64) error {
	oldest := int64(0)
	err := tx.row(`SELECT COUNT(*), CAST(COALESCE(MIN(order_time), 0) AS BIGINT) FROM orders WHERE state = 1`).Scan(&s.Unknown, &oldest)
	if s.Unknown > 0 {
		s.OldestUnknown = time.Duration(now-oldest) * time.Microsecond
	}
	return err
}
