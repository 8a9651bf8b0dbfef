package catalog

import (
	"slices"
	"time"
)

const (
	receiptTime  = 24 * time.Hour // how long this process knows what an idempotency key stands for
	receiptCount = 100_000        // and of how many idempotency keys
	receiptBytes = 64 << 20       // and in how much memory, about
	receiptSweep = time.Minute    // between two looks for what is too old
	receiptSize  = 600            // bytes of one, beside its texts
)

// receipts are the orders that this process has seen succeed: of each only what a repeat of its idempotency
// key needs. Where there are too many, whoever has the most loses its oldest.
type receipts struct {
	of    map[owner][]*submission // oldest first
	count int
	bytes int
	swept time.Time
}

// owner is whose orders are counted together: an API key's, and behind a held one those of each of its owners.
type owner struct {
	tenant Tenant
	name   string
}

// receiptOf is what is kept of an order that was placed: neither inputs nor result.
func receiptOf(g Generation, placed time.Time) *Receipt {
	return &Receipt{Placed: placed, Generation: Generation{
		ID: g.ID, ModelID: g.ModelID, State: g.State, Status: g.Status, CostCents: g.CostCents, CreateTime: g.CreateTime, ObserveTime: g.ObserveTime,
	}}
}

// size is about how many bytes an order takes that was placed.
func (s *submission) size() int {
	g := &s.receipt.Generation
	return receiptSize + len(s.id.key) + len(g.ID) + len(g.ModelID) + len(g.Status)
}

// keep takes in an order that was placed, and gives those that must go for it.
func (r *receipts) keep(sub *submission) (gone []*submission) {
	r.of[sub.owner] = append(r.of[sub.owner], sub)
	r.count++
	r.bytes += sub.size()
	for r.count > receiptCount || r.bytes > receiptBytes {
		gone = append(gone, r.drop(r.largest(), 1)...)
	}
	return gone
}

// old gives the orders that are too old, and looks for them once a minute.
func (r *receipts) old(now time.Time) (gone []*submission) {
	if now.Sub(r.swept) < receiptSweep {
		return nil
	}
	r.swept = now
	for whose, all := range r.of {
		n := slices.IndexFunc(all, func(s *submission) bool { return now.Sub(s.receipt.Placed) < receiptTime })
		if n < 0 {
			n = len(all)
		}
		gone = append(gone, r.drop(whose, n)...)
	}
	return gone
}

// largest is who has the most.
func (r *receipts) largest() (whose owner) {
	for other, all := range r.of {
		if len(all) > len(r.of[whose]) {
			whose = other
		}
	}
	return whose
}

// drop takes out the n oldest orders of an owner.
func (r *receipts) drop(whose owner, n int) []*submission {
	gone, rest := r.of[whose][:n], r.of[whose][n:]
	if r.of[whose] = rest; len(rest) == 0 {
		delete(r.of, whose)
	}
	for _, sub := range gone {
		r.count--
		r.bytes -= sub.size()
	}
	return gone
}
