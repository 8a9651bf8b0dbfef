package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/content"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// listed is the maximum number of orders, events or audit lines in one response.
const listed = 1000

// Orders serves the ledger's orders to operators.
type Orders struct {
	Ledger *ledger.Ledger
	// Catalog is used to read a generation that an operator sets as the outcome of an order.
	Catalog *catalog.Client
	// SharedKey is the shared API key, or nil if callers send their own API keys. It determines whether an order may be resent;
	// see [ledger.Ledger.ResendUntil].
	SharedKey *catalog.Credential
	// Contents manages the copies of results. When an order is erased, the copy of its result is deleted. Nil means that
	// results are not copied.
	Contents *content.Results
}

// Order is an order in the ledger.
type Order struct {
	ID               string            `json:"id"`
	OrderTime        time.Time         `json:"order_time"`
	Owner            string            `json:"owner"`
	Caller           string            `json:"caller"`
	IdempotencyKey   string            `json:"idempotency_key"`
	ModelID          string            `json:"model_id"`
	GenerationID     string            `json:"generation_id,omitempty"`
	State            string            `json:"state"`
	ReservedCents    int64             `json:"reserved_cents"`
	CostCents        *int64            `json:"cost_cents,omitempty"`
	RefundedCents    int64             `json:"refunded_cents,omitempty"`
	UnconfirmedCents int64             `json:"unconfirmed_cents,omitempty"`
	Labels           map[string]string `json:"labels,omitempty"`
	// Leases is the number of times that a process has leased the order to send it.
	Leases int `json:"claims"`
	// Problem is the failure of the last attempt, if the order has no outcome yet.
	Problem string `json:"problem,omitempty"`
	// ExpireTime is the time after which the order is no longer sent; nil if there is no such time.
	ExpireTime *time.Time `json:"expire_time,omitempty"`
	// SentAgainUntil is the time until which an order whose outcome is unknown is resent; nil if the order is not resent.
	SentAgainUntil *time.Time `json:"sent_again_until,omitempty"`
	// Held reports whether the order's outcome was unknown when the ledger was copied or restored. It is false if the order has
	// been sent or resolved since then.
	Held bool `json:"held,omitempty"`
	// Resolved reports whether an operator has set the outcome.
	Resolved bool `json:"resolved,omitempty"`
	// Movements contains the order's entries in the ledger's journal of money. It is set only if the query has a Name.
	Movements []Movement `json:"movements,omitempty"`
}

// Movement is one entry in the ledger's journal of money.
type Movement struct {
	Time  time.Time `json:"time"`
	Kind  string    `json:"kind"`
	Cents int64     `json:"cents"`
	Actor string    `json:"actor,omitempty"` // operator who caused the entry; empty if Easel recorded it on its own
}

// apiKey returns the SHA-256 of the shared API key, or "" if there is no shared API key.
func (o Orders) apiKey() string {
	if o.SharedKey == nil {
		return ""
	}
	return o.SharedKey.APIKeySum()
}

func (o Orders) order(from ledger.Order) Order {
	one := Order{
		ID: from.ID, OrderTime: from.Time, Owner: from.Owner, Caller: from.Caller, IdempotencyKey: from.IdempotencyKey, ModelID: from.ModelID,
		GenerationID: from.Generation, State: stateOf(from), ReservedCents: from.ReservedCents, CostCents: from.CostCents, RefundedCents: from.RefundedCents,
		UnconfirmedCents: from.UnconfirmedCents, Labels: from.Labels, Leases: from.Leases, Problem: from.Problem, Held: from.Held, Resolved: from.Resolved,
	}
	if !from.ExpireTime.IsZero() {
		one.ExpireTime = &from.ExpireTime
	}
	if until, again := o.Ledger.ResendUntil(from, o.apiKey()); again {
		one.SentAgainUntil = &until
	}
	return one
}

// stateOf returns the state of the order's generation or, if the order has no generation, the state of the order.
func stateOf(o ledger.Order) string {
	switch {
	case o.IsDeleted():
		return "deleted"
	case o.Generation != "":
		return o.Status.String()
	}
	return o.State.String()
}

// OrderQuery selects orders.
type OrderQuery struct {
	// Name is an order ID, a generation ID or an idempotency key. If Name is set, all other conditions are ignored.
	Name string `json:"name,omitempty"`
	// Unknown selects only orders whose outcome is unknown. Reserved selects only orders that still reserve money. Held
	// selects only orders whose outcome has been unknown since the ledger was copied or restored. Held orders are not resent
	// until their callers repeat them.
	Unknown  bool `json:"unknown,omitempty"`
	Reserved bool `json:"reserved,omitempty"`
	Held     bool `json:"held,omitempty"`
	// Owner selects only the orders of this owner. Empty means every owner.
	Owner string `json:"owner,omitempty"`
	// State is an element of [OrderStates]. Empty means every state.
	State string `json:"state,omitempty"`
	// Since selects orders that were written at or after this time. Zero means any time.
	Since time.Time `json:"since,omitzero"`
	// Labels selects only orders that have all of these labels.
	Labels map[string]string `json:"labels,omitempty"`
	// Limit is the maximum number of orders, from 1 to 1,000. Zero means 1,000.
	Limit int `json:"limit,omitempty"`
}

// OrderStates contains the values of [OrderQuery.State].
var OrderStates = []string{"unknown", "refused", "placed", "queued", "running", "succeeded", "failed", "refunded", "deleted"}

// checkQuery returns an error if the query's State or Limit is invalid.
func (q OrderQuery) checkQuery() error {
	switch {
	case q.State != "" && !slices.Contains(OrderStates, q.State):
		return newInvalidMember("state must be one of " + strings.Join(OrderStates, ", "))
	case q.Limit < 0 || q.Limit > listed:
		return newInvalidMember(fmt.Sprintf("limit must be from 1 to %d", listed))
	}
	return nil
}

// serveList serves GET /orders. It returns the orders that a query selects. If the query has a Name, the orders include their
// movements.
func (o Orders) serveList(ctx context.Context, asked OrderQuery) (map[string][]Order, error) {
	if err := asked.checkQuery(); err != nil {
		return nil, err
	}
	find := o.selectOrders
	if asked.Name != "" {
		find = o.findByName
	}
	all, err := find(ctx, asked)
	return map[string][]Order{"orders": all}, err
}

// selectOrders returns the orders that a query selects.
func (o Orders) selectOrders(ctx context.Context, asked OrderQuery) ([]Order, error) {
	all := []Order{}
	found, err := o.Ledger.List(ctx, asked.filter(), ledger.Position{}, cmp.Or(asked.Limit, listed))
	for _, one := range found {
		all = append(all, o.order(one))
	}
	return all, err
}

// filter converts the query to a ledger filter.
func (q OrderQuery) filter() ledger.Filter {
	f := ledger.Filter{Unresolved: q.Unknown || q.State == "unknown", Refused: q.State == "refused", Deleted: q.State == "deleted", Reserved: q.Reserved, Held: q.Held, Labels: q.Labels, Since: q.Since}
	for status := lifecycle.Unseen; status <= lifecycle.Refunded; status++ {
		if q.State == status.String() {
			f.Statuses = []lifecycle.Status{status}
		}
	}
	f.AnyState = q.State == ""
	if q.Owner != "" {
		f.Owner = &q.Owner
	}
	return f
}

// maxNamed is the maximum number of orders in a response to a query with a Name. It is small, because each of these orders
// includes its entries in the ledger's journal.
const maxNamed = 20

// findByName returns the orders that match the Name in a query. Each order includes its movements, which are its entries in
// the ledger's journal of money.
func (o Orders) findByName(ctx context.Context, asked OrderQuery) ([]Order, error) {
	found, err := o.Ledger.Find(ctx, asked.Name, maxNamed)
	all := []Order{}
	for _, from := range found {
		one := o.order(from)
		moved, err := o.Ledger.Movements(ctx, from.ID)
		if err != nil {
			return nil, err
		}
		for _, m := range moved {
			one.Movements = append(one.Movements, Movement{m.Time, m.Kind.String(), m.Cents, m.Actor})
		}
		all = append(all, one)
	}
	return all, err
}
