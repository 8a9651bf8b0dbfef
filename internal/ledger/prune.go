package ledger

import (
	"context"
	"slices"
	"time"
)

// keptTime is the age at which an in-memory ledger deletes an order with an outcome. If the ledger has too many such orders, it
// deletes some of them earlier. A durable ledger deletes only rejected orders, and keeps them for at least keptTime.
const keptTime = 24 * time.Hour

// Queries for the orders to delete, oldest first. Each query returns at most $2 orders, and starts at the order time $1.
const (
	oldOrders     = `SELECT id, order_time FROM orders WHERE order_time >= $1 AND order_time <= (SELECT {now}) - $3 AND state <> {open} ORDER BY order_time, id LIMIT $2`
	refusedOrders = `SELECT id, order_time FROM orders WHERE order_time >= $1 AND owner = $3 AND state = {refused} AND resolved = 0 AND order_time <= (SELECT {now}) - $4
		ORDER BY order_time LIMIT $2`
)

// Prune deletes old orders from an in-memory ledger in several transactions, and returns their number. It keeps every order
// with an unknown outcome, because the caller could otherwise send the idempotency key again after the catalog has forgotten
// it. First, Prune deletes the orders that are older than a day. If more than maxKept orders with an outcome remain, Prune also
// deletes the oldest orders of the owners that have the most of them. Budgets do not change. For a durable ledger, Prune does
// nothing; see [Ledger.ForgetRefused].
func (l *Ledger) Prune(ctx context.Context, maxKept int) (forgotten int, err error) {
	if l.IsDurable() {
		return 0, nil
	}
	if forgotten, err = l.forgetOrders(ctx, oldOrders, keptTime.Microseconds()); err != nil {
		return forgotten, err
	}
	surplus, err := l.forgetSurplus(ctx, maxKept)
	return forgotten + surplus, err
}

// ForgetRefused deletes rejected orders that are older than both a day and the resend window. It uses several transactions, and
// returns the number of deleted orders. Orders that an operator declared rejected are kept, because the decision can be
// corrected.
func (l *Ledger) ForgetRefused(ctx context.Context) (forgotten int, err error) {
	owners, err := askList(ctx, l, scanText, ownersQuery("orders", "state = {refused}"))
	for _, owner := range owners {
		if err == nil {
			some := 0
			some, err = l.forgetOrders(ctx, refusedOrders, owner, max(keptTime, l.window).Microseconds())
			forgotten += some
		}
	}
	return forgotten, err
}

// surplusOrders selects the orders to delete, so that only $1 orders with an outcome remain. It keeps the newest order of each
// owner, then each owner's second newest, and so on. An owner with many orders therefore does not displace the orders of other
// owners.
const surplusOrders = `SELECT id FROM (SELECT id, order_time, ROW_NUMBER() OVER (PARTITION BY owner ORDER BY order_time DESC, id DESC) AS place FROM orders
	WHERE state <> {open} AND (SELECT COUNT(*) FROM orders WHERE state <> {open}) > $1) AS ranked ORDER BY place, order_time DESC LIMIT -1 OFFSET $1`

// forgetSurplus deletes orders with an outcome until only maxKept of them remain. Each transaction
// deletes at most [stepRows] orders.
func (l *Ledger) forgetSurplus(ctx context.Context, maxKept int) (forgotten int, err error) {
	ids, err := askList(ctx, l, scanText, surplusOrders, maxKept)
	for step := range slices.Chunk(ids, stepRows) {
		if err == nil {
			forgotten += len(step)
			err = l.runTx(ctx, func(tx *transaction) error { return tx.deleteOrders(step) })
		}
	}
	return forgotten, err
}

// forgetOrders deletes the orders that a query selects. Each transaction deletes at most [stepRows] orders.
func (l *Ledger) forgetOrders(ctx context.Context, query string, args ...any) (forgotten int, err error) {
	return l.runSteps(ctx, func(tx *transaction, from int64) (times []int64, err error) {
		var ids []string
		err = tx.queryRows(func(row scanner) error {
			id, at := "", int64(0)
			err := row.Scan(&id, &at)
			ids, times = append(ids, id), append(times, at)
			return err
		}, query, slices.Concat([]any{from, stepRows}, args)...)
		if err != nil || len(ids) == 0 {
			return nil, err
		}
		return times, tx.deleteOrders(ids)
	})
}

// deleteOrders deletes orders and their labels. In an in-memory ledger, it also deletes their rows in the journal.
func (t *transaction) deleteOrders(ids []string) error {
	statements := []string{`DELETE FROM labels WHERE order_id {in ids}`, `DELETE FROM orders WHERE id {in ids}`}
	if !t.l.IsDurable() {
		statements = append(statements, `DELETE FROM movements WHERE order_id {in ids}`)
	}
	for _, statement := range statements {
		if _, err := t.exec(statement, asList(ids)); err != nil {
			return err
		}
	}
	return nil
}
