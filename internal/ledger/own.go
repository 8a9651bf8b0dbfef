package ledger

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// Attribution is the owner, the caller, the model and the labels of an order. Only an operator changes it.
type Attribution struct {
	Owner, Caller, Model string
	Labels               map[string]string
	Gone                 bool // the catalog no longer has the generation
	// Recorded is the etag of the recorded state. It is empty if even a repeat of this state may change the order. Only
	// [Ledger.Attributions] and [Ledger.RecentlyPlaced] set it.
	Recorded string
}

// Attribution returns the attribution of the order.
func (o Order) Attribution() Attribution {
	return Attribution{Owner: o.Owner, Caller: o.Caller, Model: o.ModelID, Labels: o.Labels, Gone: o.IsGone()}
}

// Equal reports whether two attributions are equal.
func (a Attribution) Equal(b Attribution) bool {
	return a.Owner == b.Owner && a.Caller == b.Caller && a.Model == b.Model && a.Gone == b.Gone && maps.Equal(a.Labels, b.Labels)
}

// Generations are looked up by their ids, because the index of owners would read all orders of an owner.
const (
	ofGeneration  = `generation_id = $1`
	ofGenerations = `generation_id {in ids}`
	whoseOwner    = `owner || '' = %s`
)

// Own returns the orders of generations that belong to an owner, or to any owner if owner is nil, by generation.
// A generation of another owner and one that the ledger does not know are missing alike.
func (l *Ledger) Own(ctx context.Context, owner *string, generations ...string) (map[string]Order, error) {
	own := make(map[string]Order, len(generations))
	if len(generations) == 0 {
		return own, nil
	}
	c := ofOwner(owner, generations)
	found, err := l.read(ctx, "orders", c.String(), c.args...)
	for _, o := range found {
		own[o.Generation] = o
	}
	return own, err
}

// Attributions returns the attributions of the orders that [Ledger.Own] returns. Every call that names a generation needs
// them, and SQLite allocates for each column of a query.
func (l *Ledger) Attributions(ctx context.Context, owner *string, generations ...string) (map[string]Attribution, error) {
	own := make(map[string]Attribution, len(generations))
	if len(generations) == 0 {
		return own, nil
	}
	c := ofOwner(owner, generations)
	err := l.reading(ctx, func(tx *transaction) error { return attributions(tx, own, c.String(), c.args...) })
	return own, err
}

// recentlyPlaced selects orders by the time when their generations were recorded, so that recovered orders are included.
const recentlyPlaced = `state = {placed} AND placed_time <> 0 AND placed_time > {now} - $1 ORDER BY placed_time DESC LIMIT $2`

// maxRecent bounds the orders that [Ledger.RecentlyPlaced] and [Ledger.RecentlyEnded] return.
const maxRecent = 10_000

// RecentlyPlaced returns the attributions of the newest orders that got their generations within the given duration, by the
// clock of the ledger.
func (l *Ledger) RecentlyPlaced(ctx context.Context, within time.Duration) (placed map[string]Attribution, err error) {
	placed = map[string]Attribution{}
	err = l.reading(ctx, func(tx *transaction) error {
		return attributions(tx, placed, recentlyPlaced, within.Microseconds(), maxRecent)
	})
	return placed, err
}

// recentlyEnded selects orders behind a shared API key by the time when a process saw their generations end.
const recentlyEnded = `ended_time <> 0 AND ended_time > {now} - $1 AND namespace <> api_key ORDER BY ended_time DESC LIMIT $2`

// State is the recorded state of a generation.
type State struct {
	Status lifecycle.Status
	Gone   bool // the catalog no longer has the generation
}

// RecentlyEnded returns the states of the generations behind a shared API key that any process has seen end, or end in another
// way such as a refund, within the given duration, by the clock of the ledger.
func (l *Ledger) RecentlyEnded(ctx context.Context, within time.Duration) (ended map[string]State, err error) {
	ended = map[string]State{}
	err = l.reading(ctx, func(tx *transaction) error {
		return tx.query(func(row scanner) error {
			generation, one := "", State{}
			err := row.Scan(&generation, &one.Status, &one.Gone)
			ended[generation] = one
			return err
		}, `SELECT generation_id, status, deleted = 1 FROM orders WHERE `+recentlyEnded, within.Microseconds(), maxRecent)
	})
	return ended, err
}

// Generations returns the ids of the latest generations whose orders match a filter, at most the given number.
func (l *Ledger) Generations(ctx context.Context, f Filter, most int) (ids []string, err error) {
	tables, c := f.page(Position{}, most)
	return ask(ctx, l, scanText, `SELECT generation_id FROM `+tables+` WHERE `+c.String(), c.args...)
}

// ofOwner returns the condition of the orders of generations that belong to an owner, or to any owner if owner is nil.
func ofOwner(owner *string, generations []string) *clauses {
	c := &clauses{all: []string{ofGenerations}, args: []any{asList(generations)}}
	if len(generations) == 1 {
		c = &clauses{all: []string{ofGeneration}, args: []any{generations[0]}}
	}
	if owner != nil {
		c.add(whoseOwner, *owner)
	}
	return c
}

// attributions adds the attributions of the orders that match a condition to own, by generation.
func attributions(tx *transaction, own map[string]Attribution, condition string, args ...any) error {
	return tx.query(func(row scanner) error {
		one, generation, record := Attribution{}, "", ""
		err := row.Scan(&generation, &one.Owner, &one.Caller, &one.Model, &one.Gone, &record, labels{&one.Labels})
		one.Recorded = etagOf(record)
		own[generation] = one
		return err
	}, `SELECT generation_id, owner, caller, model_id, deleted = 1,
		CASE WHEN gone = 1 OR failed_time > 0 AND settled = 0 THEN '' ELSE COALESCE(record, '') END, {labels of order} FROM orders WHERE `+condition, args...)
}

// etagOf returns the etag in a record, or an empty string if there is no record.
func etagOf(record string) string {
	var version struct{ Etag string }
	if record == "" || json.Unmarshal([]byte(record), &version) != nil {
		return ""
	}
	return version.Etag
}
