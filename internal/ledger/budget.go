package ledger

import (
	"errors"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// readBudget reads what is used of a budget.
func readBudget(tx *transaction, owner string, b Budget) (Budget, error) {
	err := tx.row(`SELECT COALESCE(SUM(spent_cents), 0), COALESCE(SUM(reserved_cents), 0) FROM budgets
		WHERE owner = $1 AND period = $2 AND start_time = $3`, owner, b.Period, b.Start.UnixMicro()).Scan(&b.SpentCents, &b.ReservedCents)
	return b, err
}

// budgetsOf names the budgets that an order takes, the day before the month. Transactions that go together take the same:
// else those of one group would have the month, and wait for a day of which another group waits for the month. (At
// midnight, by the clock of the database, they may: it gives one up then, and that is carried out again.)
func budgetsOf(owner string, ordered time.Time) string {
	return owner + ordered.UTC().Format(" 2006-01-02")
}

// reserve looks at what an order that was just written down has taken from its owner's budgets: they and that of all
// owners have room for it, or nothing was written. Budgets without a limit are kept too: a limit may be set later in the day.
func reserve(tx *transaction, o Order, r Request, changed []usage) error {
	for _, b := range r.Limits.periods(o.Time) {
		used, ok := b.find(o.Owner, changed)
		switch {
		case b.LimitCents == unlimited:
		case !ok:
			return exceeded(tx, o, b)
		case o.ReservedCents > b.LimitCents: // the first order of its window has taken more than there is
			b.SpentCents, b.ReservedCents = used.spent, used.reserved-o.ReservedCents
			return tooLittle(o, b)
		}
	}
	if err := tx.tellBudgets(o, changed); err != nil {
		return err
	}
	return reserveTotal(tx, o, r.Total)
}

// reserveTotal checks whether the budget of all owners together has room for the price that an order has just reserved. If
// there is such a budget, transactions that write orders commit one at a time, so that each sees the reservations of the one
// before. It comes last: all owners wait for the lock, which is held for one round trip and the commit.
func reserveTotal(tx *transaction, o Order, total Limits) error {
	if total == (Limits{}) {
		return nil
	}
	var statements []*statement
	if one := tx.l.dialect.oneAtATime; one != "" {
		statements = append(statements, &statement{text: one})
	}
	periods := total.periods(o.Time)
	used := make([]int64, len(periods))
	for n, b := range periods {
		statements = append(statements, &statement{text: usedByAll, args: []any{b.Period, b.Start.UnixMicro()}, each: func(row scanner) error { return row.Scan(&used[n]) }})
	}
	if err := tx.together(statements...); err != nil {
		return err
	}
	for n, b := range periods {
		if left := b.LimitCents - (used[n] - o.ReservedCents); b.LimitCents != unlimited && o.ReservedCents > left {
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
	return tooLittle(o, b)
}

func tooLittle(o Order, b Budget) error {
	return &BudgetError{Period: b.Period, Reset: b.Reset, PriceCents: o.ReservedCents, RemainingCents: b.LeftCents()}
}

// move is what the money of an order becomes, in its row, with what else changes there, and in the budgets of its time,
// which count placed orders too: these rows, for which others wait, come last.
type move struct {
	order      Order
	statements []*statement
	changed    []usage
}

// moving is a move. Each %s of the changes is an argument. The row writes the lines of the journal, by actor.
func moving(o Order, to lifecycle.Money, actor string, placed int, changes string, args ...any) *move {
	m, c := &move{order: o}, &clauses{}
	c.add("reserved_cents = %s, cost_cents = %s, refunded_cents = %s, unconfirmed_cents = %s, moved_by = %s", to.ReservedCents, to.CostCents, to.RefundedCents, to.UnconfirmedCents, actor)
	if changes != "" {
		c.add(changes, args...)
	}
	set := c.take() // SQLite would prepare it anew for each state that it compares with those of its indexes
	c.add("id = %s AND +state = %s AND claims = %s AND reserved_cents = %s AND unconfirmed_cents = %s", o.ID, o.State, o.Claims, o.ReservedCents, o.UnconfirmedCents)
	m.statements = append(m.statements, &statement{text: `UPDATE orders SET ` + set + ` WHERE ` + c.String(), args: c.args})
	by := lifecycle.Money{
		ReservedCents: to.ReservedCents - o.ReservedCents, RefundedCents: to.RefundedCents - o.RefundedCents, UnconfirmedCents: to.UnconfirmedCents - o.UnconfirmedCents,
	}
	if spent := to.SpentCents() - o.SpentCents(); by != (lifecycle.Money{}) || spent != 0 || placed != 0 {
		m.statements = append(m.statements, count(&m.changed, o.ID, by, spent, placed, Limits{}))
	}
	return m
}

// errMoved means that the row of an order is not as it was when it was read.
var errMoved = errors.New("somebody else has moved the order")

// unless has a move fail where a condition holds, in which each %s is an argument.
func (m *move) unless(condition string, args ...any) {
	row := m.statements[0]
	c := &clauses{args: row.args}
	c.add(row.text+" AND NOT "+condition, args...)
	row.text, row.args = c.String(), c.args
}

// carryOut carries a move out.
func (m *move) carryOut(tx *transaction) error {
	if err := tx.together(m.statements...); err != nil {
		return err
	}
	if m.statements[0].changed == 0 {
		return errMoved
	}
	return tx.tellBudgets(m.order, m.changed)
}

// addToBudgets adds to the budgets of the time of an order, the day before the month, as far as the limits of one that is new
// have room for it. No limit is below what one order adds.
const addToBudgets = `INSERT INTO budgets (owner, period, start_time, orders, reserved_cents, spent_cents, unconfirmed_cents, refunded_cents)
	SELECT owner, period, CASE period WHEN 'day' THEN order_time / 86400000000 * 86400000000 ELSE {month of order_time} END,
		CAST($1 AS BIGINT), CAST($2 AS BIGINT), CAST($3 AS BIGINT), CAST($4 AS BIGINT), CAST($5 AS BIGINT)
	FROM orders, (SELECT 'day' AS period UNION ALL SELECT 'month') AS periods WHERE id = $6 ORDER BY period
	ON CONFLICT (owner, period, start_time) DO UPDATE SET orders = budgets.orders + excluded.orders, reserved_cents = budgets.reserved_cents + excluded.reserved_cents,
	spent_cents = budgets.spent_cents + excluded.spent_cents, unconfirmed_cents = budgets.unconfirmed_cents + excluded.unconfirmed_cents,
	refunded_cents = budgets.refunded_cents + excluded.refunded_cents
	WHERE budgets.spent_cents + budgets.reserved_cents + excluded.reserved_cents <= CASE budgets.period WHEN 'day' THEN CAST($7 AS BIGINT) ELSE CAST($8 AS BIGINT) END
	RETURNING ` + usageColumns

// count counts an order in the budgets of its time, and collects those that have changed.
func count(changed *[]usage, id string, by lifecycle.Money, spent int64, placed int, limits Limits) *statement {
	one := collecting(changed, scanUsage, addToBudgets, placed, by.ReservedCents, spent, by.UnconfirmedCents, by.RefundedCents, id, limit(limits.DailyCents), limit(limits.MonthlyCents))
	one.last = true
	return one
}
