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

// Reading is what is known of the book in sum.
type Reading struct {
	Summary // the newest that was answered
	// Up means that the last question was answered, and Time when the newest answer came: zero where none did.
	Up   bool
	Time time.Time
	// Faults and Dearer are the [Counts] of now.
	Faults, Dearer int64
	// Kind is that of the book: see [Kind] and [Meaning].
	Kind string
	// Named means that owners have names.
	Named bool
}

// Meter keeps a reading of the ledger for the metrics and the status page, so that neither of them asks the database.
type Meter struct {
	book   *Ledger
	named  bool
	newest atomic.Pointer[Reading]
}

// NewMeter makes a meter and reads the book once. Named means that owners have names: without a held API key they have
// none, and the readings have no owners.
func NewMeter(ctx context.Context, book *Ledger, named bool) *Meter {
	m := &Meter{book: book, named: named}
	m.newest.Store(&Reading{Kind: book.kind, Named: named})
	m.read(ctx)
	return m
}

// Run reads the book once in a while until ctx ends.
func (m *Meter) Run(ctx context.Context) {
	ticks := time.NewTicker(readEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			m.read(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// Reading is what is known now. It asks nobody.
func (m *Meter) Reading() Reading {
	r := *m.newest.Load()
	r.Faults, r.Dearer = m.book.Counts.Faults.Load(), m.book.Counts.Dearer.Load()
	return r
}

// read reads the book. Where it does not answer, what was known stays.
func (m *Meter) read(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	next := *m.newest.Load()
	next.Up = false
	if summary, err := m.book.Summary(ctx, m.named); err == nil {
		next.Summary, next.Up, next.Time = summary, true, time.Now()
	}
	m.newest.Store(&next)
}
