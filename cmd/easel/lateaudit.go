package main

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

// lateAudit writes lines of the audit of what comes into force by itself, such as a callers file that takes a stolen token
// out. Such a change waits for no ledger: its line is written as soon as the ledger takes it. What changes again before
// that is one line, from the first state before to the newest after.
type lateAudit struct {
	write  func(context.Context, ledger.Act) error
	logger *slog.Logger
	wake   chan struct{}

	mu      sync.Mutex
	waiting map[string]*change // by what changes
}

// change is a change whose line waits. act makes the line.
type change struct {
	before, after any
	since         time.Time // when it came into force
	act           func(change) ledger.Act
	logged        bool
}

func newLateAudit(book *ledger.Ledger, logger *slog.Logger) *lateAudit {
	return &lateAudit{write: book.Audit, logger: logger, wake: make(chan struct{}, 1), waiting: map[string]*change{}}
}

// put has the line of a change written, and waits for nothing. before and after of one thing are always of one type.
func (l *lateAudit) put(what string, before, after any, act func(change) ledger.Act) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if older := l.waiting[what]; older != nil {
		before = older.before
	}
	l.waiting[what] = &change{before: before, after: after, since: time.Now(), act: act}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// count is how many lines wait.
func (l *lateAudit) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

// run writes the lines until ctx ends, and then tries once more.
func (l *lateAudit) run(ctx context.Context) {
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for {
		select {
		case <-l.wake:
		case <-ticks.C:
		case <-ctx.Done():
			l.writeAll(context.WithoutCancel(ctx))
			return
		}
		l.writeAll(ctx)
	}
}

// writeAll tries to write the lines that wait. The first that the ledger does not take ends that.
func (l *lateAudit) writeAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askLedger)
	defer cancel()
	var failed error
	for what, one := range l.all() {
		act := one.act(*one)
		if failed == nil {
			failed = l.write(ctx, act)
		}
		if failed == nil {
			l.written(what, one)
			continue
		}
		if !one.logged {
			one.logged = true
			l.logger.WarnContext(ctx, "a change is in force, and its line of the audit waits for the ledger", "actor", act.Actor, "from", act.Origin, "action", act.Action,
				"subject", act.Subject, "before", act.Was, "after", act.Became, "error", failed)
		}
	}
}

// all are the changes whose lines wait now.
func (l *lateAudit) all() map[string]*change {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.waiting)
}

// written forgets a change whose line is written. One that came meanwhile begins where it ended.
func (l *lateAudit) written(what string, one *change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if newer := l.waiting[what]; newer != one {
		l.waiting[what] = &change{before: one.after, after: newer.after, since: newer.since, act: newer.act}
		return
	}
	delete(l.waiting, what)
}
