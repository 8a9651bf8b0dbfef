package ledger

import (
	"context"
	"time"
)

const (
	keptTime    = 24 * time.Hour   // how long a ledger in memory keeps orders that have an outcome, and any those that were refused
	keptRefused = 10 * time.Minute // and those that were refused at once, whose idempotency key is free: an attempt is over by then
)

// prunable chooses what may go: what is older than that. An order that was refused under a later claim than its first
// stays for a day, as an attempt under an earlier one may still name its generation, and so does one that an operator has
// called refused, as that can be corrected.
const prunable = `SELECT id FROM orders WHERE state <> {open} AND (order_time <= {now} - $1
	OR state = {refused} AND resolved = 0 AND claims = 1 AND order_time <= {now} - $2) ORDER BY order_time, id LIMIT $3`

// surplus chooses of so many placed orders too many the oldest of whoever has the most, so that nobody's orders push out
// another's.
const surplus = `SELECT id FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY owner ORDER BY order_time DESC, id DESC) AS place FROM orders WHERE state = {placed})
	ORDER BY place DESC, id LIMIT $1`

// Prune deletes from a ledger in memory the orders that are older than a day, those refused that are older than minutes,
// and those of more placed ones than so many; most of them at once. It gives their number. One whose outcome is unknown
// stays: its idempotency key must not be sent again when the catalog may have forgotten it. What budgets hold stays too.
// A durable ledger forgets what was refused alone: see [Ledger.ForgetRefused].
func (l *Ledger) Prune(ctx context.Context, kept, most int) (gone int, err error) {
	if l.IsDurable() {
		return 0, nil
	}
	err = l.inTransaction(ctx, func(tx *transaction) error {
		if err := forgetAudit(tx); err != nil {
			return err
		}
		if gone, err = forget(tx, prunable, keptTime.Microseconds(), keptRefused.Microseconds(), most); err != nil {
			return err
		}
		placed := 0
		if err := tx.row(`SELECT COUNT(*) FROM orders WHERE state = {placed}`).Scan(&placed); err != nil || placed <= kept || gone == most {
			return err
		}
		more, err := forget(tx, surplus, min(placed-kept, most-gone))
		gone += more
		return err
	})
	return gone, err
}

// refused chooses the orders that were refused when nothing of them can be under way any more. What an operator has
// called refused stays, as it can be corrected.
const refused = `SELECT id FROM orders WHERE state = {refused} AND resolved = 0 AND order_time <= {now} - $1 LIMIT $2 {take}`

// ForgetRefused deletes orders that were refused a day ago, most of them at once, and gives their number.
func (l *Ledger) ForgetRefused(ctx context.Context, most int) (gone int, err error) {
	err = l.inTransaction(ctx, func(tx *transaction) error {
		gone, err = forget(tx, refused, max(keptTime, l.window).Microseconds(), most)
		return err
	})
	return gone, err
}

// forget deletes the orders that a query chooses, and gives their number. It asks once: to choose may take longer than all
// else.
func forget(tx *transaction, query string, args ...any) (gone int, err error) {
	ids, err := collect(tx, scanText, query, args...)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	statements := []string{`DELETE FROM labels WHERE order_id {in ids}`, `DELETE FROM orders WHERE id {in ids}`}
	if !tx.l.IsDurable() { // else nothing of the journal ever goes
		statements = append(statements, `DELETE FROM movements WHERE order_id {in ids}`)
	}
	for _, statement := range statements {
		if _, err := tx.exec(statement, asList(ids)); err != nil {
			return 0, err
		}
	}
	return len(ids), nil
}
