package ledger

import (
	"context"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// byName selects orders of all owners whose order ID, generation ID or idempotency key is $1. Each subquery uses an index. The
// index on idempotency keys starts with the namespace, so the key is looked up in each namespace. Rejected orders are in
// another index.
const byName = `id IN (
	SELECT id FROM orders WHERE id = $1
	UNION ALL SELECT id FROM orders WHERE generation_id = $1
	UNION ALL SELECT id FROM (WITH RECURSIVE each_of (namespace) AS (SELECT MIN(namespace) FROM orders WHERE state <> {refused}
		UNION ALL SELECT (SELECT MIN(namespace) FROM orders WHERE state <> {refused} AND namespace > each_of.namespace) FROM each_of WHERE each_of.namespace IS NOT NULL)
		SELECT orders.id FROM each_of JOIN orders ON orders.namespace = each_of.namespace AND orders.idempotency_key = $1 AND orders.state <> {refused}) AS keyed
	UNION ALL SELECT id FROM orders WHERE state = {refused} AND idempotency_key = $1)
	ORDER BY order_time DESC, id DESC LIMIT $2`

// Find returns at most limit orders that match the given name, latest first. The name is an order ID, a generation ID, or an
// idempotency key, which several owners may have used.
func (l *Ledger) Find(ctx context.Context, name string, limit int) ([]Order, error) {
	return l.readOrders(ctx, "orders", byName, name, limit)
}

// UnresolvedOwners returns the owners of orders with an unknown outcome.
func (l *Ledger) UnresolvedOwners(ctx context.Context) ([]string, error) {
	return askList(ctx, l, scanText, `SELECT DISTINCT owner FROM orders WHERE state = {open} ORDER BY owner`)
}

// ResendUntil returns the end of an order's resend window or its expire time, whichever is earlier. mayResend reports whether
// the order may be resent: it has no outcome, is not on hold, has not expired, and was sent with apiKey. An empty apiKey means
// any API key.
func (l *Ledger) ResendUntil(o Order, apiKey string) (until time.Time, mayResend bool) {
	mayResend = o.State == lifecycle.Open && !o.Expired && !o.Held && (apiKey == "" || o.APIKey == apiKey)
	until = o.Time.Add(l.window)
	if !o.ExpireTime.IsZero() && o.ExpireTime.Before(until) {
		until = o.ExpireTime
	}
	return until, mayResend
}
