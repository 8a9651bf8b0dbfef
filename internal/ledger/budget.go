package ledger

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// Budgets gives the budgets of an owner that have a limit.
func (l *Ledger) Budgets(ctx context.Context, owner string, limits Limits) (all []Budget, err error) {
	if limits == (Limits{}) {
		return nil, nil
	}
	err = l.reading(ctx, func(tx *transaction) error {
		now, err := tx.now()
		if err != nil {
			return err
		}
		for _, p := range limits.periods(time.UnixMicro(now).UTC()) {
			if p.limit == nil {
				continue
			}
			var spent, reserved int64
			if err := tx.row(`SELECT COALESCE(SUM(spent_cents), 0), COALESCE(SUM(reserved_cents), 0) FROM budgets
				WHERE owner = $1 AND period = $2 AND start_time = $3`, owner, p.name, p.start.UnixMicro()).Scan(&spent, &reserved); err != nil {
				return err
			}
			all = append(all, p.budget(spent, reserved))
		}
		return nil
	})
	return all, err
}

// reserve takes the price of an order out of its owner's budgets, if they have room for it. Budgets without a
// limit are kept too: a limit may be set later in the day.
func reserve(tx *transaction, o Order, limits Limits) error {
	if limits == (Limits{}) {
		return count(tx, o, lifecycle.Money{ReservedCents: o.ReservedCents}, 0, 0)
	}
	periods := limits.periods(o.Time)
	for _, p := range periods {
		if o.ReservedCents > p.most() {
			return exceeded(tx, o, p)
		}
	}
	used, err := reserveIn(tx, o, periods)
	if err != nil {
		return err
	}
	for _, p := range periods {
		if !slices.ContainsFunc(used, func(u usage) bool { return u.period == p.name }) {
			return exceeded(tx, o, p)
		}
	}
	return tx.tellBudgets(o, used)
}

// reserveIn takes a price that no limit is below out of the budgets that have room for it, and gives these.
func reserveIn(tx *transaction, o Order, periods []period) ([]usage, error) {
	c := &clauses{}
	for _, p := range periods {
		c.add("(%s, %s, %s, %s)", o.Owner, p.name, p.start.UnixMicro(), o.ReservedCents)
	}
	for _, p := range periods {
		c.add("WHEN %s THEN CAST(%s AS BIGINT)", p.name, p.most())
	}
	return tx.usages(`INSERT INTO budgets (owner, period, start_time, reserved_cents) VALUES `+strings.Join(c.all[:len(periods)], ", ")+`
		ON CONFLICT (owner, period, start_time) DO UPDATE SET reserved_cents = budgets.reserved_cents + excluded.reserved_cents
		WHERE budgets.spent_cents + budgets.reserved_cents + excluded.reserved_cents <= CASE budgets.period `+strings.Join(c.all[len(periods):], " ")+` END
		RETURNING `+usageColumns, c.args...)
}

// exceeded says how much a budget has left that had no room for an order.
func exceeded(tx *transaction, o Order, p period) error {
	used := int64(0)
	if err := tx.row(`SELECT COALESCE(SUM(spent_cents + reserved_cents), 0) FROM budgets WHERE owner = $1 AND period = $2 AND start_time = $3`,
		o.Owner, p.name, p.start.UnixMicro()).Scan(&used); err != nil {
		return err
	}
	return &BudgetError{p.name, p.end, o.ReservedCents, max(0, p.most()-used)}
}

// move records what the money of an order has become, in its row, with what else changes there, and in the
// budgets of its time, which count placed orders too. Each %s of the changes is an argument.
func move(tx *transaction, o Order, to lifecycle.Money, placed int, changes string, args ...any) error {
	if err := write(tx, o, to, changes, args...); err != nil {
		return err
	}
	return countMove(tx, o, to, placed)
}

// write records it in the row of the order.
func write(tx *transaction, o Order, to lifecycle.Money, changes string, args ...any) error {
	c := &clauses{}
	c.add("reserved_cents = %s, cost_cents = %s, refunded_cents = %s, unconfirmed_cents = %s", to.ReservedCents, to.CostCents, to.RefundedCents, to.UnconfirmedCents)
	if changes != "" {
		c.add(changes, args...)
	}
	set := strings.Join(c.all, ", ")
	c.all = nil
	c.add("id = %s", o.ID)
	_, err := tx.exec(`UPDATE orders SET `+set+` WHERE `+c.String(), c.args...)
	return err
}

// countMove counts it in the budgets.
func countMove(tx *transaction, o Order, to lifecycle.Money, placed int) error {
	return count(tx, o, lifecycle.Money{
		ReservedCents: to.ReservedCents - o.ReservedCents, RefundedCents: to.RefundedCents - o.RefundedCents, UnconfirmedCents: to.UnconfirmedCents - o.UnconfirmedCents,
	}, to.SpentCents()-o.SpentCents(), placed)
}

// count adds to the budgets of the time of an order.
func count(tx *transaction, o Order, by lifecycle.Money, spent int64, placed int) error {
	if by == (lifecycle.Money{}) && spent == 0 && placed == 0 {
		return nil
	}
	c := &clauses{}
	for _, p := range (Limits{}).periods(o.Time) {
		c.add("(%s, %s, %s, %s, %s, %s, %s, %s)", o.Owner, p.name, p.start.UnixMicro(), placed, by.ReservedCents, spent, by.UnconfirmedCents, by.RefundedCents)
	}
	used, err := tx.usages(`INSERT INTO budgets (owner, period, start_time, orders, reserved_cents, spent_cents, unconfirmed_cents, refunded_cents) VALUES `+strings.Join(c.all, ", ")+`
		ON CONFLICT (owner, period, start_time) DO UPDATE SET orders = budgets.orders + excluded.orders, reserved_cents = budgets.reserved_cents + excluded.reserved_cents,
		spent_cents = budgets.spent_cents + excluded.spent_cents, unconfirmed_cents = budgets.unconfirmed_cents + excluded.unconfirmed_cents,
		refunded_cents = budgets.refunded_cents + excluded.refunded_cents RETURNING `+usageColumns, c.args...)
	if err != nil {
		return err
	}
	return tx.tellBudgets(o, used)
}
