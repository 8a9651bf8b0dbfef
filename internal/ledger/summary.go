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
	// Events has the owners with pending events or with events that were given up.
	Events []EventSummary
	// Contents are copies of results.
	Contents ContentSummary
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

// Summary returns the totals of the ledger at one moment. With owners set, it includes the totals of each owner. It reads the
// sums of the budgets, and no order that has an outcome.
func (l *Ledger) Summary(ctx context.Context, owners bool) (s Summary, err error) {
	err = l.snapshot(ctx, func(tx *transaction) error {
		s = Summary{}
		now, err := tx.now()
		if err != nil {
			return err
		}
		if owners {
			if s.Owners, err = l.summarizeOwners(tx, now); err != nil {
				return err
			}
		}
		if s.Events, err = summarizeEvents(tx); err != nil {
			return err
		}
		if err := summarizeContents(tx, &s.Contents); err != nil {
			return err
		}
		return summarizeUnknown(tx, &s, now)
	})
	if !owners {
		s.Owners = nil
	}
	return s, err
}

// summarizeOwners sums up each owner, in the order of their names.
func (l *Ledger) summarizeOwners(tx *transaction, now time.Time) (all []OwnerSummary, err error) {
	all, err = collect(tx, func(row scanner, o *OwnerSummary) error {
		return row.Scan(&o.Owner, &o.Orders, &o.SpentCents, &o.RefundedCents, &o.ReservedCents, &o.UnconfirmedCents)
	}, `SELECT owner, CAST(SUM(orders) AS BIGINT), CAST(SUM(spent_cents + refunded_cents) AS BIGINT), CAST(SUM(refunded_cents) AS BIGINT),
		CAST(SUM(reserved_cents) AS BIGINT), CAST(SUM(unconfirmed_cents) AS BIGINT) FROM budgets WHERE period = 'month' GROUP BY owner`)
	for name := range l.teams() {
		if !slices.ContainsFunc(all, func(o OwnerSummary) bool { return o.Owner == name }) {
			all = append(all, OwnerSummary{Owner: name})
		}
	}
	slices.SortFunc(all, func(a, b OwnerSummary) int { return strings.Compare(a.Owner, b.Owner) }) // databases differ in theirs
	if err != nil {
		return nil, err
	}
	return all, l.summarizeBudgets(tx, all, now)
}

// summarizeBudgets adds what is used of the budgets that have a limit.
func (l *Ledger) summarizeBudgets(tx *transaction, owners []OwnerSummary, now time.Time) error {
	periods := Limits{}.periods(now)
	used, err := collect(tx, scanUsage, `SELECT `+usageColumns+` FROM budgets WHERE period = 'day' AND start_time = $1 OR period = 'month' AND start_time = $2`,
		periods[0].Start.UnixMicro(), periods[1].Start.UnixMicro())
	teams := l.teams()
	for i, o := range owners {
		for _, b := range teams[o.Owner].Limits.periods(now) {
			if b.LimitCents != unlimited {
				u, _ := b.find(o.Owner, used)
				owners[i].Budgets = append(owners[i].Budgets, b.with(u))
			}
		}
	}
	return err
}

// summarizeUnknown counts the orders of unknown outcome. The owner of one need not have a budget yet.
func summarizeUnknown(tx *transaction, s *Summary, now time.Time) error {
	unknown, err := collect(tx, func(row scanner, o *OwnerSummary) error {
		oldest := int64(0)
		err := row.Scan(&o.Owner, &o.Unknown, &oldest)
		o.OldestUnknown = now.Sub(fromMicros(oldest))
		return err
	}, `SELECT owner, COUNT(*), MIN(order_time) FROM orders WHERE state = {open} GROUP BY owner`)
	for _, o := range unknown {
		s.Unknown += o.Unknown
		s.OldestUnknown = max(s.OldestUnknown, o.OldestUnknown)
		n, found := slices.BinarySearchFunc(s.Owners, o.Owner, func(o OwnerSummary, name string) int { return strings.Compare(o.Owner, name) })
		if !found {
			s.Owners = slices.Insert(s.Owners, n, o)
			continue
		}
		s.Owners[n].Unknown, s.Owners[n].OldestUnknown = o.Unknown, o.OldestUnknown
	}
	return err
}

// Budgets gives the budgets of an owner that have a limit.
func (l *Ledger) Budgets(ctx context.Context, owner string, limits Limits) (all []Budget, err error) {
	if limits == (Limits{}) {
		return nil, nil
	}
	err = l.snapshot(ctx, func(tx *transaction) error {
		now, err := tx.now()
		if err != nil {
			return err
		}
		all = nil
		for _, b := range limits.periods(now) {
			if b.LimitCents == unlimited {
				continue
			}
			if b, err = readBudget(tx, owner, b); err != nil {
				return err
			}
			all = append(all, b)
		}
		return nil
	})
	return all, err
}
