package ledger

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Difference is an amount in the ledger that differs from the sum that it should equal: a sum of journal lines, or a sum over
// orders.
type Difference struct {
	// Order and Owner identify an order. For a budget or a usage report, Order is empty, and Owner is the owner of the budget
	// or report.
	Order, Owner string
	// Period and Start identify the period of a budget or report. Period is empty for an order.
	Period string
	Start  time.Time
	// Amount is the name of the amount that differs. Recorded is its value in the ledger. Journal is the sum that it should
	// equal: a sum over journal lines or, for a budget or report, over orders.
	Amount            string
	Recorded, Journal int64
}

// String returns the difference in one line for display.
func (d Difference) String() string {
	where := "order " + d.Order
	if d.Period != "" {
		where = fmt.Sprintf("the %s from %s", d.Period, d.Start.Format(time.DateOnly))
	}
	if d.Owner != "" {
		where += " of " + d.Owner
	}
	return fmt.Sprintf("%s: %s is %d, but the journal has %d", where, d.Amount, d.Recorded, d.Journal)
}

// Verified is the result of [Verify]: the numbers of orders and budgets in the ledger, and of differences.
type Verified struct{ Orders, Budgets, Differences int }

// comparison compares recorded amounts with sums over other rows. It consists of two SQL queries: recorded selects the amounts,
// and journal selects the rows to add up. Both queries have the same columns: the order, the owner, the period, the start of
// the period, a suffix for [Difference.Amount], and the amounts.
type comparison struct {
	amounts           []string
	recorded, journal string
}

// SQL expressions for amounts of an order. heldCents is the amount that is reserved according to the journal: the reserved
// amount, plus the part of the unconfirmed amount that exceeds the charge. spentCents is the amount that the budgets count as
// spent: the charge minus the refund, or the unconfirmed amount if that is higher. The expressions use CASE, because the
// databases have different functions for the maximum of two values.
const (
	heldCents  = `reserved_cents + CASE WHEN unconfirmed_cents > COALESCE(cost_cents, 0) THEN unconfirmed_cents - COALESCE(cost_cents, 0) ELSE 0 END`
	spentCents = `CASE WHEN COALESCE(cost_cents, 0) - refunded_cents > unconfirmed_cents THEN COALESCE(cost_cents, 0) - refunded_cents ELSE unconfirmed_cents END`
)

// comparisons compare orders with the journal, budgets with orders, and rollups with placed orders.
var comparisons = []comparison{{
	amounts:  []string{"reserved amount", "charged amount", "refunded amount"},
	recorded: `SELECT id, owner, '', 0, '', ` + heldCents + `, COALESCE(cost_cents, 0), refunded_cents FROM orders`,
	journal: `SELECT order_id, COALESCE(owner, ''), '', 0, '', CASE kind WHEN {reserve} THEN cents WHEN {release} THEN -cents ELSE 0 END, CASE kind WHEN {charge} THEN cents ELSE 0 END,
		CASE kind WHEN {refund} THEN cents ELSE 0 END FROM movements LEFT JOIN orders ON id = order_id`,
}, {
	amounts:  []string{"number of orders", "spent amount", "reserved amount", "unconfirmed amount", "refunded amount"},
	recorded: `SELECT '', owner, period, start_time, CASE label WHEN '' THEN '' ELSE ' with the label ' || label END, orders, spent_cents, reserved_cents, unconfirmed_cents, refunded_cents FROM budgets`,
	journal: `SELECT '', owner, period, CASE period WHEN 'day' THEN order_time / 86400000000 * 86400000000 ELSE {month of order_time} END, place, CASE state WHEN {placed} THEN 1 ELSE 0 END, ` + spentCents + `, reserved_cents, unconfirmed_cents, refunded_cents
		FROM (SELECT id AS counted, '' AS place FROM orders UNION ALL SELECT order_id, ' with the label ' || name || '=' || value FROM labels WHERE budgeted = 1) AS places
		JOIN orders ON id = counted, (SELECT 'day' AS period UNION ALL SELECT 'month') AS periods`,
}, {
	amounts: []string{"number of orders", "number of failed orders", "charged amount", "reserved amount", "unconfirmed amount", "refunded amount"},
	recorded: `SELECT '', owner, 'day', start_time, ' in the reports of ' || caller || ' with ' || model_id, orders, failed, cost_cents, reserved_cents, unconfirmed_cents, refunded_cents
		FROM rollups`,
	journal: `SELECT '', owner, 'day', order_time / 86400000000 * 86400000000, ' in the reports of ' || caller || ' with ' || model_id, 1, CASE WHEN status IN ({failed}, {refunded}) THEN 1 ELSE 0 END,
		COALESCE(cost_cents, 0), reserved_cents, unconfirmed_cents, refunded_cents FROM orders WHERE state = {placed}`,
}}

// selectDifferences returns a statement that selects the rows with differences. Each row identifies an order, budget or rollup,
// and contains the recorded value and the sum for each amount.
func (c comparison) selectDifferences() string {
	const key = "order_id, owner, period, start_time, place"
	each := func(format, separator string) string {
		var all []string
		for n := range c.amounts {
			all = append(all, strings.ReplaceAll(format, "#", strconv.Itoa(n)))
		}
		return strings.Join(all, separator)
	}
	amounts := key + ", " + each("a#", ", ")
	return `WITH recorded (` + amounts + `) AS (` + c.recorded + `), journal (` + amounts + `) AS (` + c.journal + `),
		compared (` + key + ", " + each("b#, j#", ", ") + `) AS (SELECT ` + key + ", " + each("a#, 0", ", ") + ` FROM recorded UNION ALL SELECT ` + key + ", " + each("0, a#", ", ") + ` FROM journal)
		SELECT ` + key + ", " + each("CAST(SUM(b#) AS BIGINT), CAST(SUM(j#) AS BIGINT)", ", ") + ` FROM compared
		GROUP BY ` + key + ` HAVING ` + each("SUM(b#) <> SUM(j#)", " OR ") + ` ORDER BY ` + key
}

// Verify checks that the amounts in the ledger at url equal the sums that they should equal: see [Difference]. It passes each
// difference to handleDifference. Other processes may use the ledger while Verify runs.
func Verify(ctx context.Context, url string, handleDifference func(Difference)) (Verified, error) {
	l, err := OpenReadOnly(ctx, url)
	if err != nil {
		return Verified{}, err
	}
	defer func() { _ = l.Close() }() // an error does not matter, because nothing was written
	return l.Verify(ctx, handleDifference)
}

// Verify is like the package's function [Verify], but checks an open ledger. It reads one snapshot, and has no timeout. In an
// in-memory ledger, it checks only the orders. It skips the budgets, because they include orders that were deleted from memory.
func (l *Ledger) Verify(ctx context.Context, handleDifference func(Difference)) (v Verified, err error) {
	err = l.runOnce(ctx, l.reads, l.dialect.snapshot, func(tx *transaction) error {
		err := tx.scanRow([]any{&v.Orders, &v.Budgets}, `SELECT (SELECT COUNT(*) FROM orders), (SELECT COUNT(*) FROM budgets)`)
		for n, c := range comparisons {
			if err == nil && (n == 0 || l.IsDurable()) {
				err = tx.queryRows(func(row scanner) error { return c.scanDifferences(row, &v, handleDifference) }, c.selectDifferences())
			}
		}
		return err
	})
	return v, addRemedy(err)
}

// scanDifferences reads a row of the query. It passes each difference in the row to handleDifference, and counts the
// differences in v.
func (c comparison) scanDifferences(row scanner, v *Verified, handleDifference func(Difference)) error {
	d, place, values := Difference{}, "", make([]int64, 2*len(c.amounts))
	into := []any{&d.Order, &d.Owner, &d.Period, moment{&d.Start}, &place}
	for n := range values {
		into = append(into, &values[n])
	}
	if err := row.Scan(into...); err != nil {
		return err
	}
	for n, amount := range c.amounts {
		if d.Amount, d.Recorded, d.Journal = amount+place, values[2*n], values[2*n+1]; d.Recorded != d.Journal {
			v.Differences++
			handleDifference(d)
		}
	}
	return nil
}
