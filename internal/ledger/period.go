package ledger

import (
	"math"
	"time"
)

// Limits are what an owner may spend, in cents; nil is no limit. Days and months are UTC.
type Limits struct{ DailyCents, MonthlyCents *int64 }

// period is the time that a budget is for.
type period struct {
	name       string
	start, end time.Time
	limit      *int64
}

// periods are those of an order, the day before the month: whoever reserves takes their rows in this order.
func (l Limits) periods(at time.Time) []period {
	day := time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC)
	month := time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
	return []period{
		{"day", day, day.AddDate(0, 0, 1), l.DailyCents},
		{"month", month, month.AddDate(0, 1, 0), l.MonthlyCents},
	}
}

// most is the most that may be spent.
func (p period) most() int64 {
	if p.limit == nil {
		return math.MaxInt64
	}
	return *p.limit
}

// budget is the budget of a period that has a limit.
func (p period) budget(spent, reserved int64) Budget {
	return Budget{Period: p.name, Start: p.start, Reset: p.end, LimitCents: *p.limit, SpentCents: spent, ReservedCents: reserved}
}

// Budget is what an owner has spent of a limit.
type Budget struct {
	// Period is "day" or "month", from Start until Reset.
	Period       string
	Start, Reset time.Time
	// LimitCents is what SpentCents and ReservedCents together may reach.
	LimitCents, SpentCents, ReservedCents int64
}

// LeftCents is what may still be spent or reserved.
func (b Budget) LeftCents() int64 { return max(0, b.LimitCents-b.SpentCents-b.ReservedCents) }

// usage is what is used of a budget, as the statement gives it that has changed it.
type usage struct {
	period                string
	spent, reserved, told int64
}

// usageColumns are what a statement gives that changes budgets.
const usageColumns = `budgets.period, budgets.spent_cents, budgets.reserved_cents, budgets.told_percent`

// usages carries a statement out that gives them.
func (t *transaction) usages(statement string, args ...any) (all []usage, err error) {
	rows, err := t.rows(statement, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err tells more
	for rows.Next() {
		var u usage
		if err := rows.Scan(&u.period, &u.spent, &u.reserved, &u.told); err != nil {
			return nil, err
		}
		all = append(all, u)
	}
	return all, rows.Err()
}
