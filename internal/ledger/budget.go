package ledger

import (
	"errors"
	"maps"
	"slices"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// reservePrice reserves the price of a new order in the budgets of its owner and its label values. It returns a [*BudgetError]
// if the price exceeds one of these budgets or the total budget. It reserves the price even if the owner has no limit, because
// a limit may be set later in the period.
func reservePrice(tx *transaction, o Order, r Request) error {
	if o.ReservedCents == 0 && r.Limits == (Limits{}) && len(r.LabelLimits) == 0 {
		return checkTotal(tx, o, r.Total)
	}
	changed, err := addUsage(tx, o.ID, lifecycle.Money{ReservedCents: o.ReservedCents}, 0, 0)
	if err != nil {
		return err
	}
	limits := r.budgets()
	for _, label := range slices.Sorted(maps.Keys(limits)) {
		for _, b := range limits[label].periods(o.Time) {
			used, _ := b.findUsage(o.Owner, label, changed)
			if err := checkLimit(o, b, used.spent+used.reserved, BudgetError{Label: label}); err != nil {
				return err
			}
		}
	}
	if err := tx.tellOwner(o, changed); err != nil {
		return err
	}
	return checkTotal(tx, o, r.Total)
}

// checkTotal returns a [*BudgetError] if an order exceeds the total budget of all owners. The order's price must already be
// reserved. If there is a total budget, only one transaction at a time runs this check, so each transaction sees all earlier
// reservations. The check comes last, because it makes the transactions of all owners wait for each other. The query starts
// after the lock is acquired, so that its snapshot includes all orders that were committed before.
func checkTotal(tx *transaction, o Order, total Limits) error {
	if total == (Limits{}) {
		return nil
	}
	if one := tx.l.dialect.oneAtATime; one != "" {
		if _, err := tx.exec(one); err != nil {
			return err
		}
	}
	periods := total.periods(o.Time)
	used, err := queryList(tx, scanUsage, usedByAll, periods[0].Start.UnixMicro(), periods[1].Start.UnixMicro())
	if err != nil {
		return err
	}
	for _, b := range periods {
		all, _ := b.findUsage(AllOwners, "", used)
		if err := checkLimit(o, b, all.spent+all.reserved, BudgetError{Total: true}); err != nil {
			return err
		}
	}
	return tx.tellBudgets(AllOwners, periods, used)
}

// usedByAll selects the total usage of all owners for one day and one month. It uses the index budgets_time.
const usedByAll = `SELECT '` + AllOwners + `', '', period, CAST(SUM(spent_cents) AS BIGINT), CAST(SUM(reserved_cents) AS BIGINT), MAX(CASE owner WHEN '` + AllOwners + `' THEN told_percent ELSE 0 END)
	FROM budgets WHERE label = '' AND (period = 'day' AND start_time = $1 OR period = 'month' AND start_time = $2) GROUP BY period`

// checkLimit returns a [*BudgetError] if usedCents, which includes the price of the order, is above the limit of the budget b.
// Otherwise, it returns nil. The caller sets e.Total or e.Label, and checkLimit sets the other fields.
func checkLimit(o Order, b Budget, usedCents int64, e BudgetError) error {
	if usedCents <= b.LimitCents {
		return nil
	}
	e.Period, e.Reset, e.PriceCents, e.RemainingCents = b.Period, b.Reset, o.ReservedCents, max(0, b.LimitCents-(usedCents-o.ReservedCents))
	return &e
}

// move describes a change of an order's amounts of money. The change updates the order's row, and then the budgets for the
// order's day and month. The budgets come last, because transactions for other orders wait while the budgets' rows are locked.
type move struct {
	order  Order
	to     lifecycle.Money
	actor  string // operator who caused the change; empty if Easel caused it
	placed int    // number to add to the count of placed orders in the budgets

	changes    string // SQL assignments to additional columns; each %s is a placeholder for one of args
	args       []any
	unless     string // SQL condition for leaving the row unchanged and returning errMoved; each %s is a placeholder for one of unlessArgs
	unlessArgs []any
}

// errMoved means that the row of an order was changed after it was read.
var errMoved = errors.New("order changed by another transaction")

// moveMoney changes an order's amounts of money, such as the reserved amount, and the totals of its budgets. Triggers on the
// orders table write the journal.
func (t *transaction) moveMoney(m move) error {
	if err := t.moveRow(m); err != nil {
		return err
	}
	o, to := m.order, m.to
	by := lifecycle.Money{
		ReservedCents: to.ReservedCents - o.ReservedCents, RefundedCents: to.RefundedCents - o.RefundedCents, UnconfirmedCents: to.UnconfirmedCents - o.UnconfirmedCents,
	}
	spent := to.SpentCents() - o.SpentCents()
	if by == (lifecycle.Money{}) && spent == 0 && m.placed == 0 {
		return nil
	}
	changed, err := addUsage(t, o.ID, by, spent, m.placed)
	if err != nil {
		return err
	}
	return t.tellOwner(o, changed)
}

func (t *transaction) moveRow(m move) error {
	c := &clauses{}
	c.addCondition("reserved_cents = %s, cost_cents = %s, refunded_cents = %s, unconfirmed_cents = %s, moved_by = %s", m.to.ReservedCents, m.to.CostCents, m.to.RefundedCents, m.to.UnconfirmedCents, m.actor)
	c.addCondition(m.changes, m.args...)
	set := c.takeParts()
	c.addCondition("id = %s AND state = %s AND leases = %s AND reserved_cents = %s AND unconfirmed_cents = %s", m.order.ID, m.order.State, m.order.Leases, m.order.ReservedCents, m.order.UnconfirmedCents)
	if m.unless != "" {
		c.addCondition("NOT "+m.unless, m.unlessArgs...)
	}
	rows, err := t.exec(`UPDATE orders SET `+set+` WHERE `+c.String(), c.args...)
	if err == nil && rows == 0 {
		err = errMoved
	}
	return err
}

// addToBudgets adds amounts to an order's budgets, first for its month and then for its day. It changes the budgets of the
// owner and of the order's label values. In each period, every transaction locks the owner's budget before the budgets of label
// values.
const addToBudgets = `INSERT INTO budgets (owner, label, period, start_time, orders, reserved_cents, spent_cents, unconfirmed_cents, refunded_cents)
	SELECT owner, label, period, CASE period WHEN 'day' THEN order_time / 86400000000 * 86400000000 ELSE {month of order_time} END,
		CAST($1 AS BIGINT), CAST($2 AS BIGINT), CAST($3 AS BIGINT), CAST($4 AS BIGINT), CAST($5 AS BIGINT)
	FROM orders, (SELECT 'day' AS period UNION ALL SELECT 'month') AS periods,
		(SELECT '' AS label UNION ALL SELECT name || '=' || value FROM labels WHERE order_id = $6 AND budgeted = 1) AS counted WHERE id = $6 ORDER BY period DESC, label
	ON CONFLICT (owner, label, period, start_time) DO UPDATE SET orders = budgets.orders + excluded.orders, reserved_cents = budgets.reserved_cents + excluded.reserved_cents,
	spent_cents = budgets.spent_cents + excluded.spent_cents, unconfirmed_cents = budgets.unconfirmed_cents + excluded.unconfirmed_cents,
	refunded_cents = budgets.refunded_cents + excluded.refunded_cents
	RETURNING ` + usageColumns

// addUsage adds amounts and a number of placed orders to the monthly and daily budgets that an order counts toward, and returns
// their new usage. money contains all amounts except the spent one.
func addUsage(tx *transaction, id string, money lifecycle.Money, spentCents int64, orders int) ([]usage, error) {
	return queryList(tx, scanUsage, addToBudgets, orders, money.ReservedCents, spentCents, money.UnconfirmedCents, money.RefundedCents, id)
}
