package orders

import (
	"context"
	"time"
)

const (
	announceInterval = time.Second            // longest time between two reads of the ledger
	announcePause    = 100 * time.Millisecond // shortest time between two reads
	placingTime      = 15 * time.Second       // longer than a transaction lasts, because an order becomes visible after its time
)

// Announce passes the orders that any process has placed to the hub, until ctx is done. Watches of orders get them from here.
func (o *Orders) Announce(ctx context.Context) {
	answered := time.Now()
	for o.awaitPlaced(ctx) {
		began := time.Now()
		if !o.Hub.WatchesOrders() {
			answered = began
			continue
		}
		if placed, err := o.Ledger.RecentlyPlaced(ctx, began.Sub(answered)+placingTime); err == nil {
			o.Hub.Placed(placed)
			answered = began
		}
	}
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
