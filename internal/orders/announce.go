package orders

import (
	"context"
	"time"
)

const (
	announceInterval = time.Second            // maximum time between two reads of the ledger
	announcePause    = 100 * time.Millisecond // minimum time between two reads
	visibleTime      = 15 * time.Second       // maximum age of changes that are read again; longer than any transaction, because a change becomes visible only when it is committed
)

// Announce reads the latest changes from the ledger and passes them to the hub, until ctx is done. The changes are terminal
// states, deletions and, if a watch needs them, new orders. Any process may have recorded them.
func (o *Orders) Announce(ctx context.Context) {
	answered := time.Now()
	for o.awaitPlaced(ctx) {
		began := time.Now()
		if !o.Hub.HasWatches() || o.announce(ctx, began.Sub(answered)+visibleTime) == nil {
			answered = began
		}
	}
}

// announce passes the rows that changed within the given time to the hub.
func (o *Orders) announce(ctx context.Context, within time.Duration) error {
	ended, err := o.Ledger.RecentlyEnded(ctx, within)
	if err != nil {
		return err
	}
	o.Hub.Ended(ended)
	if !o.Hub.WatchesOrders() {
		return nil
	}
	placed, err := o.Ledger.RecentlyPlaced(ctx, within)
	if err == nil {
		o.Hub.Placed(placed)
	}
	return err
}

// awaitPlaced waits until this process has placed an order, or until announceInterval has passed. It returns false if ctx is
// done first.
func (o *Orders) awaitPlaced(ctx context.Context) bool {
	if !sleep(ctx, announcePause) {
		return false
	}
	timer := time.NewTimer(announceInterval - announcePause)
	defer timer.Stop()
	select {
	case <-o.placed:
	case <-timer.C:
	case <-ctx.Done():
		return false
	}
	return true
}
