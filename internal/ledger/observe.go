package ledger

import (
	"context"
	"slices"
	"time"
)

// Own gives the orders of generations that belong to an owner, with their labels, by generation; nil is anybody. A
// generation of somebody else and one that the ledger does not know take the same way, and both are missing.
func (l *Ledger) Own(ctx context.Context, owner *string, generations ...string) (own map[string]Order, err error) {
	own = make(map[string]Order, len(generations))
	err = l.reading(ctx, func(tx *transaction) error {
		for some := range slices.Chunk(generations, ownAtOnce) {
			c := &clauses{}
			c.among("generation_id", some)
			if owner != nil {
				c.add("owner = %s", *owner)
			}
			found, err := l.labelled(tx, c)
			if err != nil {
				return err
			}
			for _, o := range found {
				own[o.Generation] = o
			}
		}
		return nil
	})
	return own, err
}

// ownAtOnce bounds the generations of one query: a database takes some ten thousand parameters.
const ownAtOnce = 4096

// visibleAfter is how long after an order was placed a read may not find its generation.
const visibleAfter = 30 * time.Second

// Observed is what the ledger has found where it has recorded an [Observation].
type Observed struct {
	// Ordered means that the generation has an order. Else nothing is recorded.
	Ordered bool
	// ExceededCents is the price that was reserved, where the observation has the first charge and that is above it. Else
	// it is 0.
	ExceededCents int64
}

// Observe records what the catalog has said of a generation, and moves the money of its order with it. A state
// never goes back; a generation without an order is nobody's, and nothing is recorded of it.
func (l *Ledger) Observe(ctx context.Context, generation string, seen Observation) (observed Observed, err error) {
	err = l.inTransaction(ctx, func(tx *transaction) error {
		o, err := l.order(tx, "", `generation_id = $1 AND ($2 = '' OR owner = $3)`, generation, seen.APIKey, seen.APIKey)
		if err != nil || o == nil {
			return err
		}
		observed = Observed{Ordered: true, ExceededCents: o.exceeded(seen.CostCents)}
		now, err := tx.now()
		if err != nil {
			return err
		}
		seen.Deleted = seen.Deleted || o.Deleted || seen.NotFound && now-o.placed >= visibleAfter.Microseconds()
		return l.observed(tx, *o, seen, now)
	})
	if err != nil {
		return Observed{}, err
	}
	return observed, nil
}

// observed records an observation of an order.
func (l *Ledger) observed(tx *transaction, o Order, seen Observation, now int64) error {
	status, record := o.Status, o.Record
	if seen.Status > status || seen.Status == status && seen.Record != "" {
		status, record = seen.Status, seen.Record
	}
	if status == Failed && o.failed == 0 {
		o.failed = now
	}
	settled := o.Settled || seen.Deleted || status > Failed || status == Failed && now-o.failed >= l.refunds.Microseconds()
	next := o
	next.Status, next.Record, next.Deleted, next.Settled, next.Money = status, record, seen.Deleted, settled, o.after(seen, status, settled)
	if err := move(tx, o, next.Money, 0, `status = %s, record = NULLIF(%s, ''), deleted = %s, settled = %s, failed_time = %s, observed_time = %s`,
		status, record, number(seen.Deleted), number(settled), o.failed, now); err != nil {
		return err
	}
	return tx.tellGeneration(o, next, seen.Text)
}

// number is how both databases keep a truth.
func number(truth bool) int {
	if truth {
		return 1
	}
	return 0
}

// settleDaily is the age of an order after which it is looked at once in as long.
const settleDaily = 24 * time.Hour

// Due is a generation whose money may still move, and that nobody has looked at for a while.
type Due struct {
	Generation, Owner string
	// Last means that the refund window of its failure is over: the next look is the last one.
	Last bool
}

// Due gives generations that are to be looked at, those first that were not for longest: those not observed for
// a while, and after a day those not observed for a day. Those that were placed just now, and those of forwarded API
// keys, are not among them.
func (l *Ledger) Due(ctx context.Context, quiet time.Duration, most int) (all []Due, err error) {
	err = l.reading(ctx, func(tx *transaction) error {
		rows, err := tx.rows(`SELECT generation_id, owner, failed_time > 0 AND failed_time <= {now} - $1 FROM orders
			WHERE state = 2 AND settled = 0 AND owner <> api_key AND observed_time <= {now} - $2 AND placed_time <= {now} - $3
			AND (order_time > {now} - $4 OR observed_time <= {now} - $5) ORDER BY observed_time, id LIMIT $6`,
			l.refunds.Microseconds(), quiet.Microseconds(), visibleAfter.Microseconds(), settleDaily.Microseconds(), settleDaily.Microseconds(), most)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }() // rows.Err tells more
		for rows.Next() {
			var one Due
			if err := rows.Scan(&one.Generation, &one.Owner, &one.Last); err != nil {
				return err
			}
			all = append(all, one)
		}
		return rows.Err()
	})
	return all, err
}

// Followed gives the newest generations of some owners whose money may still move, and that were not ordered long ago.
func (l *Ledger) Followed(ctx context.Context, owners []string, most int) (generations []string, err error) {
	c := &clauses{all: []string{"state = 2 AND settled = 0"}}
	c.among("owner", owners)
	c.add("order_time > {now} - %s ORDER BY order_time DESC, id LIMIT %s", settleDaily.Microseconds(), most)
	err = l.reading(ctx, func(tx *transaction) error {
		rows, err := tx.rows(`SELECT generation_id FROM orders WHERE `+c.String(), c.args...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }() // rows.Err tells more
		for rows.Next() {
			generation := ""
			if err := rows.Scan(&generation); err != nil {
				return err
			}
			generations = append(generations, generation)
		}
		return rows.Err()
	})
	return generations, err
}

// TakeDuty takes work on that one process does for all, or goes on with it, for so long by the database's clock. It
// does not where another process has it.
func (l *Ledger) TakeDuty(ctx context.Context, name, holder string, d time.Duration) (taken bool, err error) {
	err = l.inTransaction(ctx, func(tx *transaction) error {
		rows, err := tx.exec(`INSERT INTO duties (name, holder, claimed_until) VALUES ($1, $2, {now} + $3) ON CONFLICT (name)
			DO UPDATE SET holder = excluded.holder, claimed_until = excluded.claimed_until
			WHERE duties.holder = excluded.holder OR duties.claimed_until <= {now}`, name, holder, d.Microseconds())
		taken = rows == 1
		return err
	})
	return taken && err == nil, err
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
			b := p.budget()
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
