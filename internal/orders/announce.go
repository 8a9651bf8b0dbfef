package orders

import (
	"context"
	"time"
)

const (
	announceInterval = time.Second            // longest time between two reads of the ledger
	announcePause    = 100 * time.Millisecond // shortest time between two reads
	visibleTime      = 15 * time.Second       // longer than a transaction lasts, because a row becomes visible after its time
)

// Announce passes new orders and ended generations of all processes to the hub, until ctx is done. Watches of orders need the
// new orders.
func (o *Orders) Announce(ctx context.Context) {
	answered := time.Now()
	for o.awaitPlaced(ctx) {
		began := time.Now()
		if !o.Hub.HasWatches() || o.announce(ctx, began.Sub(answered)+visibleTime) == nil {
			answered = began
		}
	}
}

// announce passes the rows that have changed within the given duration to the hub.
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

// awaitPlaced waits until the next read of the ledger. It returns false if ctx is done.
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
