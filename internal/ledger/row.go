package ledger

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// Request is an order as a caller sends it.
type Request struct {
	// Namespace says whose idempotency keys these are: the owner's behind a held API key, else the
	// API key's.
	Namespace string
	// Owner is whom the order belongs to, and Caller who sends it.
	Owner, Caller string
	// IdempotencyKey is the caller's name for the order, and UpstreamKey what the catalog gets.
	IdempotencyKey, UpstreamKey string
	// APIKey is the SHA-256, in hex, of the API key that the order is sent under.
	APIKey string
	// ModelID is the model.
	ModelID string
	// Inputs are the bytes that go to the catalog. They are not stored where they are empty.
	Inputs string
	// Digest is the SHA-256, in hex, of model and inputs by value.
	Digest string
	// InputsDigest is that of the bytes that go to the catalog.
	InputsDigest string
	// Labels are for people and reports.
	Labels map[string]string
	// PriceCents is the price that is reserved until the catalog says what the order has cost.
	PriceCents int64
	// Limits are the budgets that the price has to fit into.
	Limits Limits
	// Total is what all owners together may spend.
	Total Limits
	// Agreed is asked last in the transaction that writes the order: whether its caller, its model and its limits are
	// still those. Its error ends the transaction. Nil agrees.
	Agreed func() error
}

// Order is what the ledger has of an order.
type Order struct {
	lifecycle.Order

	// ID is the ledger's own name for the order. Recovery and operators use it.
	ID string
	// Namespace, Owner, Caller, IdempotencyKey, UpstreamKey, APIKey, ModelID, Inputs and the digests are those of its
	// [Request].
	Namespace, Owner, Caller, IdempotencyKey, UpstreamKey, APIKey, ModelID, Inputs, Digest, InputsDigest string
	// Time is when the order was written down, and Age how long ago that was. Both are by the database's clock.
	Time time.Time
	Age  time.Duration
	// Money is what the book counts for the order.
	lifecycle.Money
	// Observed is what was seen of its generation, and Record what the catalog said in its newest state, as JSON.
	lifecycle.Observed
	Record string
	// Labels are those of its [Request], where it comes from [Ledger.List] or [Ledger.Own].
	Labels map[string]string

	// Problem is why it has no outcome yet, in words: what its last attempt has met.
	Problem string

	// Erased means that its labels and its record were erased, and none is written again.
	Erased bool

	placed int64 // when its generation was recorded; 0 where there is none
}

// money is what follows from what is recorded of an order.
func (o Order) money() lifecycle.Money {
	switch {
	case o.State == lifecycle.Placed:
		return o.Observed.Money()
	case o.State == lifecycle.Refused:
		return lifecycle.Money{}
	case o.Expired: // nobody finds out any more by sending it again
		return lifecycle.Money{UnconfirmedCents: o.PriceCents}
	}
	return lifecycle.Money{ReservedCents: o.PriceCents}
}

// columns are what scan reads.
var columns = `id, namespace, owner, caller, idempotency_key, upstream_key, api_key, model_id, COALESCE(inputs, ''), digest, inputs_digest, state, COALESCE(generation_id, ''), resolved = 1, claims,
	NOT ` + lapsed + `, {now} - order_time, order_time, price_cents, reserved_cents, cost_cents, refunded_cents, unconfirmed_cents,
	status, COALESCE(record, ''), deleted = 1, gone = 1, absent_time, settled = 1, charge_final = 1, refunded = 1, placed_time, failed_time, problem, erased = 1, held = 1`

// order reads and locks the order that a condition names, under the API key of now. It is nil where there
// is none.
func (l *Ledger) order(tx *transaction, apiKey, condition string, args ...any) (*Order, error) {
	all, err := l.orders(tx, apiKey, condition+" {lock}", args...)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

// orders reads the orders that a condition names.
func (l *Ledger) orders(tx *transaction, apiKey, condition string, args ...any) ([]Order, error) {
	return l.ordersOf(tx, apiKey, "orders", condition, args...)
}

// ordersOf reads the orders that a condition of some tables names.
func (l *Ledger) ordersOf(tx *transaction, apiKey, tables, condition string, args ...any) (all []Order, err error) {
	return collect(tx, func(row scanner, o *Order) error { return l.scan(row, o, apiKey) }, `SELECT `+columns+` FROM `+tables+` WHERE `+condition, args...)
}

// scan reads a row of the columns.
func (l *Ledger) scan(row scanner, o *Order, apiKey string) error {
	var age, written, absent, failed int64
	if err := row.Scan(
		&o.ID, &o.Namespace, &o.Owner, &o.Caller, &o.IdempotencyKey, &o.UpstreamKey, &o.APIKey, &o.ModelID, &o.Inputs, &o.Digest, &o.InputsDigest, &o.State, &o.Generation, &o.Resolved, &o.Claims,
		&o.Claimed, &age, &written, &o.PriceCents, &o.ReservedCents, &o.CostCents, &o.RefundedCents, &o.UnconfirmedCents,
		&o.Status, &o.Record, &o.Deleted, &o.Absence.Lasting, &absent, &o.Settled, &o.Final, &o.Refunded, &o.placed, &failed, &o.Problem, &o.Erased, &o.Held); err != nil {
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

// labelled reads the orders that a condition of some tables names, with their labels.
func (l *Ledger) labelled(ctx context.Context, tables, condition string, args ...any) (all []Order, err error) {
	err = l.reading(ctx, func(tx *transaction) error {
		if all, err = l.ordersOf(tx, "", tables, condition, args...); err != nil {
			return err
		}
		return label(tx, all)
	})
	return all, err
}

// label reads the labels of orders.
func label(tx *transaction, all []Order) error {
	ids := make([]string, len(all))
	for n := range all {
		ids[n] = all[n].ID
	}
	labels, err := labelsOf(tx, ids)
	for n := range all {
		all[n].Labels = labels[all[n].ID]
	}
	return err
}

// labelsOf reads the labels of orders, by the order's id. An order without labels has an empty map.
func labelsOf(tx *transaction, ids []string) (labels map[string]map[string]string, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	labels = make(map[string]map[string]string, len(ids))
	for _, id := range ids {
		labels[id] = map[string]string{}
	}
	type label struct{ order, name, value string }
	c := &clauses{}
	c.among("order_id", slices.Collect(maps.Keys(labels)))
	rows, err := collect(tx, func(row scanner, l *label) error { return row.Scan(&l.order, &l.name, &l.value) },
		`SELECT order_id, name, value FROM labels WHERE `+c.String(), c.args...)
	for _, l := range rows {
		labels[l.order][l.name] = l.value
	}
	return labels, err
}

// isForwarded reports whether an order is of a forwarded API key.
func (o Order) isForwarded() bool { return o.Namespace == o.APIKey }
