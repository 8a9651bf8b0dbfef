package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

const (
	pruneInterval     = time.Minute
	retentionInterval = time.Hour
	maxPlacedOrders   = 100_000 // maximum number of finished orders in an in-memory ledger
	expireStep        = 8       // maximum number of orders in one transaction; small, because the transaction locks their owners' budgets
)

// Prune returns the kind of a periodic job that deletes old rows. The job also calls [ledger.Ledger.Expire], which deletes the
// inputs of orders that can no longer be resent, and counts their reserved price as unconfirmed.
func Prune(led *ledger.Ledger) Kind {
	return Kind{Name: "prune", Interval: pruneInterval, Slots: 1, MinRetry: pruneInterval, MaxRetry: pruneInterval, Do: func(ctx context.Context, _ ledger.Job) (ledger.Outcome, error) {
		expired := expireOrders(ctx, led)
		_, refused := led.ForgetRefused(ctx)
		_, pruned := led.Prune(ctx, maxPlacedOrders)
		return ledger.Outcome{}, errors.Join(expired, refused, pruned, led.ForgetEvents(ctx))
	}}
}

// expireOrders calls [ledger.Ledger.Expire] until it has updated every order that can no longer be resent. Each call updates at
// most expireStep orders.
func expireOrders(ctx context.Context, led *ledger.Ledger) (err error) {
	for moved := expireStep; moved == expireStep && err == nil; {
		moved, err = led.Expire(ctx, expireStep)
	}
	return err
}

// Retention returns the kind of the periodic job that erases the content of orders after their team's retention time.
func Retention(led *ledger.Ledger) Kind {
	return Kind{Name: "retention", Interval: retentionInterval, Slots: 1, MinRetry: pruneInterval, MaxRetry: pruneInterval, Do: func(ctx context.Context, _ ledger.Job) (ledger.Outcome, error) {
		_, err := led.Retain(ctx)
		return ledger.Outcome{}, err
	}}
}
