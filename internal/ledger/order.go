package ledger

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// MostOpen is the maximum number of open orders of one owner. Orders whose last attempt is older than the resend window are not
// counted.
const MostOpen = 10_000

// MostRefused is the maximum number of an owner's rejected orders that are younger than [RefusedTime]. Once the maximum is
// reached, the owner's new orders fail with [ErrTooManyRefused]. This limits the storage for rejected orders, which are kept
// for at least a day.
const (
	MostRefused = 2_000
	RefusedTime = time.Hour
)

const (
	// retryAfter is the delay before the background recovery resends an order for the first time. The delay doubles after each
	// attempt, up to retryAtMost.
	retryAfter, retryAtMost = 5 * time.Second, 30 * time.Second
)

// Get returns the order with the given id. isFound is false if there is no such order.
func (l *Ledger) Get(ctx context.Context, id string) (o Order, isFound bool, err error) {
	all, err := l.readOrders(ctx, "orders", "id = $1", id)
	if isFound = len(all) == 1; isFound {
		o = all[0]
	}
	return o, isFound, err
}

// Call finds the order with the request's idempotency key. It must be called before any other check of the request. If the
// order must be resent, Call acquires its lease. If there is no order, the step's action is [lifecycle.Write]. But if the
// caller has used the key in another team, the step's answer is [lifecycle.Reused]. The error is [ErrTooManyOpen] or
// [ErrTooManyRefused] if the owner has reached [MostOpen] or [MostRefused].
func (l *Ledger) Call(ctx context.Context, r Request) (o Order, step lifecycle.Step, err error) {
	if step, found, err := l.findOrder(ctx, r); err != nil || !found {
		return o, step, err
	}
	err = l.runTx(ctx, func(tx *transaction) error {
		found, err := l.lockOrder(tx, r.APIKey, `namespace = $1 AND idempotency_key = $2 AND state <> {refused}`, r.Namespace, r.IdempotencyKey)
		if err != nil {
			return err
		}
		if found == nil { // the order was rejected in the meantime, so its key is free again
			step = lifecycle.Order{}.Call(true)
			return nil
		}
		o, step = *found, found.Call(found.isSame(r))
		return l.recordLease(tx, &o, step)
	})
	return o, step, err
}

// isSame reports whether a request matches an order. If the order is open and its inputs are not stored, the input bytes must
// be equal too, because a resend must repeat the first attempt exactly.
func (o Order) isSame(r Request) bool {
	sendable := o.State == lifecycle.Open && o.Inputs == ""
	return o.Digest == r.Digest && (!sendable || o.InputsDigest == r.InputsDigest)
}

// lookUpKey is a query that looks for orders with an idempotency key, and counts the owner's open and recently rejected orders.
// Each subquery uses an index. The numbers after LIMIT are constants in the text, because SQLite would prepare a statement with
// a parameter after LIMIT again for each execution.
const lookUpKey = `SELECT EXISTS (SELECT 1 FROM orders WHERE namespace = $1 AND idempotency_key = $2 AND state <> {refused}),
	EXISTS (SELECT 1 FROM orders WHERE caller = $3 AND caller <> '' AND idempotency_key = $2 AND namespace <> $1 AND state <> {refused}),
	(SELECT COUNT(*) FROM (SELECT 1 FROM orders WHERE owner = $4 AND state = {open} AND retry_time > {now} - $5 LIMIT {most open}) AS unresolved),
	(SELECT COUNT(*) FROM (SELECT 1 FROM orders WHERE owner = $4 AND state = {refused} AND order_time > {now} - $6 LIMIT {most refused}) AS refused)`

// findOrder reports whether the idempotency key has an order. It uses a single statement outside a transaction, because
// most keys have no order. If there is no order, the step's action is [lifecycle.Write]. But if the caller has used the key in
// another team, the step's answer is [lifecycle.Reused]. The transaction that writes the order repeats this check.
func (l *Ledger) findOrder(ctx context.Context, r Request) (step lifecycle.Step, found bool, err error) {
	elsewhere, open, refused := false, 0, 0
	err = l.runRead(ctx, func(tx *transaction) error {
		return tx.scanRow([]any{&found, &elsewhere, &open, &refused}, lookUpKey, r.Namespace, r.IdempotencyKey, r.Caller, r.Owner, l.window.Microseconds(), RefusedTime.Microseconds())
	})
	switch {
	case err == nil && !found && open == MostOpen:
		return step, false, ErrTooManyOpen
	case err == nil && !found && refused == MostRefused:
		return step, false, ErrTooManyRefused
	case elsewhere:
		return lifecycle.Step{Answer: lifecycle.Reused}, found, err
	}
	return lifecycle.Order{}.Call(true), found, err
}

// recordLease records the new lease if the step's action is [lifecycle.Submit].
func (l *Ledger) recordLease(tx *transaction, o *Order, step lifecycle.Step) error {
	if step.Action != lifecycle.Submit {
		return nil
	}
	o.Order = step.Order
	_, err := tx.exec(`UPDATE orders SET held = 0, leases = $1, leased_until = {now} + $2 WHERE id = $3`, o.Leases, OrderLease.Microseconds(), o.ID)
	return err
}

// Write writes a new order, reserves its price, and acquires its first lease. isFree is false if another request wrote an order
// with the same idempotency key since [Ledger.Call]. The caller must then call [Ledger.Call] again. If the price exceeds the
// unused part of a budget, the error is a [*BudgetError]. If the expire time has passed, it is [ErrOrderExpired].
func (l *Ledger) Write(ctx context.Context, r Request) (written Order, isFree bool, err error) {
	err = l.runTx(ctx, func(tx *transaction) error {
		o := newOrder(r)
		if isFree, err = tx.insertOrder(o); err != nil || !isFree {
			return err
		}
		if o.IsPastExpireTime() {
			return ErrOrderExpired
		}
		if err = tx.markBudgeted(o.ID, r.LabelLimits); err != nil {
			return err
		}
		written = *o
		if err := reservePrice(tx, *o, r); err != nil || r.Agreed == nil {
			return err
		}
		if err := r.Agreed(); err != nil {
			return &Disagreed{err}
		}
		return nil
	})
	return written, isFree && err == nil, err
}

// TimeToExpire returns the time until a request's expire time, by the database's clock. hasExpireTime is false if the request
// has no expire time. If the time has passed, the error is [ErrOrderExpired].
func (l *Ledger) TimeToExpire(ctx context.Context, r Request) (left time.Duration, hasExpireTime bool, err error) {
	if r.ExpireTime.IsZero() {
		return 0, false, nil
	}
	var us int64
	if err = l.askOne(ctx, []any{&us}, `SELECT CAST($1 AS BIGINT) - {now}`, micros(r.ExpireTime)); err == nil && us <= 0 {
		err = ErrOrderExpired
	}
	return time.Duration(min(us, math.MaxInt64/1000)) * time.Microsecond, true, err
}

// IsFree reports whether an idempotency key can be used for a new order. A key is in use even if the transaction that writes
// its order is not committed yet. To detect such a transaction, IsFree inserts an order in a transaction that it always rolls
// back.
func (l *Ledger) IsFree(ctx context.Context, r Request) (free bool, err error) {
	err = l.runTx(ctx, func(tx *transaction) error {
		if free, err = tx.insertOrder(newOrder(r)); err != nil {
			return err
		}
		return &Disagreed{errProbe}
	})
	if disagreed, ok := errors.AsType[*Disagreed](err); ok && errors.Is(disagreed.Err, errProbe) {
		return free, nil
	}
	return false, err
}

// errProbe rolls back an order that was written only to find out whether the ledger accepts it.
var errProbe = errors.New("test order rolled back")

// newOrder returns the order for a request, before it is written.
func newOrder(r Request) *Order {
	life, _ := lifecycle.Order{}.Written()
	o := &Order{
		Order: life, ID: "ord_" + rand.Text(), Namespace: r.Namespace, Owner: r.Owner, Caller: r.Caller, IdempotencyKey: r.IdempotencyKey, UpstreamKey: r.UpstreamKey,
		APIKey: r.APIKey, ModelID: r.ModelID, Inputs: r.Inputs, Digest: r.Digest, InputsDigest: r.InputsDigest, Labels: r.Labels, ExpireTime: fromMicros(micros(r.ExpireTime)),
		Observed: lifecycle.Observed{PriceCents: r.PriceCents},
	}
	o.Money = o.money()
	return o
}

// insertOrder writes a new order with its labels, and sets o.Time. isFree is false if the idempotency key is in use.
func (t *transaction) insertOrder(o *Order) (isFree bool, err error) {
	isFree, err = t.scanMaybeRow([]any{moment{&o.Time}}, `INSERT INTO orders (id, namespace, owner, caller, idempotency_key, upstream_key, api_key, model_id, inputs, digest, inputs_digest,
		state, leases, leased_until, order_time, retry_time, price_cents, reserved_cents, expire_time)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, NULLIF($9, ''), $10, $11, $12, $13, {now} + $14, {now}, {now}, $15, $16, $17) ON CONFLICT DO NOTHING RETURNING order_time`,
		o.ID, o.Namespace, o.Owner, o.Caller, o.IdempotencyKey, o.UpstreamKey, o.APIKey, o.ModelID, o.Inputs, o.Digest, o.InputsDigest,
		o.State, o.Leases, OrderLease.Microseconds(), o.PriceCents, o.ReservedCents, micros(o.ExpireTime))
	if err != nil || !isFree || len(o.Labels) == 0 {
		return isFree, err
	}
	list, _ := json.Marshal(o.Labels) // cannot fail, because the labels are strings
	_, err = t.exec(`INSERT INTO labels (order_id, name, value, order_owner, label_time) SELECT id, labels.name, labels.value, owner, order_time FROM orders, {labels} WHERE id = $2`, string(list), o.ID)
	return isFree, err
}

// markBudgeted marks those labels of a new order that have budgets.
func (t *transaction) markBudgeted(id string, limits map[string]Limits) error {
	if len(limits) == 0 {
		return nil
	}
	_, err := t.exec(`UPDATE labels SET budgeted = 1 WHERE name {in ids} AND order_id = $2`, asList(slices.Collect(maps.Keys(limits))), id)
	return err
}

// Renew extends a lease by [OrderLease], and reports whether the next attempt may be sent. timeLeft is the time within which
// the attempt must be sent. The holder of the lease must call Renew before each attempt. If the order has expired, and the lease
// is its latest one, the error is [ErrOrderExpired].
func (l *Ledger) Renew(ctx context.Context, id string, lease int, apiKey string) (maySend bool, timeLeft time.Duration, err error) {
	err = l.runTx(ctx, func(tx *transaction) error {
		o, err := l.lockOrder(tx, apiKey, `id = $1`, id)
		if maySend = err == nil && o != nil && o.May(lease); !maySend {
			if err == nil && o != nil && o.State == lifecycle.Open && o.Leases == lease && o.IsPastExpireTime() {
				err = ErrOrderExpired
			}
			return err
		}
		timeLeft = l.Sendable(*o)
		_, err = tx.exec(`UPDATE orders SET leased_until = {now} + $1 WHERE id = $2`, OrderLease.Microseconds(), id)
		return err
	})
	return maySend && err == nil, timeLeft, err
}

// RecordProblem records the reason why an order has no outcome yet. It does nothing if the lease is not the latest one.
func (l *Ledger) RecordProblem(ctx context.Context, id string, lease int, problem string) error {
	return l.runTx(ctx, func(tx *transaction) error {
		_, err := tx.exec(`UPDATE orders SET problem = $1 WHERE id = $2 AND leases = $3 AND state = {open}`, problem, id, lease)
		return err
	})
}

// Sendable returns the time left to send an attempt, counted from the moment when the order was read and leased. The lease, the
// resend window and the expire time all limit this time.
func (l *Ledger) Sendable(o Order) time.Duration {
	left := min(OrderLease, l.window-o.Age)
	if expires, limited := o.ExpiresIn(); limited {
		left = min(left, expires)
	}
	return left
}

// Resume leases an open order, so that the background recovery can resend it. isFound is false if there is no suitable order.
// The order is chosen as follows:
//   - The order's retry time has passed, its previous lease has ended, and its first attempt used apiKey.
//   - Owners take turns: the first choice is the next owner after previousOwner, in alphabetical order.
//   - Of that owner's orders, the one with the earliest retry time is leased. Orders that another transaction has locked are
//     skipped.
func (l *Ledger) Resume(ctx context.Context, apiKey, previousOwner string) (o Order, isFound bool, err error) {
	err = l.runTx(ctx, func(tx *transaction) error {
		isFound = false
		var all []Order
		var err error
		for _, owners := range []string{"owner > $1", "owner <= $1"} { // owners take turns: the owners after the previous one come first
			all, err = l.lockOrders(tx, apiKey, owners+` AND state = {open} AND held = 0 AND {same database} AND inputs IS NOT NULL AND api_key = $2 AND order_time > {now} - $3
				AND (expire_time = 0 OR expire_time > {now}) AND `+retries+` AND `+lapsed+` ORDER BY owner, retry_time LIMIT 1 {take}`, previousOwner, apiKey, l.window.Microseconds())
			if err != nil || len(all) > 0 {
				break
			}
		}
		if err != nil || len(all) == 0 {
			return err
		}
		step := all[0].Resume()
		o, isFound = all[0], step.Action == lifecycle.Submit // any other action means that another replica has leased the order
		return l.recordLease(tx, &o, step)
	})
	return o, isFound && err == nil, err
}

// Expire deletes the inputs of at most limit orders that can no longer be resent, and counts their reserved price as
// unconfirmed, because their outcome remains unknown. updatedOrders is their number.
func (l *Ledger) Expire(ctx context.Context, limit int) (updatedOrders int, err error) {
	err = l.runTx(ctx, func(tx *transaction) error {
		all, err := l.lockOrders(tx, "", `state = {open} AND (reserved_cents > 0 OR inputs IS NOT NULL) AND `+lapsed+`
			AND (order_time <= {now} - $1 OR expire_time BETWEEN 1 AND {now}) LIMIT $2 {take}`, l.window.Microseconds(), limit)
		for _, o := range all {
			if err == nil {
				err = tx.moveMoney(move{order: o, to: o.money(), changes: "inputs = NULL"})
			}
		}
		updatedOrders = len(all)
		return err
	})
	return updatedOrders, err
}

// Conclusion is the outcome of the attempts during a lease.
type Conclusion struct {
	Outcome lifecycle.Outcome
	// Generation is the ID of the generation if the outcome is [lifecycle.Named]. CostCents is the charge, or nil if it is
	// unknown.
	Generation string
	CostCents  *int64
	// Problem is the reason why there is no outcome, for display.
	Problem string
	// Written is the order that was returned with the lease, or nil. If it is set and its row is unchanged, [Ledger.Conclude]
	// does not read the row again.
	Written *Order

	actor  string // operator who decided the outcome, or empty
	unread bool   // whether the row is updated without having been read; the update must then check that the generation belongs to no other order
}

// Conclude records the outcome of the attempts during a lease, and returns the step with the answer for the caller.
func (l *Ledger) Conclude(ctx context.Context, id string, lease int, c Conclusion) (step lifecycle.Step, err error) {
	if o := c.Written; o != nil && o.Leases == lease && c.Outcome == lifecycle.Named && !o.isForwarded() {
		step, err = l.concludeWritten(ctx, *o, c)
		if _, doubt := errors.AsType[*Doubt](err); err == nil || doubt || ctx.Err() != nil {
			return step, err
		}
	}
	taken := false
	err = l.runTx(ctx, func(tx *transaction) error {
		outcome := c.Outcome
		o, other, err := l.orderAndHolder(tx, "", id, c.Generation)
		if err != nil {
			return err
		}
		if o == nil {
			return fmt.Errorf("order %s not found in the ledger", id)
		}
		if taken = other; taken {
			outcome = lifecycle.Uncertain
		}
		step = o.Concluded(lease, outcome, c.Generation)
		if o.State == lifecycle.Refused && step.Order.State == lifecycle.Placed {
			if err := l.leaveKey(tx, *o); err != nil {
				return err
			}
		}
		return l.recordConclusion(tx, *o, step.Order, c)
	})
	if taken && err == nil {
		err = ErrGenerationTaken
	}
	return step, err
}

// concludeWritten records the generation of an order without reading the order's row. It returns an error if the row has
// changed, or if another order has the generation.
func (l *Ledger) concludeWritten(ctx context.Context, o Order, c Conclusion) (step lifecycle.Step, err error) {
	step, c.unread = o.Concluded(o.Leases, c.Outcome, c.Generation), true
	err = l.runTx(ctx, func(tx *transaction) error { return l.recordConclusion(tx, o, step.Order, c) })
	return step, err
}

// leaveKey prevents two orders from having the same idempotency key. If an order was recorded as rejected, a later order may
// have used its key. The later order keeps the key. The key of the earlier order gets a suffix that starts with a space, so
// that no caller can send it.
func (l *Ledger) leaveKey(tx *transaction, o Order) error {
	other, err := l.orderWithSameKey(tx, o)
	if err == nil && other != nil {
		_, err = tx.exec(`UPDATE orders SET idempotency_key = idempotency_key || ' ' || id WHERE id = $1`, o.ID)
	}
	return err
}

// Resolution is an operator's decision about an order.
type Resolution struct {
	// Generation is the ID of the generation that the order started, or empty if it started none.
	Generation string
	// By identifies the operator.
	By
	// Forced means that the generation was not looked up in the catalog.
	Forced bool
}

// Resolve records an operator's decision about an order whose outcome is unknown: the ID of the generation that the order
// started, or "" if it started none. possible is false if there is no such order, or if the catalog has decided the order's
// outcome. It is also false while an attempt may be in progress, or while the order may be resent with apiKey. An empty apiKey
// means any API key. A decision can be corrected later. The journal and the audit log name the operator.
func (l *Ledger) Resolve(ctx context.Context, id, apiKey string, said Resolution) (before Order, possible bool, err error) {
	err = l.runTx(ctx, func(tx *transaction) error {
		o, taken, err := l.orderAndHolder(tx, apiKey, id, said.Generation)
		if possible = false; err != nil || o == nil {
			return err
		}
		if taken {
			return ErrGenerationTaken
		}
		o.Rotated = o.Rotated && apiKey != ""
		before = *o
		var next lifecycle.Order
		if next, possible = o.Resolve(said.Generation); !possible {
			return nil
		}
		if other, err := l.orderWithSameKey(tx, *o); err != nil {
			return err
		} else if other != nil && next.State == lifecycle.Placed {
			return ErrKeyTaken
		}
		if err := noteResolution(tx, id, said.Actor); err != nil {
			return err
		}
		if err := tx.addAuditLine(Act{
			By: said.By, Action: ActResolve, Subject: id, Was: auditedPart(*o, o.Order, false), Became: auditedPart(*o, next, said.Forced),
		}); err != nil {
			return err
		}
		return l.recordConclusion(tx, *o, next, Conclusion{actor: said.Actor})
	})
	return before, possible && err == nil, err
}

// auditedPart returns the part of an order that the audit log records, either before or after an operator's decision.
func auditedPart(o Order, life lifecycle.Order, forced bool) any {
	return struct {
		Owner      string `json:"owner"`
		State      string `json:"state"`
		Generation string `json:"generation,omitempty"`
		Forced     bool   `json:"forced,omitempty"`
	}{o.Owner, life.State.String(), life.Generation, forced}
}

// orderWithSameKey returns another order that has the same idempotency key, and either the same namespace or the same caller.
// It ignores rejected orders. It returns nil if there is no such order.
func (l *Ledger) orderWithSameKey(tx *transaction, o Order) (other *Order, err error) {
	return l.lockOrder(tx, "", `id <> $1 AND state <> {refused} AND idempotency_key = $2 AND (namespace = $3 OR caller = $4 AND caller <> '')`, o.ID, o.IdempotencyKey, o.Namespace, o.Caller)
}

// recordConclusion records the outcome of an order, and updates its reserved, charged, refunded and unconfirmed amounts.
func (l *Ledger) recordConclusion(tx *transaction, o Order, next lifecycle.Order, c Conclusion) error {
	if next == o.Order {
		return nil
	}
	if next.State == o.State && next.Generation == o.Generation && next.State != lifecycle.Open { // the catalog confirms the operator's decision
		_, err := tx.exec(`UPDATE orders SET resolved = $1 WHERE id = $2`, boolNumber(next.Resolved), o.ID)
		return err
	}
	if next.State == lifecycle.Open {
		_, err := tx.exec(`UPDATE orders SET leased_until = 0, retry_time = {now} + $1, problem = $2 WHERE id = $3`, retryDelay(next.Leases).Microseconds(), c.Problem, o.ID)
		return err
	}
	placed := boolNumber(next.State == lifecycle.Placed) - boolNumber(o.State == lifecycle.Placed) // change in the number of placed orders
	if next.State == lifecycle.Refused && !next.Resolved && next.Leases == 1 {                     // an order that the catalog rejects during its first lease keeps only the labels that have budgets
		if _, err := tx.exec(`DELETE FROM labels WHERE order_id = $1 AND budgeted = 0`, o.ID); err != nil {
			return err
		}
	}
	after := o
	// Earlier observations are dropped, because they may belong to another generation.
	after.Order, after.Observed = next, lifecycle.Observed{PriceCents: o.PriceCents, ChargedCents: c.CostCents}
	m := move{order: o, to: after.money(), actor: c.actor, placed: placed, changes: `state = %s, generation_id = NULLIF(%s, ''), resolved = %s, placed_time = CASE WHEN %s = '' THEN 0 ELSE {now} END, leased_until = 0, inputs = NULL, problem = '',
		held = 0, status = 0, record = NULL, deleted = 0, presumed_deleted = 0, absent_time = 0, settled = 0, charge_final = 0, refunded = 0, observed_time = 0, ended_time = 0, failed_time = 0`, args: []any{next.State, next.Generation, boolNumber(next.Resolved), next.Generation}}
	if c.unread {
		m.unless, m.unlessArgs = `EXISTS (SELECT 1 FROM orders AS other WHERE other.generation_id = %s AND other.id <> %s)`, []any{next.Generation, o.ID}
	}
	return tx.moveMoney(m)
}

// orderAndHolder reads and locks an order. It also reports whether another order has already taken the given generation. Orders
// with different forwarded API keys can have the same generation, because a caller can repeat an idempotency key after it has
// rotated its API key.
func (l *Ledger) orderAndHolder(tx *transaction, apiKey, id, generation string) (o *Order, taken bool, err error) {
	if o, err = l.lockOrder(tx, apiKey, `id = $1`, id); err != nil || o == nil || generation == "" {
		return o, false, err
	}
	others, err := l.lockOrders(tx, apiKey, `generation_id = $1 AND id <> $2 {lock}`, generation, id)
	for _, other := range others {
		taken = taken || other.Namespace == o.Namespace || !other.isForwarded() || !o.isForwarded()
	}
	return o, taken, err
}

// retryDelay returns the delay before the background recovery resends an order that has had the given number of leases.
func retryDelay(leases int) time.Duration {
	return min(retryAfter<<min(leases-1, 10), retryAtMost)
}
