package main

import (
	"context"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
)

// pausesReadAgain is how long a pause of another replica may stay unknown where the ledger does not notify.
const pausesReadAgain = 2 * time.Second

// followPauses closes the gate of the held API key while the catalog wants to be left alone, as another replica was asked
// to: also where nothing is polled here.
func followPauses(polls *ledger.Polls, client *catalog.Client, held catalog.Credential) func(context.Context) {
	return func(ctx context.Context) {
		for ctx.Err() == nil {
			apiKey := held.APIKeySum()
			changed, stop := polls.Changed(apiKey)
			for apiKey == held.APIKeySum() && ctx.Err() == nil { // it may be rotated
				if d, err := polls.PausedFor(ctx, apiKey); err == nil && d > 0 {
					client.Gate(held.Tenant).Pause(time.Now().Add(d))
				}
				waitFor(ctx, changed, pausesReadAgain)
			}
			stop()
		}
	}
}

// waitFor waits for a change, for so long at most.
func waitFor(ctx context.Context, changed <-chan struct{}, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
	}
}
