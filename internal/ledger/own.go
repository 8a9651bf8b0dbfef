package ledger

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// Attribution contains the owner, caller, model and labels of an order, and whether its generation is deleted.
type Attribution struct {
	Owner, Caller, Model string
	Labels               map[string]string
	Deleted              bool // whether the catalog no longer has the generation
	// Recorded is the etag of the recorded state. It is empty if the generation is presumed deleted, or has failed and is not
	// settled, because recording the same state again could then change the order. Only [Ledger.Attributions] and
	// [Ledger.RecentlyPlaced] set it.
	Recorded string
}

// Attribution returns the attribution of the order.
func (o Order) Attribution() Attribution {
	return Attribution{Owner: o.Owner, Caller: o.Caller, Model: o.ModelID, Labels: o.Labels, Deleted: o.IsDeleted()}
}

// Equal reports whether two attributions are equal.
func (a Attribution) Equal(b Attribution) bool {
	return a.Owner == b.Owner && a.Caller == b.Caller && a.Model == b.Model && a.Deleted == b.Deleted && maps.Equal(a.Labels, b.Labels)
}

// whoseOwner compares an expression instead of the column owner, so that the database can't use the index on owners. With that
// index, the database would read all of the owner's orders instead of selecting the rows by generation.
const (
	ofGeneration  = `generation_id = $1`
	ofGenerations = `generation_id {in ids}`
	whoseOwner    = `owner || '' = %s`
)

// Own returns the orders that created the given generations, keyed by generation ID. If owner is not nil, it omits the orders
// of other owners. It also omits generations that the ledger does not know.
func (l *Ledger) Own(ctx context.Context, owner *string, generations ...string) (map[string]Order, error) {
	own := make(map[string]Order, len(generations))
	if len(generations) == 0 {
		return own, nil
	}
	c := ownerCondition(owner, generations)
	found, err := l.readOrders(ctx, "orders", c.String(), c.args...)
	for _, o := range found {
		own[o.Generation] = o
	}
	return own, err
}

// Attributions returns the attributions of the orders that [Ledger.Own] would return. It reads fewer columns, because every
// call about a generation uses it and SQLite allocates memory for each column.
func (l *Ledger) Attributions(ctx context.Context, owner *string, generations ...string) (map[string]Attribution, error) {
	own := make(map[string]Attribution, len(generations))
	if len(generations) == 0 {
		return own, nil
	}
	c := ownerCondition(owner, generations)
	err := l.runRead(ctx, func(tx *transaction) error { return readAttributions(tx, own, c.String(), c.args...) })
	return own, err
}

// recentlyPlaced selects orders by the time when their generation was recorded. It does not use the time when the order was
// written, because an order that is resent may have been written long before.
const recentlyPlaced = `state = {placed} AND placed_time <> 0 AND placed_time > {now} - $1 ORDER BY placed_time DESC LIMIT $2`

// maxRecent is the maximum number of orders that [Ledger.RecentlyPlaced] and [Ledger.RecentlyEnded] return.
const maxRecent = 10_000

// RecentlyPlaced returns the attributions of orders whose generations were recorded within the given time before now, by the
// database's clock. The map is keyed by generation ID. If there are more than maxRecent such orders, it contains the latest
// ones.
func (l *Ledger) RecentlyPlaced(ctx context.Context, within time.Duration) (placed map[string]Attribution, err error) {
	placed = map[string]Attribution{}
	err = l.runRead(ctx, func(tx *transaction) error {
		return readAttributions(tx, placed, recentlyPlaced, within.Microseconds(), maxRecent)
	})
	return placed, err
}

// recentlyEnded selects at most $2 orders that used the shared API key and whose latest end was recorded within the last $1
// microseconds, latest first. An end is a terminal state, a refund or a deletion.
const recentlyEnded = `ended_time <> 0 AND ended_time > {now} - $1 AND namespace <> api_key ORDER BY ended_time DESC LIMIT $2`

// State is the recorded state of a generation.
type State struct {
	Status  lifecycle.Status
	Deleted bool // whether the catalog no longer has the generation
}

// RecentlyEnded returns the states of generations that were ordered with the shared API key and have ended. It selects
// generations whose end was recorded within the given time before now, by the database's clock. An end is a terminal state, a
// refund or a deletion. If there are more than maxRecent such generations, it returns the latest ones.
func (l *Ledger) RecentlyEnded(ctx context.Context, within time.Duration) (ended map[string]State, err error) {
	ended = map[string]State{}
	err = l.runRead(ctx, func(tx *transaction) error {
		return tx.queryRows(func(row scanner) error {
			generation, one := "", State{}
			err := row.Scan(&generation, &one.Status, &one.Deleted)
			ended[generation] = one
			return err
		}, `SELECT generation_id, status, deleted = 1 FROM orders WHERE `+recentlyEnded, within.Microseconds(), maxRecent)
	})
	return ended, err
}

// Generations returns the generation IDs of at most limit orders that match a filter, newest first.
func (l *Ledger) Generations(ctx context.Context, f Filter, limit int) (ids []string, err error) {
	tables, c := f.pageQuery(Position{}, limit)
	return askList(ctx, l, scanText, `SELECT generation_id FROM `+tables+` WHERE `+c.String(), c.args...)
}

// ownerCondition returns the SQL condition that selects the orders that created the given generations. If owner is not nil, it
// selects only that owner's orders.
func ownerCondition(owner *string, generations []string) *clauses {
	c := &clauses{all: []string{ofGenerations}, args: []any{asList(generations)}}
	if len(generations) == 1 {
		c = &clauses{all: []string{ofGeneration}, args: []any{generations[0]}}
	}
	if owner != nil {
		c.addCondition(whoseOwner, *owner)
	}
	return c
}

// readAttributions reads the attributions of the orders that match a condition, and stores them in the map attributed, keyed by
// generation ID.
func readAttributions(tx *transaction, attributed map[string]Attribution, condition string, args ...any) error {
	return tx.queryRows(func(row scanner) error {
		one, generation, record := Attribution{}, "", ""
		err := row.Scan(&generation, &one.Owner, &one.Caller, &one.Model, &one.Deleted, &record, labels{&one.Labels})
		one.Recorded = etagOf(record)
		attributed[generation] = one
		return err
	}, `SELECT generation_id, owner, caller, model_id, deleted = 1,
		CASE WHEN presumed_deleted = 1 OR failed_time > 0 AND settled = 0 THEN '' ELSE COALESCE(record, '') END, {labels of order} FROM orders WHERE `+condition, args...)
}

// etagOf returns the etag in a record, or an empty string if the record has no etag.
func etagOf(record string) string {
	var version struct{ Etag string }
	if record == "" || json.Unmarshal([]byte(record), &version) != nil {
		return ""
	}
	return version.Etag
}
