package ledger

import (
	"context"
	"encoding/json"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// columns lists the columns of the orders table, in the order in which scan reads them.
var columns = `id, namespace, owner, caller, idempotency_key, upstream_key, api_key, model_id, COALESCE(inputs, ''), digest, inputs_digest, state, COALESCE(generation_id, ''), resolved = 1, leases,
	NOT ` + lapsed + `, {now} - order_time, order_time, expire_time, price_cents, reserved_cents, cost_cents, refunded_cents, unconfirmed_cents,
	status, COALESCE(record, ''), deleted = 1, presumed_deleted = 1, absent_time, settled = 1, charge_final = 1, refunded = 1, placed_time, failed_time, problem, erased = 1, held = 1, {labels of order}`

// lockOrder reads and locks the order that matches a condition. It returns nil if no order matches. apiKey is the digest of the
// current API key, which determines [lifecycle.Order.Rotated].
func (l *Ledger) lockOrder(tx *transaction, apiKey, condition string, args ...any) (*Order, error) {
	all, err := l.lockOrders(tx, apiKey, condition+" {lock}", args...)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

// lockOrders reads the orders that match a condition.
func (l *Ledger) lockOrders(tx *transaction, apiKey, condition string, args ...any) ([]Order, error) {
	return l.lockOrdersFrom(tx, apiKey, "orders", condition, args...)
}

// lockOrdersFrom reads the orders that match a condition from the given tables.
func (l *Ledger) lockOrdersFrom(tx *transaction, apiKey, tables, condition string, args ...any) (all []Order, err error) {
	return queryList(tx, func(row scanner, o *Order) error { return l.scanOrder(row, o, apiKey) }, `SELECT `+columns+` FROM `+tables+` WHERE `+condition, args...)
}

// scanOrder reads one row of a query that selects [columns].
func (l *Ledger) scanOrder(row scanner, o *Order, apiKey string) error {
	var age, written, absent, failed int64
	if err := row.Scan(
		&o.ID, &o.Namespace, &o.Owner, &o.Caller, &o.IdempotencyKey, &o.UpstreamKey, &o.APIKey, &o.ModelID, &o.Inputs, &o.Digest, &o.InputsDigest, &o.State, &o.Generation, &o.Resolved, &o.Leases,
		&o.Leased, &age, &written, moment{&o.ExpireTime}, &o.PriceCents, &o.ReservedCents, &o.CostCents, &o.RefundedCents, &o.UnconfirmedCents,
		&o.Status, &o.Record, &o.DeletedByCall, &o.Absence.Lasting, &absent, &o.Settled, &o.Final, &o.Refunded, &o.placed, &failed, &o.Problem, &o.Erased, &o.Held, labels{&o.Labels}); err != nil {
		return err
	}
	o.Leased = o.Leased && o.State == lifecycle.Open
	o.Rotated = o.APIKey != apiKey
	o.Time, o.Age = fromMicros(written), time.Duration(age)*time.Microsecond
	o.Expired = age >= l.window.Microseconds() || o.IsPastExpireTime()
	o.DeletedByCall = o.DeletedByCall && !o.Absence.Lasting
	o.Absence.Since, o.FailedTime, o.ChargedCents = fromMicros(absent), fromMicros(max(0, failed)), o.CostCents
	return nil
}

// readOrders returns the orders that match an SQL condition. tables is the FROM clause of the query.
func (l *Ledger) readOrders(ctx context.Context, tables, condition string, args ...any) (all []Order, err error) {
	err = l.runRead(ctx, func(tx *transaction) error {
		all, err = l.lockOrdersFrom(tx, "", tables, condition, args...)
		return err
	})
	return all, err
}

// labels is a [sql.Scanner] for an order's labels, which a query returns as JSON. An order without labels has an empty map.
// For an erased order, the query returns no labels, even if the transaction's snapshot is older than the erasure.
type labels struct{ into *map[string]string }

// Scan implements [sql.Scanner].
func (l labels) Scan(value any) error {
	*l.into = map[string]string{}
	if text, _ := value.(string); text != "" && text != "{}" {
		return json.Unmarshal([]byte(text), l.into)
	}
	return nil
}
