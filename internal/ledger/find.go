package ledger

import (
	"context"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// byName chooses orders by their id, their generation or their idempotency key, whosever it is. Each way seeks in an
// index: that of idempotency keys by one namespace after the other, and that of refused orders, which go after a day.
const byName = `id IN (
	SELECT id FROM orders WHERE id = $1
	UNION ALL SELECT id FROM orders WHERE generation_id = $1
	UNION ALL SELECT id FROM (WITH RECURSIVE each_of (namespace) AS (SELECT MIN(namespace) FROM orders WHERE state <> {refused}
		UNION ALL SELECT (SELECT MIN(namespace) FROM orders WHERE state <> {refused} AND namespace > each_of.namespace) FROM each_of WHERE each_of.namespace IS NOT NULL)
		SELECT orders.id FROM each_of JOIN orders ON orders.namespace = each_of.namespace AND orders.idempotency_key = $1 AND orders.state <> {refused}) AS keyed
	UNION ALL SELECT id FROM orders WHERE state = {refused} AND idempotency_key = $1)
	ORDER BY order_time DESC, id DESC LIMIT $2`

// Find gives the newest orders that a name may mean, with their labels: the ledger's own id, a generation, or an
// idempotency key, which each owner may have used.
func (l *Ledger) Find(ctx context.Context, name string, most int) ([]Order, error) {
	return l.labelled(ctx, "orders", byName, name, most)
}

// Owners returns all owners of orders.
func (l *Ledger) Owners(ctx context.Context) ([]string, error) {
	return ask(ctx, l, scanText, eachOwner("orders", "TRUE"))
}

// UnresolvedOwners are the owners of orders of unknown outcome.
func (l *Ledger) UnresolvedOwners(ctx context.Context) ([]string, error) {
	return ask(ctx, l, scanText, `SELECT DISTINCT owner FROM orders WHERE state = {open} ORDER BY owner`)
}

// ResendUntil is when the time is over in which an order of unknown outcome is sent again under the API key of now; where
// that is "" it may be in force. A held order, and one that is not sent again or not any more, has none.
func (l *Ledger) ResendUntil(o Order, apiKey string) (until time.Time, again bool) {
	again = o.State == lifecycle.Open && !o.Expired && !o.Held && (apiKey == "" || o.APIKey == apiKey)
	return o.Time.Add(l.window), again
}
