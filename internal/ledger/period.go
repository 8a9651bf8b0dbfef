package ledger

import (
	"math"
	"time"
)

// Limits contains the spending limits of an owner, a label value or all owners, in cents. Nil means no limit. Days and months
// are in UTC.
type Limits struct{ DailyCents, MonthlyCents *int64 }

// Budget is a spending limit for one period, with the amounts that count toward it.
type Budget struct {
	// Period is the kind of period: "day" or "month". The period lasts from Start to Reset.
	Period string    `json:"period"`
	Start  time.Time `json:"start"`
	Reset  time.Time `json:"reset"`
	// LimitCents is the maximum for the sum of SpentCents and ReservedCents.
	LimitCents    int64 `json:"limitCents"`
	SpentCents    int64 `json:"spentCents"`
	ReservedCents int64 `json:"reservedCents"`
}

// unlimited is the value of [Budget.LimitCents] for a budget without a limit.
const unlimited = math.MaxInt64

// periods returns the budgets for the day and the month of the given time. SpentCents and ReservedCents are zero.
func (l Limits) periods(at time.Time) []Budget {
	day := time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC)
	month := time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
	return []Budget{
		{Period: "day", Start: day, Reset: day.AddDate(0, 0, 1), LimitCents: limit(l.DailyCents)},
		{Period: "month", Start: month, Reset: month.AddDate(0, 1, 0), LimitCents: limit(l.MonthlyCents)},
	}
}

func limit(cents *int64) int64 {
	if cents == nil {
		return unlimited
	}
	return *cents
}

// LeftCents returns the cents that may still be spent or reserved.
func (b Budget) LeftCents() int64 { return max(0, b.LimitCents-b.SpentCents-b.ReservedCents) }

// labelKey returns the text that identifies a label value in the budgets, such as project=apollo. The text is unambiguous,
// because the name of a label contains no =.
func labelKey(name, value string) string { return name + "=" + value }

// usage contains the amounts that count toward one budget. label is a result of [labelKey], or empty for the owner's own
// budget.
type usage struct {
	owner, label, period      string
	spent, reserved, notified int64
}

// usageColumns are the columns that scanUsage scans.
const usageColumns = `budgets.owner, budgets.label, budgets.period, budgets.spent_cents, budgets.reserved_cents, budgets.told_percent`

func scanUsage(row scanner, u *usage) error {
	return row.Scan(&u.owner, &u.label, &u.period, &u.spent, &u.reserved, &u.notified)
}

// findUsage returns the usage of an owner and a label value in b.Period, which is "day" or "month". An empty label selects the
// owner's own budget. ok is false if there is no such usage.
func (b Budget) findUsage(owner, label string, used []usage) (found usage, ok bool) {
	for _, u := range used {
		if u.owner == owner && u.label == label && u.period == b.Period {
			return u, true
		}
	}
	return usage{}, false
}

// budgets returns the owner's budgets for the day and the month of the given time, with their amounts from the given usage. It
// omits the periods without a limit.
func (l Limits) budgets(owner string, at time.Time, used []usage) (all []Budget) {
	for _, b := range l.periods(at) {
		if b.LimitCents != unlimited {
			u, _ := b.findUsage(owner, "", used)
			all = append(all, b.withUsage(u))
		}
	}
	return all
}

func (b Budget) withUsage(u usage) Budget {
	b.SpentCents, b.ReservedCents = u.spent, u.reserved
	return b
}
