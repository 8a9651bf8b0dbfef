package ledger

import (
	"context"
	"time"
)

// keptTime is how long a ledger in memory keeps orders that have an outcome.
const keptTime = 24 * time.Hour

// Prune deletes from a ledger in memory the orders that are older than a day, and those beyond the newest so many that
// were placed; most of them at once. It gives their number. One whose outcome is unknown stays: its idempotency key
// must not be sent again when the catalog may have forgotten it. What budgets hold stays too. A durable ledger forgets
// nothing.
func (l *Ledger) Prune(ctx context.Context, kept, most int) (pruned int, err error) {
	if l.durable {
		return 0, nil
	}
	err = l.inTransaction(ctx, func(tx *transaction) error {
		all, err := l.orders(tx, "", `state <> 1 AND (order_time <= {now} - $1 OR id IN (
			SELECT id FROM orders WHERE state = 2 ORDER BY order_time DESC, id DESC LIMIT -1 OFFSET $2)) LIMIT $3`, keptTime.Microseconds(), kept, most)
		if pruned = len(all); err != nil || pruned == 0 {
			return err
		}
		ids := make([]string, len(all))
		for n, o := range all {
			ids[n] = o.ID
		}
		labels, orders := &clauses{}, &clauses{}
		labels.among("order_id", ids)
		orders.among("id", ids)
		if _, err := tx.exec(`DELETE FROM labels WHERE `+labels.String(), labels.args...); err != nil {
			return err
		}
		_, err = tx.exec(`DELETE FROM orders WHERE `+orders.String(), orders.args...)
		return err
	})
	return pruned, err
}
