package ledger

import (
	"context"
	"time"
)

const (
	keptTime    = 24 * time.Hour   // how long a ledger in memory keeps orders that have an outcome
	keptRefused = 10 * time.Minute // and refused ones, whose idempotency key is free: an attempt is over by then
)

// pruned chooses what may go: what is older than that, and of more placed orders than are kept the oldest of whoever has
// the most, so that nobody's orders push out another's. What an operator has called refused can be corrected for a day.
const pruned = `SELECT id FROM orders WHERE state <> {open} AND (order_time <= {now} - $1 OR state = {refused} AND resolved = 0 AND order_time <= {now} - $2 OR id IN (
	SELECT id FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY owner ORDER BY order_time DESC, id DESC) AS place FROM orders WHERE state = {placed})
	ORDER BY place DESC, id LIMIT MAX(0, (SELECT COUNT(*) FROM orders WHERE state = {placed}) - $3))) ORDER BY order_time, id LIMIT $4`

// Prune deletes from a ledger in memory the orders that are older than a day, those refused that are older than minutes,
// and those of more placed ones than so many; most of them at once. It gives their number. One whose outcome is unknown
// stays: its idempotency key must not be sent again when the catalog may have forgotten it. What budgets hold stays too. A durable
// ledger forgets nothing.
func (l *Ledger) Prune(ctx context.Context, kept, most int) (gone int, err error) {
	if l.IsDurable() {
		return 0, nil
	}
	err = l.inTransaction(ctx, func(tx *transaction) error {
		chosen := []any{keptTime.Microseconds(), keptRefused.Microseconds(), kept, most}
		if _, err := tx.exec(`DELETE FROM labels WHERE order_id IN (`+pruned+`)`, chosen...); err != nil {
			return err
		}
		rows, err := tx.exec(`DELETE FROM orders WHERE id IN (`+pruned+`)`, chosen...)
		gone = int(rows)
		return err
	})
	return gone, err
}
