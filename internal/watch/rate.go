package watch

import (
	"context"
	"crypto/rand"
	"time"
)

const (
	attendInterval = 10 * time.Second
	attendTimeout  = 5 * time.Second // timeout for one update of this replica's row in the ledger
)

// DivideRate divides the poll rate among the replicas that have pollers, until ctx is done. DivideRate renews this replica's
// row in the ledger while the replica has pollers, and otherwise removes the row. While the ledger is unavailable, the last
// known number of replicas applies.
func (h *Hub) DivideRate(ctx context.Context) {
	replica := rand.Text()
	defer h.updateRow(context.WithoutCancel(ctx), replica, false)
	for ctx.Err() == nil {
		h.updateRow(ctx, replica, h.hasPollers())
		select {
		case <-time.After(attendInterval):
		case <-h.began:
		case <-ctx.Done():
		}
	}
}

// updateRow renews this replica's row in the ledger if isPolling is true, and otherwise removes the row. It then stores the
// number of replicas that have rows, or 1 if none has.
func (h *Hub) updateRow(ctx context.Context, replica string, isPolling bool) {
	ctx, cancel := context.WithTimeout(ctx, attendTimeout)
	defer cancel()
	if n, err := h.cfg.Ledger.Attend(ctx, replica, isPolling); err == nil {
		h.replicas.Store(int64(max(1, n)))
	}
}

// hasPollers reports whether the hub has pollers.
func (h *Hub) hasPollers() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.tenants) > 0
}

// pollRate returns this replica's share of the poll rate for one API key.
func (h *Hub) pollRate() float64 { return h.cfg.Rate / float64(h.replicas.Load()) }
