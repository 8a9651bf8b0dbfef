package ledger

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
)

// calm is the minimum time since the latest failed operation after which a successful operation shows that the database is
// available again. A shorter time is not enough: in a read-only or full database, only some operations fail, so a success can
// follow a failure immediately.
const calm = 5 * time.Second

// availability logs when the database becomes unavailable, and when it is available again.
type availability struct {
	logger *slog.Logger
	since  atomic.Int64 // time of the first failure in Unix nanoseconds; zero while the database is available
	latest atomic.Int64 // time of the latest failure
}

// recordResult updates the availability with the result of a database operation.
func (a *availability) recordResult(err error) {
	now := time.Now().UnixNano()
	if away, ok := errors.AsType[*Unavailable](err); ok && !away.Locked {
		a.latest.Store(now)
		if a.since.CompareAndSwap(0, now) {
			a.logger.Warn("ledger unavailable", "error", away.Err, "effect", "new orders are rejected; open watches continue")
		}
		return
	}
	since := a.since.Load()
	if err == nil && since != 0 && now-a.latest.Load() >= int64(calm) && a.since.CompareAndSwap(since, 0) {
		a.logger.Info("ledger available", "after", time.Duration(now-since).Round(time.Second).String())
	}
}
