package ledger

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// Filter chooses orders: everything that is set must match.
type Filter struct {
	// Owner is whose orders they are; nil is everybody's.
	Owner *string
	// Owners are several of them; none is everybody.
	Owners []string
	// Generation is theirs; "" is any.
	Generation string
	// ModelID is their model; "" is any.
	ModelID string
	// Statuses, Existing and Deleted are the states of their generations, any of them; none is every state. Existing
	// is every one that the catalog has, and Deleted those that it has no more, whose Statuses do not count.
	Statuses          []lifecycle.Status
	Existing, Deleted bool
	// Labels are theirs, all of them.
	Labels map[string]string
	// Since is the time from which on they were written; zero is any.
	Since time.Time
	// AnyState chooses orders whatever their outcome, refused ones too. Without it and the next five they have placed
	// a generation.
	AnyState bool
	// Refused chooses orders that the catalog has refused.
	Refused bool
	// Unresolved chooses orders of unknown outcome.
	Unresolved bool
	// Unsettled chooses orders whose money may still move.
	Unsettled bool
	// Held chooses orders that were open when the ledger was copied, and that nothing has continued since.
	Held bool
	// Reserved chooses orders that have money reserved, of unknown outcome or not.
	Reserved bool
}

// reserved chooses orders by the indexes of those that are open and of those that are not settled: no other has money
// reserved.
const reserved = `id IN (SELECT id FROM orders WHERE state = {open} AND reserved_cents > 0
	UNION ALL SELECT id FROM orders WHERE state = {placed} AND settled = 0 AND reserved_cents > 0)`

// Position is a place in a list: the next page begins after it. The zero value is the beginning.
type Position struct {
	Time time.Time
	ID   string
}

// clauses are the conditions of a filter.
func (f Filter) clauses() *clauses {
	c := &clauses{all: []string{"TRUE"}}
	f.labels(c)
	if f.Owner != nil {
		c.add("owner = %s", *f.Owner)
	}
	if len(f.Owners) > 0 {
		c.among("owner", f.Owners)
	}
	if f.Generation != "" {
		c.add("generation_id = %s", f.Generation)
	}
	if f.ModelID != "" {
		c.add("model_id = %s", f.ModelID)
	}
	if !f.Since.IsZero() {
		c.add("order_time >= %s", f.Since.UnixMicro())
	}
	f.states(c)
	if f.Reserved {
		c.add(reserved)
	}
	if f.Held {
		c.add("id IN (SELECT id FROM orders WHERE state = {open} AND held = 1)")
	}
	switch {
	case f.Unresolved:
		c.add("state = {open}")
	case f.Refused:
		c.add("state = {refused}")
	case f.Reserved, f.Held, f.AnyState:
	case f.Unsettled:
		c.add("state = {placed} AND settled = 0")
	default:
		c.add("state = {placed}")
	}
	return c
}

// labels adds the conditions of labels. The first one leads to the orders: its rows have their owner and their time.
func (f Filter) labels(c *clauses) {
	for n, name := range slices.Sorted(maps.Keys(f.Labels)) {
		if n > 0 {
			c.add("EXISTS (SELECT 1 FROM labels AS other WHERE other.order_id = id AND other.name = %s AND other.value = %s)", name, f.Labels[name])
			continue
		}
		c.add("id = order_id AND name = %s AND value = %s", name, f.Labels[name])
		if f.Owner != nil {
			c.add("order_owner = %s", *f.Owner)
		}
	}
}

// page are the tables of a filter with its conditions, and of a page after a position.
func (f Filter) page(after Position, most int) (tables string, c *clauses) {
	tables, position := "orders", "order_time, id"
	if len(f.Labels) > 0 {
		tables, position = "labels CROSS JOIN orders", "label_time, order_id"
	}
	c = f.clauses()
	if after.ID != "" {
		c.add("("+position+") < (%s, %s)", after.Time.UnixMicro(), after.ID)
	}
	c.add("TRUE ORDER BY "+strings.ReplaceAll(position, ",", " DESC,")+" DESC LIMIT %s", most)
	return tables, c
}

// states adds the condition of the states. Those that few orders have are said by the condition of their index too.
func (f Filter) states(c *clauses) {
	any := &clauses{args: c.args}
	for _, status := range f.Statuses {
		any.add("deleted = 0 AND status = %s", status)
	}
	if f.Existing {
		any.add("deleted = 0")
	}
	if f.Deleted {
		any.add("deleted = 1")
	}
	if len(any.all) == 0 {
		return
	}
	c.all, c.args = append(c.all, "("+strings.Join(any.all, " OR ")+")"), any.args
	switch {
	case f.Existing || f.Deleted:
	case f.are(lifecycle.Unseen, lifecycle.Queued, lifecycle.Running):
		c.add("settled = 0")
	case f.are(lifecycle.Failed, lifecycle.Refunded):
		c.add("failed_time <> 0")
	}
}

// are reports whether a filter chooses no other states than these of generations that exist.
func (f Filter) are(statuses ...lifecycle.Status) bool {
	return !f.Existing && !slices.ContainsFunc(f.Statuses, func(s lifecycle.Status) bool { return !slices.Contains(statuses, s) })
}

// List gives the newest orders that a filter chooses, after a position, with their labels.
func (l *Ledger) List(ctx context.Context, f Filter, after Position, most int) ([]Order, error) {
	tables, c := f.page(after, most)
	return l.labelled(ctx, tables, c.String(), c.args...)
}
