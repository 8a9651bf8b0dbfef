package ledger

import (
	"context"
	"fmt"
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
	// ModelID is their model; "" is any.
	ModelID string
	// Statuses, Existing and Deleted are the states of their generations, any of them; none is every state. Existing
	// is every one that the catalog has, and Deleted those that it has no more, whose Statuses do not count.
	Statuses          []lifecycle.Status
	Existing, Deleted bool
	// Labels are theirs, all of them.
	Labels map[string]string
	// Unresolved chooses orders of unknown outcome.
	Unresolved bool
	// Unsettled chooses orders whose money may still move.
	Unsettled bool
}

// Position is a place in a list: the next page begins after it. The zero value is the beginning.
type Position struct {
	Time time.Time
	ID   string
}

// clauses collects the conditions of a query, with their arguments in the order in which they stand.
type clauses struct {
	all  []string
	args []any
}

// add adds a condition, in which each %s is an argument.
func (c *clauses) add(condition string, args ...any) {
	names := make([]any, len(args))
	for n := range args {
		names[n] = fmt.Sprintf("$%d", len(c.args)+n+1)
	}
	c.all = append(c.all, fmt.Sprintf(condition, names...))
	c.args = append(c.args, args...)
}

// among adds the condition that a column has one of some values. The last one is repeated up to a power of two: each
// number of values would else be another statement to prepare.
func (c *clauses) among(column string, values []string) {
	var args []any
	for n := 0; n < len(values) || n&(n-1) != 0; n++ {
		args = append(args, values[min(n, len(values)-1)])
	}
	c.add(column+" IN (NULL"+strings.Repeat(", %s", len(args))+")", args...)
}

func (c *clauses) String() string { return strings.Join(c.all, " AND ") }

// clauses are the conditions of a filter.
func (f Filter) clauses() *clauses {
	c := &clauses{all: []string{"TRUE"}}
	if f.Owner != nil {
		c.add("owner = %s", *f.Owner)
	}
	if f.ModelID != "" {
		c.add("model_id = %s", f.ModelID)
	}
	f.states(c)
	for name, value := range f.Labels {
		c.add("EXISTS (SELECT 1 FROM labels WHERE order_id = orders.id AND name = %s AND value = %s)", name, value)
	}
	switch {
	case f.Unresolved:
		c.add("state = 1")
	case f.Unsettled:
		c.add("state = 2 AND settled = 0")
	default:
		c.add("state = 2")
	}
	return c
}

// states adds the condition of the states.
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
	if len(any.all) > 0 {
		c.all, c.args = append(c.all, "("+strings.Join(any.all, " OR ")+")"), any.args
	}
}

// List gives the newest orders that a filter chooses, after a position, with their labels.
func (l *Ledger) List(ctx context.Context, f Filter, after Position, most int) (all []Order, err error) {
	c := f.clauses()
	if after.ID != "" {
		c.add("(order_time < %s OR order_time = %s AND id < %s)", after.Time.UnixMicro(), after.Time.UnixMicro(), after.ID)
	}
	c.add("TRUE ORDER BY order_time DESC, id DESC LIMIT %s", most)
	err = l.reading(ctx, func(tx *transaction) error {
		all, err = l.labelled(tx, c)
		return err
	})
	return all, err
}

// UnresolvedOwners are the owners of orders of unknown outcome.
func (l *Ledger) UnresolvedOwners(ctx context.Context) (owners []string, err error) {
	err = l.inTransaction(ctx, func(tx *transaction) error {
		rows, err := tx.rows(`SELECT DISTINCT owner FROM orders WHERE state = 1 ORDER BY owner`)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }() // rows.Err tells more
		for rows.Next() {
			owner := ""
			if err := rows.Scan(&owner); err != nil {
				return err
			}
			owners = append(owners, owner)
		}
		return rows.Err()
	})
	return owners, err
}

// labelled reads the orders that conditions name, with their labels.
func (l *Ledger) labelled(tx *transaction, c *clauses) (all []Order, err error) {
	all, err = l.orders(tx, "", c.String(), c.args...)
	if err != nil || len(all) == 0 {
		return all, err
	}
	of, ids := map[string]map[string]string{}, &clauses{}
	for n := range all {
		all[n].Labels = map[string]string{}
		of[all[n].ID] = all[n].Labels
	}
	ids.among("order_id", slices.Collect(maps.Keys(of)))
	rows, err := tx.rows(`SELECT order_id, name, value FROM labels WHERE `+ids.String(), ids.args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err tells more
	for rows.Next() {
		var id, name, value string
		if err := rows.Scan(&id, &name, &value); err != nil {
			return nil, err
		}
		of[id][name] = value
	}
	return all, rows.Err()
}
