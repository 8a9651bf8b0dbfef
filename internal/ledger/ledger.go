// Package ledger stores orders in an SQL database, with their budgets, events, jobs and an audit log. An order has a caller, an
// idempotency key, a price and an outcome.
package ledger

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// Ledger stores orders. All times are from the database's clock.
type Ledger struct {
	dialect  dialect
	writes   *pool
	reads    *pool         // pool for queries outside transactions; the same pool as writes, unless the ledger is a SQLite file
	lock     *os.File      // open lock file next to a SQLite file; nil for other databases
	window   time.Duration // period after the first attempt in which an order may be resent
	refunds  time.Duration // time after a failure within which a refund may arrive
	catalog  string
	kind     string // kind of the ledger; see [Kind]
	events   *EventConfig
	audited  func(context.Context, AuditLine) // called with each line of the audit log after the line is committed
	jobAdded chan struct{}                    // signals that a job was written; capacity 1
	contents bool                             // whether this process copies results
	copied   time.Time                        // time when the ledger became a copy; zero if it is not a copy

	statements, commits operation

	available availability

	// Counts contains the counters of this process. They are zero when the process starts.
	Counts Counts
	// AccountUnknown is true until Easel has verified that the shared API key belongs to the ledger's account; see
	// [Ledger.BelongsTo]. No order is sent while it is true.
	AccountUnknown atomic.Bool
}

// Counts contains counters of problems that an operator should know about.
type Counts struct {
	Faults atomic.Int64 // number of contradictions between the catalog and the ledger
	Dearer atomic.Int64 // number of charges above the quoted price
}

// IsDurable reports whether the ledger outlives its process.
func (l *Ledger) IsDurable() bool { return IsDurable(l.kind) }

// CopyTime returns the time when the ledger became a copy of another one, or the zero time if it is not a copy.
func (l *Ledger) CopyTime() time.Time { return l.copied }

// IsCopy reports whether the ledger is a copy of another ledger. The original may have orders that the copy lacks. Therefore,
// an idempotency key that is unused in the copy may have an order in the original.
func (l *Ledger) IsCopy() bool { return !l.copied.IsZero() }

// IsShared reports whether several processes may use the ledger concurrently.
func (l *Ledger) IsShared() bool { return l.dialect.kind == postgresKind }

// Close closes the ledger.
func (l *Ledger) Close() (err error) {
	for _, db := range []*pool{l.reads, l.writes} {
		if db != nil {
			err = errors.Join(err, db.Close())
		}
	}
	if l.lock != nil {
		unlock(l.lock)
		if closed := l.lock.Close(); !errors.Is(closed, os.ErrClosed) { // Close may be called twice
			err = errors.Join(err, closed)
		}
	}
	return err
}

// unlock releases the lock of a file. Closing the file does not release the lock while a child process that has not called
// exec yet shares the descriptor.
func unlock(file *os.File) {
	if conn, err := file.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { _ = syscall.Flock(int(fd), syscall.LOCK_UN) }) // fails if the file is already closed
	}
}

// teams returns the teams in this process's configuration, keyed by owner.
func (l *Ledger) teams() map[string]Team {
	if l.events == nil {
		return nil
	}
	return l.events.Teams()
}

// IsSubscriber reports whether this process has an event receiver for an owner.
func (l *Ledger) IsSubscriber(owner string) bool { return l.teams()[owner].Subscribed }

// keepsCopies reports whether the copy of a result remains when its owner deletes the generation. If this process's
// configuration has teams, but not this owner, keepsCopies returns true, because another process may have a newer
// configuration. It returns false for anonymous callers, and if no teams are configured.
func (l *Ledger) keepsCopies(owner string) bool {
	teams := l.teams()
	team, known := teams[owner]
	return team.KeepDeleted || !known && owner != "" && len(teams) > 0
}

// wantsCopy reports whether a change to an order requires a copy of the result. This is the case if the generation has just
// succeeded and this process copies results. It returns false for erased orders and for orders with forwarded API keys. It also
// returns false if the generation was deleted and its owner does not keep copies.
func (l *Ledger) wantsCopy(before, after Order) bool {
	ended := before.Status != lifecycle.Succeeded && after.Status == lifecycle.Succeeded
	return l.contents && ended && !after.isForwarded() && !after.Erased && (!after.DeletedByCall || l.keepsCopies(after.Owner))
}
