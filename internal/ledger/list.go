package ledger

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// Filter selects the orders that match every field that is set. The comments of Statuses and AnyState describe exceptions. If
// Unresolved is set, Refused and Unsettled are ignored. If Refused is set, Unsettled is ignored. Unsettled also has no effect
// if AnyState, Held or Reserved is set.
type Filter struct {
	// Owner selects only the orders of this owner. Nil means all owners.
	Owner *string
	// Generation selects only the order that created the generation with this ID. Empty means any order.
	Generation string
	// ModelID selects only the orders for this model. Empty means any model.
	ModelID string
	// Statuses, Existing and Deleted select orders by the state of their generation. If several are set, one of them must
	// match. Existing selects generations that the catalog still has, and Deleted selects generations that it no longer has.
	// Statuses select only existing generations.
	Statuses          []lifecycle.Status
	Existing, Deleted bool
	// Labels selects only orders that have all of these labels.
	Labels map[string]string
	// Since selects orders that were written at or after this time. Zero means no limit.
	Since time.Time
	// AnyState selects orders in any state, including rejected orders and orders with an unknown outcome. If none of AnyState,
	// Refused, Unresolved, Unsettled, Held and Reserved is set, only placed orders are selected.
	AnyState bool
	// Refused selects only rejected orders.
	Refused bool
	// Unresolved selects only orders with an unknown outcome.
	Unresolved bool
	// Unsettled selects only placed orders whose charge is not final.
	Unsettled bool
	// Held selects only orders that were open when the ledger was copied or restored, and that are still on hold.
	Held bool
	// Reserved selects only orders for which money is still reserved, whether or not they have an outcome.
	Reserved bool
}

// reserved is an SQL condition that selects the orders for which money is still reserved. Only open orders and unsettled placed
// orders can have reserved money. Both groups have an index, which the condition uses.
const reserved = `id IN (SELECT id FROM orders WHERE state = {open} AND reserved_cents > 0
	UNION ALL SELECT id FROM orders WHERE state = {placed} AND settled = 0 AND reserved_cents > 0)`

// Position identifies the last row of a page in a list. The next page starts after this row. The zero value is the start of the
// list.
type Position struct {
	Time time.Time
	ID   string
}

func (f Filter) clauses() *clauses {
	c := &clauses{all: []string{"TRUE"}}
	f.addLabels(c)
	if f.Owner != nil {
		c.addCondition("owner = %s", *f.Owner)
	}
	if f.Generation != "" {
		c.addCondition("generation_id = %s", f.Generation)
	}
	if f.ModelID != "" {
		c.addCondition("model_id = %s", f.ModelID)
	}
	if !f.Since.IsZero() {
		c.addCondition("order_time >= %s", f.Since.UnixMicro())
	}
	f.addStates(c)
	if f.Reserved {
		c.addCondition(reserved)
	}
	if f.Held {
		c.addCondition("id IN (SELECT id FROM orders WHERE state = {open} AND held = 1)")
	}
	switch {
	case f.Unresolved:
		c.addCondition("state = {open}")
	case f.Refused:
		c.addCondition("state = {refused}")
	case f.Reserved, f.Held, f.AnyState:
	case f.Unsettled:
		c.addCondition("state = {placed} AND settled = 0")
	default:
		c.addCondition("state = {placed}")
	}
	return c
}

// addLabels adds conditions to c, so that only orders with all labels in f.Labels are selected. For the first label, the query
// joins the labels table. It filters and sorts by the columns of that table, which also contain the order's owner and time.
func (f Filter) addLabels(c *clauses) {
	for n, name := range slices.Sorted(maps.Keys(f.Labels)) {
		if n > 0 {
			c.addCondition("EXISTS (SELECT 1 FROM labels AS other WHERE other.order_id = id AND other.name = %s AND other.value = %s)", name, f.Labels[name])
			continue
		}
		c.addCondition("id = order_id AND name = %s AND value = %s", name, f.Labels[name])
		if f.Owner != nil {
			c.addCondition("order_owner = %s", *f.Owner)
		}
	}
}

// pageQuery returns the tables and conditions of the query for one page of the list. The page starts after a position.
func (f Filter) pageQuery(after Position, limit int) (tables string, c *clauses) {
	tables, position := "orders", "order_time, id"
	if len(f.Labels) > 0 {
		tables, position = "labels CROSS JOIN orders", "label_time, order_id"
	}
	c = f.clauses()
	if after.ID != "" {
		c.addCondition("("+position+") < (%s, %s)", after.Time.UnixMicro(), after.ID)
	}
	c.addCondition("TRUE ORDER BY "+strings.ReplaceAll(position, ",", " DESC,")+" DESC LIMIT %s", limit)
	return tables, c
}

// addStates adds the condition for the states of generations. If the filter selects only states that few orders have, addStates
// also adds the condition of the partial index for these states, so that the database can use the index.
func (f Filter) addStates(c *clauses) {
	any := &clauses{args: c.args}
	for _, status := range f.Statuses {
		any.addCondition("deleted = 0 AND status = %s", status)
	}
	if f.Existing {
		any.addCondition("deleted = 0")
	}
	if f.Deleted {
		any.addCondition("deleted = 1")
	}
	if len(any.all) == 0 {
		return
	}
	c.all, c.args = append(c.all, "("+strings.Join(any.all, " OR ")+")"), any.args
	switch {
	case f.Existing || f.Deleted:
	case f.selectsOnly(lifecycle.Unseen, lifecycle.Queued, lifecycle.Running):
		c.addCondition("settled = 0")
	case f.selectsOnly(lifecycle.Failed, lifecycle.Refunded):
		c.addCondition("failed_time <> 0")
	}
}

// selectsOnly reports whether the given statuses include every status in f.Statuses.
func (f Filter) selectsOnly(statuses ...lifecycle.Status) bool {
	return !slices.ContainsFunc(f.Statuses, func(s lifecycle.Status) bool { return !slices.Contains(statuses, s) })
}

// List returns at most limit orders that match the filter f, newest first, starting after the given position.
func (l *Ledger) List(ctx context.Context, f Filter, after Position, limit int) ([]Order, error) {
	tables, c := f.pageQuery(after, limit)
	return l.readOrders(ctx, tables, c.String(), c.args...)
}
