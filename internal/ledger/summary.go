package ledger

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Summary contains the totals of the ledger.
type Summary struct {
	Owners []OwnerSummary `json:"owners,omitempty"` // sorted by name
	// Unknown is the number of orders whose outcome is unknown. OldestUnknown is the age of the oldest of them.
	Unknown       int64         `json:"unknown"`
	OldestUnknown time.Duration `json:"oldestUnknown"`
	// Events contains the totals for each owner that has pending or abandoned events.
	Events []EventSummary `json:"events,omitempty"`
	// Contents contains the totals for copies of results.
	Contents ContentSummary `json:"contents"`
}

// OwnerSummary contains the totals of an owner's orders. They are zero if the owner has no orders.
type OwnerSummary struct {
	Owner string `json:"owner"`
	// Orders is the number of placed orders. Unknown is the number of orders whose outcome is unknown. OldestUnknown is the age
	// of the oldest of them.
	Orders        int64         `json:"orders"`
	Unknown       int64         `json:"unknown"`
	OldestUnknown time.Duration `json:"oldestUnknown"`
	// SpentCents includes UnconfirmedCents. Unlike [Budget.SpentCents], it also includes RefundedCents.
	SpentCents       int64 `json:"spentCents"`
	RefundedCents    int64 `json:"refundedCents"`
	ReservedCents    int64 `json:"reservedCents"`
	UnconfirmedCents int64 `json:"unconfirmedCents"`
	// Budgets contains the owner's budgets for the current day and month. It omits those for which this process's
	// configuration sets no limit.
	Budgets []Budget `json:"budgets,omitempty"`
}

// Summary returns the totals of the ledger. If owners is true, it includes the totals of each owner. It computes the totals
// from the budgets table. Of the orders table, it reads only orders without an outcome.
func (l *Ledger) Summary(ctx context.Context, owners bool) (s Summary, err error) {
	err = l.runRead(ctx, func(tx *transaction) error {
		s = Summary{}
		now, err := tx.currentTime()
		if err == nil {
			s.Owners, err = l.summarizeOwners(tx, owners, now)
		}
		if err == nil {
			s.Events, err = summarizeEvents(tx)
		}
		if err == nil {
			err = summarizeContents(tx, &s.Contents)
		}
		return err
	})
	for _, o := range s.Owners {
		s.Unknown += o.Unknown
		s.OldestUnknown = max(s.OldestUnknown, o.OldestUnknown)
	}
	if !owners {
		s.Owners = nil
	}
	return s, err
}

// Queries for the totals of placed orders, and for the orders whose outcome is unknown. The second query also finds owners
// without placed orders, even if the budgets table has no rows for them.
const (
	knownSums   = `SELECT owner, orders, spent_cents + refunded_cents AS spent, refunded_cents, reserved_cents, unconfirmed_cents, 0 AS unknown, CAST(NULL AS BIGINT) AS oldest FROM budgets WHERE period = 'month' AND label = '' AND owner <> '` + AllOwners + `'`
	unknownSums = `SELECT owner, 0 AS orders, 0 AS spent, 0 AS refunded_cents, 0 AS reserved_cents, 0 AS unconfirmed_cents, 1 AS unknown, order_time AS oldest FROM orders WHERE state = {open}`
)

// summarizeOwners returns the totals of each owner, sorted by name. The totals include the orders whose outcome is unknown. If
// includesBudgets is true, they also include the orders and amounts in the budgets table.
func (l *Ledger) summarizeOwners(tx *transaction, includesBudgets bool, now time.Time) (all []OwnerSummary, err error) {
	sums := unknownSums
	if includesBudgets {
		sums = knownSums + " UNION ALL " + unknownSums
	}
	all, err = queryList(tx, func(row scanner, o *OwnerSummary) error {
		var oldest *int64
		err := row.Scan(&o.Owner, &o.Orders, &o.SpentCents, &o.RefundedCents, &o.ReservedCents, &o.UnconfirmedCents, &o.Unknown, &oldest)
		if oldest != nil {
			o.OldestUnknown = now.Sub(fromMicros(*oldest))
		}
		return err
	}, `SELECT owner, CAST(SUM(orders) AS BIGINT), CAST(SUM(spent) AS BIGINT), CAST(SUM(refunded_cents) AS BIGINT), CAST(SUM(reserved_cents) AS BIGINT), CAST(SUM(unconfirmed_cents) AS BIGINT),
		CAST(SUM(unknown) AS BIGINT), MIN(oldest) FROM (`+sums+`) AS sums GROUP BY owner`)
	if err != nil {
		return nil, err
	}
	for name := range l.teams() {
		if name != AllOwners && !slices.ContainsFunc(all, func(o OwnerSummary) bool { return o.Owner == name }) {
			all = append(all, OwnerSummary{Owner: name})
		}
	}
	slices.SortFunc(all, func(a, b OwnerSummary) int { return strings.Compare(a.Owner, b.Owner) }) // sorted here, because SQLite and PostgreSQL sort names differently
	return all, l.summarizeBudgets(tx, all, now)
}

// summarizeBudgets sets [OwnerSummary.Budgets] of each owner.
func (l *Ledger) summarizeBudgets(tx *transaction, owners []OwnerSummary, now time.Time) error {
	used, err := tx.budgetUsage(now, "TRUE")
	teams := l.teams()
	for i, o := range owners {
		owners[i].Budgets = teams[o.Owner].Limits.budgets(o.Owner, now, used)
	}
	return err
}

// budgetUsage returns the usage of owners' budgets for the current day and month. It includes only budgets that match the SQL
// condition. It never includes the budgets for label values.
func (t *transaction) budgetUsage(now time.Time, condition string, args ...any) ([]usage, error) {
	periods := Limits{}.periods(now)
	return queryList(t, scanUsage, `SELECT `+usageColumns+` FROM budgets WHERE label = '' AND (period = 'day' AND start_time = $1 OR period = 'month' AND start_time = $2) AND `+condition,
		slices.Concat([]any{periods[0].Start.UnixMicro(), periods[1].Start.UnixMicro()}, args)...)
}

// Budgets returns an owner's budgets for the current day and month. It omits the periods without a limit.
func (l *Ledger) Budgets(ctx context.Context, owner string, limits Limits) (all []Budget, err error) {
	if limits == (Limits{}) {
		return nil, nil
	}
	err = l.runRead(ctx, func(tx *transaction) error {
		now, err := tx.currentTime()
		if err != nil {
			return err
		}
		used, err := tx.budgetUsage(now, "owner = $3", owner)
		all = limits.budgets(owner, now, used)
		return err
	})
	return all, err
}
