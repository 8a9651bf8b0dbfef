package ledger

import (
	"context"
	"time"
)

// Own gives the orders of generations that belong to an owner, with their labels, by generation; nil is anybody. A
// generation of somebody else and one that the ledger does not know take the same way, and both are missing.
func (l *Ledger) Own(ctx context.Context, owner *string, generations ...string) (own map[string]Order, err error) {
	c := &clauses{}
	c.among("generation_id", generations)
	if owner != nil {
		c.add("owner = %s", *owner)
	}
	own = make(map[string]Order, len(generations))
	err = l.reading(ctx, func(tx *transaction) error {
		found, err := l.labelled(tx, c)
		for _, o := range found {
			own[o.Generation] = o
		}
		return err
	})
	return own, err
}

// Observe records what the catalog has said of a generation, and moves the money of its order with it. A state
// never goes back; a generation without an order is nobody's, and nothing is recorded of it.
func (l *Ledger) Observe(ctx context.Context, generation string, seen Observation) error {
	return l.inTransaction(ctx, func(tx *transaction) error {
		o, err := l.order(tx, "", `generation_id = $1`, generation)
		if err != nil || o == nil {
			return err
		}
		status, record := o.Status, o.Record
		if seen.Status > status || seen.Status == status && seen.Record != "" {
			status, record = seen.Status, seen.Record
		}
		if _, err := tx.exec(`UPDATE orders SET status = $1, record = NULLIF($2, ''), deleted = $3, settled = $4, observed_time = {now} WHERE id = $5`,
			status, record, number(seen.Deleted || o.Deleted), number(seen.Settled), o.ID); err != nil {
			return err
		}
		return move(tx, *o, o.after(seen, status))
	})
}

// number is how both databases keep a truth.
func number(truth bool) int {
	if truth {
		return 1
	}
	return 0
}

// Unsettled gives the generations whose money may still move and that were not observed for a while, those
// first that were not for longest.
func (l *Ledger) Unsettled(ctx context.Context, quiet time.Duration, most int) (generations []string, err error) {
	err = l.reading(ctx, func(tx *transaction) error {
		rows, err := tx.rows(`SELECT generation_id FROM orders WHERE state = 2 AND settled = 0 AND observed_time <= {now} - $1
			ORDER BY observed_time LIMIT $2`, quiet.Microseconds(), most)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				return err
			}
			generations = append(generations, id)
		}
		return rows.Err()
	})
	return generations, err
}

// Budget is what an owner has spent of a limit.
type Budget struct {
	// Period is "day" or "month", from Start until Reset.
	Period       string
	Start, Reset time.Time
	// LimitCents is what SpentCents and ReservedCents together may reach.
	LimitCents, SpentCents, ReservedCents int64
}

// Budgets gives the budgets of an owner that have a limit.
func (l *Ledger) Budgets(ctx context.Context, owner string, limits Limits) (all []Budget, err error) {
	err = l.reading(ctx, func(tx *transaction) error {
		now, err := tx.now()
		if err != nil {
			return err
		}
		for _, p := range limits.periods(time.UnixMicro(now).UTC()) {
			if p.limit == nil {
				continue
			}
			b := Budget{Period: p.name, Start: p.start, Reset: p.end, LimitCents: *p.limit}
			if err := tx.row(`SELECT COALESCE(SUM(spent_cents), 0), COALESCE(SUM(reserved_cents), 0) FROM budgets
				WHERE owner = $1 AND period = $2 AND start_time = $3`, owner, p.name, p.start.UnixMicro()).Scan(&b.SpentCents, &b.ReservedCents); err != nil {
				return err
			}
			all = append(all, b)
		}
		return nil
	})
	return all, err
}
