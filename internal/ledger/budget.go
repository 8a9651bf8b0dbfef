package ledger

import (
	"strings"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// readBudget reads what is used of a budget.
func readBudget(tx *transaction, owner string, b Budget) (Budget, error) {
	err := tx.row(`SELECT COALESCE(SUM(spent_cents), 0), COALESCE(SUM(reserved_cents), 0) FROM budgets
		WHERE owner = $1 AND period = $2 AND start_time = $3`, owner, b.Period, b.Start.UnixMicro()).Scan(&b.SpentCents, &b.ReservedCents)
	return b, err
}

// reserve takes the price of an order out of its owner's budgets, if they and that of all owners have room for it. Budgets
// without a limit are kept too: a limit may be set later in the day.
func reserve(tx *transaction, o Order, limits, total Limits) error {
	for _, b := range limits.periods(o.Time) {
		if o.ReservedCents > b.LimitCents {
			return exceeded(tx, o, b)
		}
	}
	changed, err := count(tx, o, lifecycle.Money{ReservedCents: o.ReservedCents}, 0, 0, limits)
	if err != nil {
		return err
	}
	for _, b := range limits.periods(o.Time) {
		if _, ok := b.find(o.Owner, changed); !ok && limits != (Limits{}) {
			return exceeded(tx, o, b)
		}
	}
	return reserveTotal(tx, o, total)
}

// reserveTotal looks whether the budget of all owners together has room for what an order has just reserved. Only where
// there is one, those who write orders do so one after the other: each sees what the one before has reserved.
func reserveTotal(tx *transaction, o Order, total Limits) error {
	if total == (Limits{}) {
		return nil
	}
	if one := tx.l.dialect.oneAtATime; one != "" {
		if _, err := tx.exec(one); err != nil {
			return err
		}
	}
	for _, b := range total.periods(o.Time) {
		used := int64(0)
		if err := tx.row(usedByAll, b.Period, b.Start.UnixMicro()).Scan(&used); err != nil {
			return err
		}
		if left := b.LimitCents - (used - o.ReservedCents); b.LimitCents != unlimited && o.ReservedCents > left {
			return &BudgetError{Period: b.Period, Reset: b.Reset, PriceCents: o.ReservedCents, RemainingCents: max(0, left), Total: true}
		}
	}
	return nil
}

// usedByAll seeks by the index of periods.
const usedByAll = `SELECT CAST(COALESCE(SUM(spent_cents + reserved_cents), 0) AS BIGINT) FROM budgets WHERE period = $1 AND start_time = $2`

// exceeded says how much a budget has left that had no room for an order.
func exceeded(tx *transaction, o Order, b Budget) error {
	b, err := readBudget(tx, o.Owner, b)
	if err != nil {
		return err
	}
	return &BudgetError{Period: b.Period, Reset: b.Reset, PriceCents: o.ReservedCents, RemainingCents: b.LeftCents()}
}

// move records what the money of an order has become, in its row, with what else changes there, and in the
// budgets of its time, which count placed orders too: these rows, for which others wait, come last. Each %s of the
// changes is an argument. The row writes the lines of the journal, by actor.
func move(tx *transaction, o Order, to lifecycle.Money, actor string, placed int, changes string, args ...any) error {
	c := &clauses{}
	c.add("reserved_cents = %s, cost_cents = %s, refunded_cents = %s, unconfirmed_cents = %s, moved_by = %s", to.ReservedCents, to.CostCents, to.RefundedCents, to.UnconfirmedCents, actor)
	if changes != "" {
		c.add(changes, args...)
	}
	set := c.take()
	c.add("id = %s", o.ID)
	if _, err := tx.exec(`UPDATE orders SET `+set+` WHERE `+c.String(), c.args...); err != nil {
		return err
	}
	if actor != "" { // the release before would leave it to later movements
		if _, err := tx.exec(`UPDATE orders SET moved_by = '' WHERE id = $1`, o.ID); err != nil {
			return err
		}
	}
	_, err := count(tx, o, lifecycle.Money{
		ReservedCents: to.ReservedCents - o.ReservedCents, RefundedCents: to.RefundedCents - o.RefundedCents, UnconfirmedCents: to.UnconfirmedCents - o.UnconfirmedCents,
	}, to.SpentCents()-o.SpentCents(), placed, Limits{})
	return err
}

// count adds to the budgets of the time of an order, as far as the limits of an order that is new have room for it, and
// gives those that have changed. No limit is below what one order adds.
func count(tx *transaction, o Order, by lifecycle.Money, spent int64, placed int, limits Limits) (changed []usage, err error) {
	if by == (lifecycle.Money{}) && spent == 0 && placed == 0 && limits == (Limits{}) {
		return nil, nil
	}
	c := &clauses{}
	for _, b := range limits.periods(o.Time) {
		c.add("(%s, %s, %s, %s, %s, %s, %s, %s)", o.Owner, b.Period, b.Start.UnixMicro(), placed, by.ReservedCents, spent, by.UnconfirmedCents, by.RefundedCents)
	}
	rows, room := c.take(), ""
	if limits != (Limits{}) {
		for _, b := range limits.periods(o.Time) {
			c.add("WHEN %s THEN CAST(%s AS BIGINT)", b.Period, b.LimitCents)
		}
		room = `WHERE budgets.spent_cents + budgets.reserved_cents + excluded.reserved_cents <= CASE budgets.period ` + strings.Join(c.all, " ") + ` END`
	}
	changed, err = collect(tx, scanUsage, `INSERT INTO budgets (owner, period, start_time, orders, reserved_cents, spent_cents, unconfirmed_cents, refunded_cents) VALUES `+rows+`
		ON CONFLICT (owner, period, start_time) DO UPDATE SET orders = budgets.orders + excluded.orders, reserved_cents = budgets.reserved_cents + excluded.reserved_cents,
		spent_cents = budgets.spent_cents + excluded.spent_cents, unconfirmed_cents = budgets.unconfirmed_cents + excluded.unconfirmed_cents,
		refunded_cents = budgets.refunded_cents + excluded.refunded_cents `+room+` RETURNING `+usageColumns, c.args...)
	if err != nil {
		return nil, err
	}
	return changed, tx.tellBudgets(o, changed)
}
