package ledger

import (
	"fmt"
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

// BudgetError is a budget that has no room for a price.
type BudgetError struct {
	// Period is "day" or "month", and ends at Reset.
	Period string
	Reset  time.Time
	// PriceCents is more than RemainingCents.
	PriceCents, RemainingCents int64
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("the budget of the %s has %d cents left, and the order costs %d", e.Period, e.RemainingCents, e.PriceCents)
}

// reserve takes the price of an order out of its owner's budgets, if they have room for it. Budgets without a
// limit are kept too: a limit may be set later in the day.
func reserve(tx *transaction, o Order, limits Limits) error {
	for _, p := range limits.periods(o.Time) {
		start := p.start.UnixMicro()
		if _, err := tx.exec(`INSERT INTO budgets (owner, period, start_time) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, o.Owner, p.name, start); err != nil {
			return err
		}
		limit := int64(-1)
		if p.limit != nil {
			limit = *p.limit
		}
		rows, err := tx.exec(`UPDATE budgets SET reserved_cents = reserved_cents + $1 WHERE owner = $2 AND period = $3 AND start_time = $4
			AND ($5 < 0 OR spent_cents + reserved_cents + $6 <= $7)`, o.ReservedCents, o.Owner, p.name, start, limit, o.ReservedCents, limit)
		if err != nil {
			return err
		}
		if rows == 0 {
			return exceeded(tx, o, p, limit)
		}
	}
	return nil
}

// exceeded says how much a budget has left.
func exceeded(tx *transaction, o Order, p period, limit int64) error {
	used := int64(0)
	if err := tx.row(`SELECT spent_cents + reserved_cents FROM budgets WHERE owner = $1 AND period = $2 AND start_time = $3`,
		o.Owner, p.name, p.start.UnixMicro()).Scan(&used); err != nil {
		return err
	}
	return &BudgetError{p.name, p.end, o.ReservedCents, max(0, limit-used)}
}

// move records what the money of an order has become, in its row and in the budgets of its time.
func move(tx *transaction, o Order, to Money) error {
	if _, err := tx.exec(`UPDATE orders SET reserved_cents = $1, cost_cents = $2, refunded_cents = $3, unconfirmed_cents = $4 WHERE id = $5`,
		to.ReservedCents, to.CostCents, to.RefundedCents, to.UnconfirmedCents, o.ID); err != nil {
		return err
	}
	reserved, spent := to.ReservedCents-o.ReservedCents, to.spent()-o.spent()
	unconfirmed, refunded := to.UnconfirmedCents-o.UnconfirmedCents, to.RefundedCents-o.RefundedCents
	if reserved == 0 && spent == 0 && unconfirmed == 0 && refunded == 0 {
		return nil
	}
	for _, p := range (Limits{}).periods(o.Time) {
		if _, err := tx.exec(`UPDATE budgets SET reserved_cents = reserved_cents + $1, spent_cents = spent_cents + $2,
			unconfirmed_cents = unconfirmed_cents + $3, refunded_cents = refunded_cents + $4
			WHERE owner = $5 AND period = $6 AND start_time = $7`, reserved, spent, unconfirmed, refunded, o.Owner, p.name, p.start.UnixMicro()); err != nil {
			return err
		}
	}
	return nil
}
