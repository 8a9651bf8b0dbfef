package ledger

import (
	"context"
	"encoding/json"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// Request is an order as its caller sends it.
type Request struct {
	// Namespace is the scope of the idempotency key: the owner behind a shared API key, otherwise the forwarded API key.
	Namespace string
	// Owner is the owner of the order, and Caller its sender.
	Owner, Caller string
	// IdempotencyKey is the caller's name for the order, and UpstreamKey the key for the catalog.
	IdempotencyKey, UpstreamKey string
	// APIKey is the SHA-256, in hex, of the API key that sends the order.
	APIKey  string
	ModelID string
	// Inputs are the bytes for the catalog. Empty inputs are not stored.
	Inputs string
	// Digest is the SHA-256, in hex, of the model and the values of the inputs.
	Digest string
	// InputsDigest is the SHA-256, in hex, of the bytes for the catalog.
	InputsDigest string
	// Labels are shown to people and in reports.
	Labels map[string]string
	// PriceCents is the price that is reserved until the catalog reports the charge.
	PriceCents int64
	// Limits are the budgets that must have room for the price.
	Limits Limits
	// Total is the spending limit of all owners together.
	Total Limits
	// Agreed is called last in the transaction that writes the order. It checks whether the caller, the model and the
	// limits are unchanged. An error aborts the transaction. It may be nil.
	Agreed func() error
}

// Order is an order of the ledger.
type Order struct {
	lifecycle.Order

	// ID is the ledger's own id of the order. Recovery and operators use it.
	ID string
	// Namespace, Owner, Caller, IdempotencyKey, UpstreamKey, APIKey, ModelID, Inputs and the digests are copied from its
	// [Request].
	Namespace, Owner, Caller, IdempotencyKey, UpstreamKey, APIKey, ModelID, Inputs, Digest, InputsDigest string
	// Time is the time when the order was written, and Age the time since then. Both are by the database's clock.
	Time time.Time
	Age  time.Duration
	// Money has the amounts that the ledger counts for the order.
	lifecycle.Money
	// Observed is the observed state of its generation, and Record the catalog's report of the latest state, as JSON.
	lifecycle.Observed
	Record string
	// Labels are the labels of its [Request].
	Labels map[string]string

	// Problem is the reason why the order has no outcome yet, for display.
	Problem string

	// Erased means that its labels and its record were erased, and are not written again.
	Erased bool

	placed int64 // time when its generation was recorded in microseconds; zero without one
}

// money returns the amounts that follow from the recorded state of an order.
func (o Order) money() lifecycle.Money {
	switch {
	case o.State == lifecycle.Placed:
		return o.Observed.Money()
	case o.State == lifecycle.Refused:
		return lifecycle.Money{}
	case o.Expired: // its outcome stays unknown
		return lifecycle.Money{UnconfirmedCents: o.PriceCents}
	}
	return lifecycle.Money{ReservedCents: o.PriceCents}
}

// columns are the columns that scan reads.
var columns = `id, namespace, owner, caller, idempotency_key, upstream_key, api_key, model_id, COALESCE(inputs, ''), digest, inputs_digest, state, COALESCE(generation_id, ''), resolved = 1, claims,
	NOT ` + lapsed + `, {now} - order_time, order_time, price_cents, reserved_cents, cost_cents, refunded_cents, unconfirmed_cents,
	status, COALESCE(record, ''), deleted = 1, gone = 1, absent_time, settled = 1, charge_final = 1, refunded = 1, placed_time, failed_time, problem, erased = 1, held = 1, {labels of order}`

// order reads and locks the order that matches a condition, or returns nil. apiKey is the current one.
func (l *Ledger) order(tx *transaction, apiKey, condition string, args ...any) (*Order, error) {
	all, err := l.orders(tx, apiKey, condition+" {lock}", args...)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

// orders reads the orders that match a condition.
func (l *Ledger) orders(tx *transaction, apiKey, condition string, args ...any) ([]Order, error) {
	return l.ordersOf(tx, apiKey, "orders", condition, args...)
}

// ordersOf reads the orders of some tables that match a condition.
func (l *Ledger) ordersOf(tx *transaction, apiKey, tables, condition string, args ...any) (all []Order, err error) {
	return collect(tx, func(row scanner, o *Order) error { return l.scan(row, o, apiKey) }, `SELECT `+columns+` FROM `+tables+` WHERE `+condition, args...)
}

// scan reads a row of the columns.
func (l *Ledger) scan(row scanner, o *Order, apiKey string) error {
	var age, written, absent, failed int64
	if err := row.Scan(
		&o.ID, &o.Namespace, &o.Owner, &o.Caller, &o.IdempotencyKey, &o.UpstreamKey, &o.APIKey, &o.ModelID, &o.Inputs, &o.Digest, &o.InputsDigest, &o.State, &o.Generation, &o.Resolved, &o.Claims,
		&o.Claimed, &age, &written, &o.PriceCents, &o.ReservedCents, &o.CostCents, &o.RefundedCents, &o.UnconfirmedCents,
		&o.Status, &o.Record, &o.Deleted, &o.Absence.Lasting, &absent, &o.Settled, &o.Final, &o.Refunded, &o.placed, &failed, &o.Problem, &o.Erased, &o.Held, labels{&o.Labels}); err != nil {
		return err
	}
	o.Claimed = o.Claimed && o.State == lifecycle.Open
	o.Expired = age >= l.window.Microseconds()
	o.Rotated = o.APIKey != apiKey
	o.Time, o.Age = fromMicros(written), time.Duration(age)*time.Microsecond
	o.Deleted = o.Deleted && !o.Absence.Lasting
	o.Absence.Since, o.FailedTime, o.ChargedCents = fromMicros(absent), fromMicros(max(0, failed)), o.CostCents
	return nil
}

// read reads the orders of some tables that match a condition.
func (l *Ledger) read(ctx context.Context, tables, condition string, args ...any) (all []Order, err error) {
	err = l.reading(ctx, func(tx *transaction) error {
		all, err = l.ordersOf(tx, "", tables, condition, args...)
		return err
	})
	return all, err
}

// labels scans the labels of an order, which a query returns as JSON. An order without labels has an empty map. An erased order
// has none, even if the query has waited for the row and reads its labels as of an earlier moment.
type labels struct{ into *map[string]string }

// Scan implements [sql.Scanner].
func (l labels) Scan(value any) error {
	*l.into = map[string]string{}
	if text, _ := value.(string); text != "" && text != "{}" {
		return json.Unmarshal([]byte(text), l.into)
	}
	return nil
}

// isForwarded reports whether an order was sent under a forwarded API key.
func (o Order) isForwarded() bool { return o.Namespace == o.APIKey }
