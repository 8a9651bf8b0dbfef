// Package ledger stores orders in an SQL database: the caller, the idempotency key, the price and the outcome of each
// order.
package ledger

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// Ledger stores orders. All its times are read from the database's clock.
type Ledger struct {
	dialect  dialect
	writes   *pool
	reads    *pool         // pool for queries outside transactions; equal to writes, except for a SQLite file
	lock     *os.File      // the locked file next to a file of SQLite; otherwise nil
	window   time.Duration // time in which an order may be resent
	refunds  time.Duration // time after a failure in which a refund may arrive
	catalog  string
	kind     string // see [Kind]
	outbox   *Outbox
	audited  func(context.Context, AuditLine) // see [Config]
	jobAdded chan struct{}                    // has a value after a job was written
	contents bool                             // whether results are copied
	copied   time.Time                        // see [Ledger.CopyTime]

	statements, commits operation

	available availability

	// Counts has the counters of this process since its start.
	Counts Counts
	// AccountUnknown is set until the account of a shared API key is known to be the account of the ledger: see
	// [Ledger.BelongsTo]. No order is sent while it is set.
	AccountUnknown atomic.Bool
}

// Counts has counters for operators.
type Counts struct {
	Faults atomic.Int64 // contradictions about an order
	Dearer atomic.Int64 // charges above the quote
}

// IsDurable reports whether the ledger outlives its process. An order that a durable ledger lacks was never placed.
func (l *Ledger) IsDurable() bool { return IsDurable(l.kind) }

// CopyTime returns the time when the ledger became a copy of another one, zero if it is not a copy.
func (l *Ledger) CopyTime() time.Time { return l.copied }

// IsCopy reports whether the ledger is a copy of another one. The other ledger may have orders that this one never had, so
// a key without an order here may still have one.
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
		if closed := l.lock.Close(); !errors.Is(closed, os.ErrClosed) { // a second Close is harmless
			err = errors.Join(err, closed)
		}
	}
	return err
}

// teams returns the owners that this process knows.
func (l *Ledger) teams() map[string]Team {
	if l.outbox == nil {
		return nil
	}
	return l.outbox.Teams()
}

// IsSubscriber reports whether this process has an event receiver for an owner.
func (l *Ledger) IsSubscriber(owner string) bool { return l.teams()[owner].Subscribed }

// keeps reports whether copies outlive the deletion of their generation by the owner. It is true for a team that this
// process does not know, because another process may. It is false for anonymous callers and without a callers file.
func (l *Ledger) keeps(owner string) bool {
	teams := l.teams()
	team, known := teams[owner]
	return team.KeepDeleted || !known && owner != "" && len(teams) > 0
}

// wantsCopy reports whether a change of an order requires a copy of its result: the generation has just succeeded, and
// this process has a store.
func (l *Ledger) wantsCopy(before, after Order) bool {
	ended := before.Status != lifecycle.Succeeded && after.Status == lifecycle.Succeeded
	return l.contents && ended && !after.isForwarded() && !after.Erased && (!after.Deleted || l.keeps(after.Owner))
}
