package ledger

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

const (
	// retryAfter is how long the recovery of an order waits after its first uncertain outcome. It
	// doubles, up to retryAtMost.
	retryAfter, retryAtMost = 5 * time.Second, 30 * time.Second
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
	// Labels are for people and reports.
	Labels map[string]string
	// PriceCents is the price that is reserved until the catalog says what the order has cost.
	PriceCents int64
	// Limits are the budgets that the price has to fit into.
	Limits Limits
}

// Order is what the ledger has of an order.
type Order struct {
	lifecycle.Order

	// ID is the ledger's own name for the order. Recovery and operators use it.
	ID string
	// Namespace, Owner, Caller, IdempotencyKey, UpstreamKey, APIKey, ModelID, Inputs and Digest are those of its [Request].
	Namespace, Owner, Caller, IdempotencyKey, UpstreamKey, APIKey, ModelID, Inputs, Digest string
	// Time is when the order was written down, and Age how long ago that was. Both are by the database's clock.
	Time time.Time
	Age  time.Duration
	Money
	// Status is the newest state of its generation, and Record what the catalog said then, as JSON. The
	// catalog has a generation no more that is deleted.
	Status  Status
	Record  string
	Deleted bool
	// Settled means that no money can move any more.
	Settled bool
	// Labels are those of its [Request], where it comes from [Ledger.List] or [Ledger.Own].
	Labels map[string]string

	placed int64 // when its generation was recorded; 0 where there is none
	failed int64 // when its generation was first seen failed; 0 where it was not
}

// columns are what scan reads.
const columns = `id, namespace, owner, caller, idempotency_key, upstream_key, api_key, model_id, COALESCE(inputs, ''), digest, state, COALESCE(generation_id, ''), claims,
	claimed_until > {now}, {now} - order_time, order_time,
	reserved_cents, cost_cents, refunded_cents, unconfirmed_cents, status, COALESCE(record, ''), deleted, settled, placed_time, failed_time`

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
func (l *Ledger) orders(tx *transaction, apiKey, condition string, args ...any) (all []Order, err error) {
	rows, err := tx.rows(`SELECT `+columns+` FROM orders WHERE `+condition, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err tells more
	for rows.Next() {
		o, age, written := Order{}, int64(0), int64(0)
		if err := rows.Scan(
			&o.ID, &o.Namespace, &o.Owner, &o.Caller, &o.IdempotencyKey, &o.UpstreamKey, &o.APIKey, &o.ModelID, &o.Inputs, &o.Digest, &o.State, &o.Generation, &o.Claims, &o.Claimed, &age, &written,
			&o.ReservedCents, &o.CostCents, &o.RefundedCents, &o.UnconfirmedCents, &o.Status, &o.Record, &o.Deleted, &o.Settled, &o.placed, &o.failed); err != nil {
			return nil, err
		}
		o.Claimed = o.Claimed && o.State == lifecycle.Open
		o.Expired = age >= l.window.Microseconds()
		o.Rotated = o.APIKey != apiKey
		o.Time, o.Age = time.UnixMicro(written).UTC(), time.Duration(age)*time.Microsecond
		all = append(all, o)
	}
	return all, rows.Err()
}

// Call looks an order up by its idempotency key, before anything else is asked about it, and takes its claim
// where it has to be sent again. Without an order the step is [lifecycle.Write].
func (l *Ledger) Call(ctx context.Context, r Request) (o Order, step lifecycle.Step, err error) {
	if step, found, err := l.lookUp(ctx, r); err != nil || !found {
		return o, step, err
	}
	err = l.inTransaction(ctx, func(tx *transaction) error {
		found, err := l.byKey(tx, r)
		if err != nil {
			return err
		}
		if found == nil { // it was refused meanwhile
			step = lifecycle.Order{}.Call(true)
			return nil
		}
		o, step = *found, found.Call(found.Digest == r.Digest)
		return l.claim(tx, &o, step)
	})
	return o, step, err
}

// byKey is the order that an idempotency key stands for; nil where the key is free.
func (l *Ledger) byKey(tx *transaction, r Request) (*Order, error) {
	return l.order(tx, r.APIKey, `namespace = $1 AND idempotency_key = $2 AND state <> 3`, r.Namespace, r.IdempotencyKey)
}

// lookUp asks whether there is an order, by one statement: most often there is none. Else it gives the step of a key
// that is free. A caller that has changed its team may have used it in the other.
func (l *Ledger) lookUp(ctx context.Context, r Request) (step lifecycle.Step, found bool, err error) {
	elsewhere := false
	err = l.reading(ctx, func(tx *transaction) error {
		return tx.row(`SELECT EXISTS (SELECT 1 FROM orders WHERE namespace = $1 AND idempotency_key = $2 AND state <> 3),
			EXISTS (SELECT 1 FROM orders WHERE caller = $3 AND idempotency_key = $4 AND namespace <> $5 AND state <> 3)`,
			r.Namespace, r.IdempotencyKey, r.Caller, r.IdempotencyKey, r.Namespace).Scan(&found, &elsewhere)
	})
	if elsewhere && r.Caller != "" {
		return lifecycle.Step{Answer: lifecycle.Reused}, found, err
	}
	return lifecycle.Order{}.Call(true), found, err
}

// claim records the claim of a step that sends the order.
func (l *Ledger) claim(tx *transaction, o *Order, step lifecycle.Step) error {
	if step.Action != lifecycle.Submit {
		return nil
	}
	o.Order = step.Order
	_, err := tx.exec(`UPDATE orders SET claims = $1, claimed_until = {now} + $2 WHERE id = $3`, o.Claims, ClaimTime.Microseconds(), o.ID)
	return err
}

// Write writes a new order down, reserves its price, and takes its first claim. It is not free where
// somebody else has written an order under the idempotency key meanwhile: then the caller begins with
// [Ledger.Call] again. A budget without room for the price is a [*BudgetError].
func (l *Ledger) Write(ctx context.Context, r Request) (o Order, free bool, err error) {
	err = l.inTransaction(ctx, func(tx *transaction) error {
		o, free, err = l.insert(tx, r)
		return err
	})
	return o, free && err == nil, err
}

func (l *Ledger) insert(tx *transaction, r Request) (o Order, free bool, err error) {
	life, _ := lifecycle.Order{}.Written()
	o = Order{
		Order: life, ID: "ord_" + rand.Text(), Namespace: r.Namespace, Owner: r.Owner, Caller: r.Caller, IdempotencyKey: r.IdempotencyKey, UpstreamKey: r.UpstreamKey,
		APIKey: r.APIKey, ModelID: r.ModelID, Inputs: r.Inputs, Digest: r.Digest, Money: Money{ReservedCents: r.PriceCents},
	}
	written := int64(0)
	err = tx.row(`INSERT INTO orders (id, namespace, owner, caller, idempotency_key, upstream_key, api_key, model_id, inputs, digest,
		state, claims, claimed_until, order_time, retry_time, reserved_cents)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, NULLIF($9, ''), $10, $11, $12, {now} + $13, {now}, {now}, $14) ON CONFLICT DO NOTHING RETURNING order_time`,
		o.ID, r.Namespace, r.Owner, r.Caller, r.IdempotencyKey, r.UpstreamKey, r.APIKey, r.ModelID, r.Inputs, r.Digest,
		o.State, o.Claims, ClaimTime.Microseconds(), r.PriceCents).Scan(&written)
	if errors.Is(err, sql.ErrNoRows) {
		return o, false, nil
	}
	if err != nil {
		return o, false, err
	}
	o.Time = time.UnixMicro(written).UTC()
	for name, value := range r.Labels {
		if _, err := tx.exec(`INSERT INTO labels (order_id, name, value) VALUES ($1, $2, $3)`, o.ID, name, value); err != nil {
			return o, false, err
		}
	}
	return o, true, reserve(tx, o, r.Limits)
}

// Renew asks whether another attempt may leave under a claim, and lets the claim last for another
// [ClaimTime]. Whoever holds it asks before each attempt.
func (l *Ledger) Renew(ctx context.Context, id string, claim int, apiKey string) (may bool, err error) {
	err = l.inTransaction(ctx, func(tx *transaction) error {
		o, err := l.order(tx, apiKey, `id = $1`, id)
		if err != nil || o == nil || !o.May(claim) {
			return err
		}
		may = true
		_, err = tx.exec(`UPDATE orders SET claimed_until = {now} + $1 WHERE id = $2`, ClaimTime.Microseconds(), id)
		return err
	})
	return may && err == nil, err
}

// Resume takes the claim of the order that has waited longest of those that nobody comes back for, may
// still be sent, and were sent under this API key. It is not found where there is none.
func (l *Ledger) Resume(ctx context.Context, apiKey string) (o Order, found bool, err error) {
	err = l.inTransaction(ctx, func(tx *transaction) error {
		next, err := l.order(tx, apiKey, `id = (SELECT id FROM orders WHERE state = 1 AND api_key = $1 AND inputs IS NOT NULL AND retry_time <= {now}
			AND claimed_until <= {now} AND order_time > {now} - $2 ORDER BY retry_time LIMIT 1)`, apiKey, l.window.Microseconds())
		if err != nil || next == nil {
			return err
		}
		step := next.Resume()
		o, found = *next, step.Action == lifecycle.Submit // else another replica was quicker
		return l.claim(tx, &o, step)
	})
	return o, found && err == nil, err
}

// ErrGenerationTaken is a fault of the book: the catalog has named a generation that another order has. It
// is not stored.
var ErrGenerationTaken = errors.New("the catalog has named a generation that belongs to another order")

// Conclude records the outcome of the attempts under a claim, and gives what may be said then. Generation
// and cost are those of an outcome that is [lifecycle.Named]; the cost is nil where it can't be read yet.
func (l *Ledger) Conclude(ctx context.Context, id string, claim int, outcome lifecycle.Outcome, generation string, cost *int64) (step lifecycle.Step, err error) {
	taken := false
	err = l.inTransaction(ctx, func(tx *transaction) error {
		o, other, err := l.orderAndHolder(tx, "", id, generation)
		if err != nil {
			return err
		}
		if o == nil {
			return fmt.Errorf("the ledger has no order %s", id)
		}
		if taken = other; taken {
			outcome = lifecycle.Uncertain
		}
		step = o.Concluded(claim, outcome, generation)
		return l.record(tx, *o, step.Order, cost)
	})
	if taken && err == nil {
		err = ErrGenerationTaken
	}
	return step, err
}

// Resolve records what an operator says of an order that stays unknown: the generation that it has placed, or
// "" where there is none. It is not possible while the order may be sent again, under the API key of now; where
// that is "" it may be in force.
func (l *Ledger) Resolve(ctx context.Context, id, apiKey, generation string) (possible bool, err error) {
	err = l.inTransaction(ctx, func(tx *transaction) error {
		o, taken, err := l.orderAndHolder(tx, apiKey, id, generation)
		if err != nil || o == nil {
			return err
		}
		if taken {
			return ErrGenerationTaken
		}
		o.Rotated = o.Rotated && apiKey != ""
		var next lifecycle.Order
		if next, possible = o.Resolved(generation); !possible {
			return nil
		}
		return l.record(tx, *o, next, nil)
	})
	return possible && err == nil, err
}

// record writes what has become of an order, and moves its money with it.
func (l *Ledger) record(tx *transaction, o Order, next lifecycle.Order, cost *int64) error {
	if next == o.Order {
		return nil
	}
	if next.State == lifecycle.Open {
		_, err := tx.exec(`UPDATE orders SET claimed_until = 0, retry_time = {now} + $1 WHERE id = $2`, retryDelay(next.Claims).Microseconds(), o.ID)
		return err
	}
	if next.State == lifecycle.Placed {
		return move(tx, o, o.charged(cost), 1, `state = %s, generation_id = %s, placed_time = {now}, claimed_until = 0, inputs = NULL`, next.State, next.Generation)
	}
	return move(tx, o, Money{}, 0, `state = %s, claimed_until = 0, inputs = NULL`, next.State)
}

// orderAndHolder reads and locks an order, and another one that has the generation which is named for it.
func (l *Ledger) orderAndHolder(tx *transaction, apiKey, id, generation string) (o *Order, taken bool, err error) {
	all, err := l.orders(tx, apiKey, `(id = $1 OR generation_id = NULLIF($2, '')) {lock}`, id, generation)
	for i := range all {
		if all[i].ID == id {
			o = &all[i]
		} else {
			taken = true
		}
	}
	return o, taken, err
}

// retryDelay is the pause before the recovery of an order after so many claims.
func retryDelay(claims int) time.Duration {
	return min(retryAfter<<min(claims-1, 10), retryAtMost)
}
