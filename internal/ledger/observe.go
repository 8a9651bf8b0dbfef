package ledger

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// Observation is an observed state of a generation.
type Observation struct {
	lifecycle.Observation
	// Record is the complete record of the generation in this state, as JSON.
	Record string
	// Text is the text of the result, which is sent to event receivers. It is not stored with the order.
	Text *string
	// APIKey is the hex-encoded SHA-256 of the forwarded API key with which the generation was read. Only orders that were sent
	// with the same key are updated. APIKey is empty if the generation was read with the shared API key.
	APIKey string
	// AtOnce means that the call fails immediately, instead of waiting, if another transaction has locked the order.
	AtOnce bool
}

// Effect describes the changes that an [Observation] caused.
type Effect struct {
	// ExceededCents is the order's reserved price if this observation is the first with a charge above that price. Otherwise, it
	// is zero.
	ExceededCents int64
	// Deleted means that Easel now treats the generation as deleted.
	Deleted bool
}

// Observe records an observed state of a generation, and updates the reserved, charged, refunded and unconfirmed amounts of its
// order. A state never replaces a later state. A generation without an order is ignored.
func (l *Ledger) Observe(ctx context.Context, generation string, seen Observation) (effect Effect, err error) {
	effects, err := l.ObserveAll(ctx, map[string]Observation{generation: seen})
	return effects[generation], err
}

// ObserveAll records observations like [Ledger.Observe], but in a single transaction. If it returns an error, it has recorded
// none of them. effects has an entry for each generation that has an order.
func (l *Ledger) ObserveAll(ctx context.Context, seen map[string]Observation) (effects map[string]Effect, err error) {
	ids := asList(slices.Sorted(maps.Keys(seen)))
	lock := "{lock}"
	for _, one := range seen {
		if one.AtOnce {
			lock = "{lock at once}"
		}
	}
	err = l.runTx(ctx, func(tx *transaction) error {
		effects = map[string]Effect{}
		all, err := l.lockOrders(tx, "", ofGenerations+" ORDER BY owner, order_time, id "+lock, ids) // sorted by owner, so that all transactions lock budgets in the same order
		if err != nil {
			return err
		}
		for _, o := range all { // several orders can have the same generation only if they were placed with forwarded API keys
			one := seen[o.Generation]
			if one.APIKey != "" && one.APIKey != o.Owner {
				continue
			}
			deleted, err := l.recordObservation(tx, o, one, o.Time.Add(o.Age))
			if err != nil {
				return err
			}
			effects[o.Generation] = Effect{ExceededCents: exceededPrice(o, one.CostCents), Deleted: deleted}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return effects, nil
}

// exceededPrice returns the order's reserved price if cents is the first charge above that price. Otherwise, it returns zero.
func exceededPrice(o Order, cents *int64) int64 {
	if cents == nil || *cents <= o.PriceCents || o.ChargedCents != nil && *o.ChargedCents > o.PriceCents {
		return 0
	}
	return o.PriceCents
}

// recordObservation records an observation for an order, and reports whether Easel now treats the generation as deleted.
func (l *Ledger) recordObservation(tx *transaction, o Order, seen Observation, now time.Time) (deleted bool, err error) {
	if soon := now.Sub(time.UnixMicro(o.placed)) < lifecycle.VisibleAfter; seen.NotFound && soon {
		seen.Observation = lifecycle.Observation{} // a 404 is ignored, because the catalog may not find a generation that was placed a moment ago
	}
	next := o
	if seen.Record != "" && !o.Erased && o.Status.MayBecome(seen.Status) {
		next.Record = seen.Record
	}
	next.Observed = o.After(seen.Observation, now, l.refunds)
	next.Money = next.money()
	if err := tx.tellGeneration(o, next, seen.Text); err != nil {
		return false, err
	}
	if err := tx.followContent(o, next); err != nil {
		return false, err
	}
	return next.IsDeleted(), tx.moveMoney(move{
		order: o, to: next.Money,
		changes: `status = %s, record = NULLIF(%s, ''), deleted = %s, presumed_deleted = %s, absent_time = %s, settled = %s, failed_time = %s, charge_final = %s, refunded = %s, price_cents = %s, observed_time = %s,
			ended_time = CASE WHEN %s = 1 THEN {now} ELSE ended_time END`,
		args: []any{
			next.Status, next.Record, boolNumber(next.IsDeleted()), boolNumber(next.Absence.Lasting && !next.DeletedByCall), micros(next.Absence.Since), boolNumber(next.Settled), micros(next.FailedTime), boolNumber(next.Final), boolNumber(next.Refunded), next.PriceCents, now.UnixMicro(), boolNumber(next.Status != o.Status && next.Status >= lifecycle.Failed || next.IsDeleted() && !o.IsDeleted()),
		},
	})
}

// settleDaily is the age of an order after which its cost is checked only once a day.
const settleDaily = 24 * time.Hour

// Due is a generation whose cost is due for a check.
type Due struct {
	Generation, Owner string
	// Last means that the generation must be read individually, because a list may be outdated. It is set for settled orders,
	// and for failed generations whose refund window has ended.
	Last bool
}

// doubtFor is the maximum age of settled orders that are still checked daily. Orders with unconfirmed money are checked because
// a refund can arrive late. Orders whose generation is missing are checked because the generation can reappear.
const doubtFor = 30 * 24 * time.Hour

// Due returns at most limit generations that are due for a check, least recently observed first. A generation is due if it was
// not observed for the duration quiet or, if its order is older than a day, for a day. The generation of a settled order is due
// once a day while money is unconfirmed or the generation is missing, until the order reaches the age doubtFor. Due omits newly
// placed generations and generations with forwarded API keys.
func (l *Ledger) Due(ctx context.Context, quiet time.Duration, limit int) ([]Due, error) {
	return askList(ctx, l, func(row scanner, one *Due) error {
		return row.Scan(&one.Generation, &one.Owner, &one.Last)
	}, `SELECT generation_id, owner, is_last FROM (
		SELECT generation_id, owner, failed_time > 0 AND failed_time <= {now} - $1 AS is_last, observed_time FROM orders
		WHERE state = {placed} AND settled = 0 AND namespace <> api_key AND `+pastCondition("observed_time + $2", "$2")+` AND `+pastCondition("placed_time + $3", "$3")+`
		AND (order_time > {now} - $4 OR `+pastCondition("observed_time + $4", "$4")+`)
		UNION ALL SELECT generation_id, owner, TRUE, observed_time FROM orders
		WHERE state = {placed} AND settled = 1 AND (unconfirmed_cents > 0 OR presumed_deleted = 1) AND namespace <> api_key AND `+pastCondition("observed_time + $4", "$4")+` AND order_time > {now} - $5
		) AS due ORDER BY observed_time, generation_id LIMIT $6`,
		l.refunds.Microseconds(), quiet.Microseconds(), lifecycle.VisibleAfter.Microseconds(), settleDaily.Microseconds(), doubtFor.Microseconds(), limit)
}
