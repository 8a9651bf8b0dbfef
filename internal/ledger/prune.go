package ledger

import (
	"context"
	"math"
	"slices"
	"sort"
	"time"
)

const (
	keptTime    = 24 * time.Hour   // age at which orders with an outcome are deleted; durable ledgers delete only rejected ones
	keptRefused = 10 * time.Minute // the same, in memory, for orders rejected under their first claim: no attempt lasts so long
)

// The queries for orders to delete start at the time $1, and select at most $2 orders. An order that was rejected under a
// later claim than its first is kept for a day: an attempt under an earlier claim may still return its generation.
const (
	oldOrders     = `SELECT id, order_time FROM orders WHERE order_time >= $1 AND order_time <= (SELECT {now}) - $3 AND state <> {open} ORDER BY order_time, id LIMIT $2`
	placedOrders  = `SELECT id, order_time FROM orders WHERE order_time >= $1 AND owner = $3 AND state = {placed} ORDER BY order_time, id LIMIT $2`
	refusedOrders = `SELECT id, order_time FROM orders WHERE order_time >= $1 AND owner = $3 AND state = {refused} AND resolved = 0 AND order_time <= (SELECT {now}) - $4
		AND claims <= $5 ORDER BY order_time LIMIT $2`
)

// Prune deletes orders from a ledger in memory, in steps: orders older than a day, rejected orders older than minutes, and
// placed orders beyond kept. It returns their number. It keeps orders of unknown outcome. Their idempotency keys must not be
// resent when the catalog may have forgotten them. Budgets keep their amounts. A durable ledger only deletes rejected orders:
// see [Ledger.ForgetRefused].
func (l *Ledger) Prune(ctx context.Context, kept int) (gone int, err error) {
	if l.IsDurable() {
		return 0, nil
	}
	if gone, err = l.forget(ctx, math.MaxInt, oldOrders, keptTime.Microseconds()); err != nil {
		return gone, err
	}
	for _, forget := range []func() (int, error){
		func() (int, error) { return l.forgetRefused(ctx, keptRefused, 1) },
		func() (int, error) { return l.forgetSurplus(ctx, kept) },
	} {
		some, err := forget()
		if gone += some; err != nil {
			return gone, err
		}
	}
	return gone, nil
}

// ForgetRefused deletes, in steps, the orders that were rejected a day ago, and returns their number. An order that an
// operator has declared rejected is kept, because the decision can be corrected.
func (l *Ledger) ForgetRefused(ctx context.Context) (gone int, err error) {
	return l.forgetRefused(ctx, max(keptTime, l.window), math.MaxInt32)
}

// forgetRefused deletes rejected orders that are older than age and have at most the given number of claims.
func (l *Ledger) forgetRefused(ctx context.Context, age time.Duration, claims int) (gone int, err error) {
	owners, err := ask(ctx, l, scanText, eachOwner("orders", "state = {refused}"))
	for _, owner := range owners {
		if err == nil {
			some := 0
			some, err = l.forget(ctx, math.MaxInt, refusedOrders, owner, age.Microseconds(), claims)
			gone += some
		}
	}
	return gone, err
}

// countPlaced counts the placed orders of each owner in indexes only.
const countPlaced = `SELECT owner, CAST(SUM(orders) AS BIGINT) FROM (SELECT owner, COUNT(*) AS orders FROM orders GROUP BY owner
	UNION ALL SELECT owner, -COUNT(*) FROM orders WHERE state = {open} GROUP BY owner
	UNION ALL SELECT owner, -COUNT(*) FROM orders WHERE state = {refused} GROUP BY owner) AS counts GROUP BY owner`

// ownerCount is the number of orders of an owner.
type ownerCount struct {
	owner  string
	orders int
}

// forgetSurplus deletes the oldest placed orders of the owners with the most orders, so that kept orders are left.
func (l *Ledger) forgetSurplus(ctx context.Context, kept int) (gone int, err error) {
	counts, err := ask(ctx, l, func(row scanner, c *ownerCount) error { return row.Scan(&c.owner, &c.orders) }, countPlaced)
	for _, c := range surplus(counts, kept) {
		if err == nil {
			some := 0
			some, err = l.forget(ctx, c.orders, placedOrders, c.owner)
			gone += some
		}
	}
	return gone, err
}

// surplus returns the number of orders of each owner beyond those that are kept. The orders of an owner never displace
// orders of an owner with fewer.
func surplus(counts []ownerCount, kept int) (all []ownerCount) {
	keep := func(each int) (sum int) {
		for _, c := range counts {
			sum += min(c.orders, each)
		}
		return sum
	}
	each := sort.Search(kept, func(each int) bool { return keep(each+1) > kept })
	rest := kept - keep(each)
	for _, c := range counts {
		if c.orders -= each; c.orders > 0 && rest > 0 {
			c.orders, rest = c.orders-1, rest-1
		}
		if c.orders > 0 {
			all = append(all, c)
		}
	}
	return all
}

// forget deletes the orders that a query selects, at most the given number, in steps.
func (l *Ledger) forget(ctx context.Context, most int, query string, args ...any) (gone int, err error) {
	return l.inSteps(ctx, most, func(tx *transaction, from int64, n int) ([]int64, error) {
		return tx.forget(query, slices.Concat([]any{from, n}, args)...)
	})
}

// forget deletes the orders that a query selects, and returns their times.
func (t *transaction) forget(query string, args ...any) (times []int64, err error) {
	var ids []string
	err = t.query(func(row scanner) error {
		id, at := "", int64(0)
		err := row.Scan(&id, &at)
		ids, times = append(ids, id), append(times, at)
		return err
	}, query, args...)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	statements := []string{`DELETE FROM labels WHERE order_id {in ids}`, `DELETE FROM orders WHERE id {in ids}`}
	if !t.l.IsDurable() { // a durable journal is never deleted
		statements = append(statements, `DELETE FROM movements WHERE order_id {in ids}`)
	}
	for _, statement := range statements {
		if _, err := t.exec(statement, asList(ids)); err != nil {
			return nil, err
		}
	}
	return times, nil
}
