package orders

import (
	"context"
	"time"
)

const (
	changesInterval = time.Second            // maximum time between two reads of the ledger
	changesPause    = 100 * time.Millisecond // minimum time between two reads of the ledger
	visibleTime     = 15 * time.Second       // time by which each read overlaps the previous one; longer than any transaction, because a change becomes visible only when its transaction commits
)

// ReadChanges reads the latest changes from the ledger and passes them to the hub, until ctx is done. The changes are terminal
// states, deletions and, if a watch needs them, new orders. They include the changes that other replicas made.
func (o *Orders) ReadChanges(ctx context.Context) {
	answered := time.Now()
	for o.awaitPlaced(ctx) {
		began := time.Now()
		if !o.Hub.HasWatches() || o.readChanges(ctx, began.Sub(answered)+visibleTime) == nil {
			answered = began
		}
	}
}

// readChanges reads recent changes from the ledger and passes them to the hub. maxAge is the maximum age of the changes.
func (o *Orders) readChanges(ctx context.Context, maxAge time.Duration) error {
	ended, err := o.Ledger.RecentlyEnded(ctx, maxAge)
	if err != nil {
		return err
	}
	o.Hub.Ended(ended)
	if !o.Hub.WatchesOrders() {
		return nil
	}
	placed, err := o.Ledger.RecentlyPlaced(ctx, maxAge)
	if err == nil {
		o.Hub.Placed(placed)
	}
	return err
}

// awaitPlaced waits until this process has placed an order, or until changesInterval has passed. It waits for at least
// changesPause. It returns false if ctx is done first.
func (o *Orders) awaitPlaced(ctx context.Context) bool {
	if !sleep(ctx, changesPause) {
		return false
	}
	timer := time.NewTimer(changesInterval - changesPause)
	defer timer.Stop()
	select {
	case <-o.placed:
	case <-timer.C:
	case <-ctx.Done():
		return false
	}
	return true
}
