package ledger

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	readEvery   = 15 * time.Second
	readTimeout = 5 * time.Second
)

// Reading contains the totals of the ledger and the time when they were read.
type Reading struct {
	Summary // totals from the latest successful read
	// Up reports whether the last read of the ledger succeeded. Time is the time of the last successful read, or zero if no
	// read has succeeded yet.
	Up   bool      `json:"up"`
	Time time.Time `json:"time,omitzero"`
	// Faults is the number of contradictions between the catalog and the ledger. Dearer is the number of charges above the
	// quoted price. Both numbers are counted from the start of the process; see [Counts].
	Faults int64 `json:"faults"`
	Dearer int64 `json:"dearer"`
	// Kind is the kind of the ledger: see [Kind] and [Meaning].
	Kind string `json:"kind"`
	// Named reports whether owners are identified by name instead of by the digest of an API key. It is true if orders use the
	// shared API key.
	Named bool `json:"named"`
}

// Meter caches the totals of the ledger, so that metrics and the status page need no query.
type Meter struct {
	ledger *Ledger
	named  bool
	newest atomic.Pointer[Reading]
}

// NewMeter creates a meter and reads the ledger once. isNamed is the value of [Reading.Named]. Readings contain owners only if
// isNamed is true.
func NewMeter(ctx context.Context, ledger *Ledger, isNamed bool) *Meter {
	m := &Meter{ledger: ledger, named: isNamed}
	m.newest.Store(&Reading{Kind: ledger.kind, Named: isNamed})
	m.refresh(ctx)
	return m
}

// Run reads the ledger periodically until ctx is done.
func (m *Meter) Run(ctx context.Context) {
	ticks := time.NewTicker(readEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			m.refresh(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// Reading returns the cached totals.
func (m *Meter) Reading() Reading {
	r := *m.newest.Load()
	r.Faults, r.Dearer = m.ledger.Counts.Faults.Load(), m.ledger.Counts.Dearer.Load()
	return r
}

// refresh updates the cached totals. If the ledger fails, the totals remain unchanged.
func (m *Meter) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	next := *m.newest.Load()
	next.Up = false
	if summary, err := m.ledger.Summary(ctx, m.named); err == nil {
		next.Summary, next.Up, next.Time = summary, true, time.Now()
	}
	m.newest.Store(&next)
}
