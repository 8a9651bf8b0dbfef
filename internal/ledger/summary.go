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

// OwnerSummary is what the book has of an owner, of all its orders: none where this process alone knows of it.
type OwnerSummary struct {
	Owner string
	// Orders have an id. Unknown have no outcome yet, the oldest since OldestUnknown.
	Orders, Unknown int64
	OldestUnknown   time.Duration
	// SpentCents is gross: RefundedCents came back of it. UnconfirmedCents are within it.
	SpentCents, RefundedCents, ReservedCents, UnconfirmedCents int64
	// Budgets are those of now that have a limit, as far as this process knows.
	Budgets []Budget
}

// Summary reads the sums of the budgets, and no order that has an outcome.
func (l *Ledger) Summary(ctx context.Context) (s Summary, err error) {
	err = l.reading(ctx, func(tx *transaction) error {
		now, err := tx.now()
		if err != nil {
			return err
		}
		if s.Owners, err = l.summarizeOwners(tx); err != nil {
			return err
		}
		if err := l.summarizeBudgets(tx, s.Owners, time.UnixMicro(now).UTC()); err != nil {
			return err
		}
		if s.Events, err = l.summarizeEvents(tx); err != nil {
			return err
		}
		return summarizeUnknown(tx, &s, now)
	})
	return s, err
}

func (l *Ledger) summarizeOwners(tx *transaction) (all []OwnerSummary, err error) {
	rows, err := tx.rows(`SELECT owner, CAST(SUM(orders) AS BIGINT), CAST(SUM(spent_cents + refunded_cents) AS BIGINT), CAST(SUM(refunded_cents) AS BIGINT),
		CAST(SUM(reserved_cents) AS BIGINT), CAST(SUM(unconfirmed_cents) AS BIGINT) FROM budgets WHERE period = 'month' GROUP BY owner`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err tells more
	for rows.Next() {
		var o OwnerSummary
		if err := rows.Scan(&o.Owner, &o.Orders, &o.SpentCents, &o.RefundedCents, &o.ReservedCents, &o.UnconfirmedCents); err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	for name := range l.teams() {
		if !slices.ContainsFunc(all, func(o OwnerSummary) bool { return o.Owner == name }) {
			all = append(all, OwnerSummary{Owner: name})
		}
	}
	slices.SortFunc(all, func(a, b OwnerSummary) int { return strings.Compare(a.Owner, b.Owner) }) // databases differ in theirs
	return all, rows.Err()
}

// summarizeBudgets adds what is used of the budgets that have a limit.
func (l *Ledger) summarizeBudgets(tx *transaction, owners []OwnerSummary, now time.Time) error {
	type budgetOf struct{ owner, period string }
	day, month, used := Limits{}.periods(now)[0], Limits{}.periods(now)[1], map[budgetOf]Budget{}
	rows, err := tx.rows(`SELECT owner, period, spent_cents, reserved_cents FROM budgets WHERE period = $1 AND start_time = $2 OR period = $3 AND start_time = $4`,
		day.name, day.start.UnixMicro(), month.name, month.start.UnixMicro())
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err tells more
	for rows.Next() {
		key, b := budgetOf{}, Budget{}
		if err := rows.Scan(&key.owner, &key.period, &b.SpentCents, &b.ReservedCents); err != nil {
			return err
		}
		used[key] = b
	}
	teams := l.teams()
	for i, o := range owners {
		for _, p := range teams[o.Owner].Limits.periods(now) {
			if p.limit != nil {
				b := used[budgetOf{o.Owner, p.name}]
				owners[i].Budgets = append(owners[i].Budgets, p.budget(b.SpentCents, b.ReservedCents))
			}
		}
	}
	return rows.Err()
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
