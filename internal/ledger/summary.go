package ledger

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Summary is what the book has in sum.
type Summary struct {
	Owners []OwnerSummary // in the order of their names
	// Unknown is how many orders have no outcome yet, the oldest since OldestUnknown.
	Unknown       int64
	OldestUnknown time.Duration
	// Events are those of owners who are told.
	Events []EventSummary
}

// OwnerSummary is what the book has of an owner, of all its orders.
type OwnerSummary struct {
	Owner string
	// Orders have an id. Unknown have no outcome yet, the oldest since OldestUnknown.
	Orders, Unknown int64
	OldestUnknown   time.Duration
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
		if s.Owners, err = summarizeOwners(tx, now); err != nil {
			return err
		}
		if s.Events, err = l.summarizeEvents(tx); err != nil {
			return err
		}
		return summarizeUnknown(tx, &s, now)
	})
	return s, err
}

func summarizeOwners(tx *transaction, now int64) (all []OwnerSummary, err error) {
	periods := (Limits{}).periods(time.UnixMicro(now).UTC())
	rows, err := tx.rows(`SELECT owner,
		CAST(SUM(CASE WHEN period = 'month' THEN orders ELSE 0 END) AS BIGINT),
		CAST(SUM(CASE WHEN period = 'month' THEN spent_cents + refunded_cents ELSE 0 END) AS BIGINT),
		CAST(SUM(CASE WHEN period = 'month' THEN refunded_cents ELSE 0 END) AS BIGINT),
		CAST(SUM(CASE WHEN period = 'month' THEN reserved_cents ELSE 0 END) AS BIGINT),
		CAST(SUM(CASE WHEN period = 'month' THEN unconfirmed_cents ELSE 0 END) AS BIGINT),
		CAST(SUM(CASE WHEN period = 'day' AND start_time = $1 THEN spent_cents + reserved_cents ELSE 0 END) AS BIGINT),
		CAST(SUM(CASE WHEN period = 'month' AND start_time = $2 THEN spent_cents + reserved_cents ELSE 0 END) AS BIGINT)
		FROM budgets GROUP BY owner`, periods[0].start.UnixMicro(), periods[1].start.UnixMicro())
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err tells more
	for rows.Next() {
		var o OwnerSummary
		if err := rows.Scan(&o.Owner, &o.Orders, &o.SpentCents, &o.RefundedCents, &o.ReservedCents, &o.UnconfirmedCents, &o.DayCents, &o.MonthCents); err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b OwnerSummary) int { return strings.Compare(a.Owner, b.Owner) }) // databases differ in theirs
	return all, rows.Err()
}

// summarizeUnknown counts the orders of unknown outcome. The owner of one need not have a budget yet.
func summarizeUnknown(tx *transaction, s *Summary, now int64) error {
	rows, err := tx.rows(`SELECT owner, COUNT(*), MIN(order_time) FROM orders WHERE state = 1 GROUP BY owner`)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err tells more
	for rows.Next() {
		o, oldest := OwnerSummary{}, int64(0)
		if err := rows.Scan(&o.Owner, &o.Unknown, &oldest); err != nil {
			return err
		}
		o.OldestUnknown = time.Duration(now-oldest) * time.Microsecond
		s.Unknown += o.Unknown
		s.OldestUnknown = max(s.OldestUnknown, o.OldestUnknown)
		n, found := slices.BinarySearchFunc(s.Owners, o.Owner, func(o OwnerSummary, name string) int { return strings.Compare(o.Owner, name) })
		if !found {
			s.Owners = slices.Insert(s.Owners, n, o)
			continue
		}
		s.Owners[n].Unknown, s.Owners[n].OldestUnknown = o.Unknown, o.OldestUnknown
	}
	return rows.Err()
}
