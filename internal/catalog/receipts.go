package catalog

import (
	"slices"
	"time"
)

const (
	receiptTTL      = 24 * time.Hour // how long this process remembers the receipt of an idempotency key
	maxReceipts     = 100_000        // of all idempotency keys
	maxReceiptBytes = 64 << 20       // in memory, about
	expireEvery     = time.Minute    // between two searches for expired receipts
	receiptSize     = 600            // bytes of one, beside its texts
)

// receipts keeps the orders that this process has seen succeed: of each only what a repeat of its
// idempotency key needs. Where there are too many, the owner with the most loses its oldest.
type receipts struct {
	byOwner   map[owner][]*submission // oldest first
	count     int
	bytes     int
	expiredAt time.Time
}

// owner has the orders that are counted together: an API key, or behind a held one each of its owners.
type owner struct {
	tenant Tenant
	name   string
}

// receiptOf makes the receipt of a placed order, without inputs and result.
func receiptOf(g Generation, placed time.Time) *Receipt {
	return &Receipt{Placed: placed, Generation: Generation{
		ID: g.ID, ModelID: g.ModelID, State: g.State, Status: g.Status, CostCents: g.CostCents, CreateTime: g.CreateTime, ObserveTime: g.ObserveTime,
	}}
}

// size is about how many bytes a placed order takes.
func (s *submission) size() int {
	g := &s.receipt.Generation
	return receiptSize + len(s.key.idempotencyKey) + len(g.ID) + len(g.ModelID) + len(g.Status)
}

// add keeps a placed order, and gives those that are evicted for it.
func (r *receipts) add(sub *submission) (evicted []*submission) {
	r.byOwner[sub.owner] = append(r.byOwner[sub.owner], sub)
	r.count++
	r.bytes += sub.size()
	for r.count > maxReceipts || r.bytes > maxReceiptBytes {
		evicted = append(evicted, r.evict(r.largest(), 1)...)
	}
	return evicted
}

// expired evicts the expired orders and gives them. It searches once a minute.
func (r *receipts) expired(now time.Time) (evicted []*submission) {
	if now.Sub(r.expiredAt) < expireEvery {
		return nil
	}
	r.expiredAt = now
	for by, all := range r.byOwner {
		n := slices.IndexFunc(all, func(s *submission) bool { return now.Sub(s.receipt.Placed) < receiptTTL })
		if n < 0 {
			n = len(all)
		}
		evicted = append(evicted, r.evict(by, n)...)
	}
	return evicted
}

// largest is the owner with the most orders.
func (r *receipts) largest() (by owner) {
	for other, all := range r.byOwner {
		if len(all) > len(r.byOwner[by]) {
			by = other
		}
	}
	return by
}

// evict removes the n oldest orders of an owner.
func (r *receipts) evict(by owner, n int) []*submission {
	evicted, kept := r.byOwner[by][:n], r.byOwner[by][n:]
	if r.byOwner[by] = kept; len(kept) == 0 {
		delete(r.byOwner, by)
	}
	for _, sub := range evicted {
		r.count--
		r.bytes -= sub.size()
	}
	return evicted
}
