package ledger

import (
	"fmt"
	"strings"
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
	if limits == (Limits{}) {
		return count(tx, o, Money{ReservedCents: o.ReservedCents}, 0)
	}
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
			AND (CAST($5 AS BIGINT) < 0 OR spent_cents + reserved_cents + $6 <= $7)`, o.ReservedCents, o.Owner, p.name, start, limit, o.ReservedCents, limit)
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

// move records what the money of an order has become, in its row, with what else changes there, and in the
// budgets of its time. Each %s of the changes is an argument.
func move(tx *transaction, o Order, to Money, changes string, args ...any) error {
	c := &clauses{}
	c.add("reserved_cents = %s, cost_cents = %s, refunded_cents = %s, unconfirmed_cents = %s", to.ReservedCents, to.CostCents, to.RefundedCents, to.UnconfirmedCents)
	c.add(changes, args...)
	set := strings.Join(c.all, ", ")
	c.add("id = %s", o.ID)
	if _, err := tx.exec(`UPDATE orders SET `+set+` WHERE `+c.all[2], c.args...); err != nil {
		return err
	}
	return count(tx, o, Money{
		ReservedCents: to.ReservedCents - o.ReservedCents, RefundedCents: to.RefundedCents - o.RefundedCents, UnconfirmedCents: to.UnconfirmedCents - o.UnconfirmedCents,
	}, to.spent()-o.spent())
}

// count adds to the budgets of the time of an order.
func count(tx *transaction, o Order, by Money, spent int64) error {
	if by == (Money{}) && spent == 0 {
		return nil
	}
	c := &clauses{}
	for _, p := range (Limits{}).periods(o.Time) {
		c.add("(%s, %s, %s, %s, %s, %s, %s)", o.Owner, p.name, p.start.UnixMicro(), by.ReservedCents, spent, by.UnconfirmedCents, by.RefundedCents)
	}
	_, err := tx.exec(`INSERT INTO budgets (owner, period, start_time, reserved_cents, spent_cents, unconfirmed_cents, refunded_cents) VALUES `+strings.Join(c.all, ", ")+`
		ON CONFLICT (owner, period, start_time) DO UPDATE SET reserved_cents = budgets.reserved_cents + excluded.reserved_cents,
		spent_cents = budgets.spent_cents + excluded.spent_cents, unconfirmed_cents = budgets.unconfirmed_cents + excluded.unconfirmed_cents,
		refunded_cents = budgets.refunded_cents + excluded.refunded_cents`, c.args...)
	return err
}
