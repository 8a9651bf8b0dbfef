package ledger

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	readEvery   = 15 * time.Second // for the metrics
	readTimeout = 5 * time.Second
	pageEvery   = 5 * time.Second // at most, for the status page
	pageTimeout = time.Second     // the page asks again
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

	asked time.Time
}

// Meter keeps a reading of the book, for the metrics and the status page: a scrape asks no database, and all pages
// together ask it once in a while.
type Meter struct {
	book   *Ledger
	named  bool
	newest atomic.Pointer[Reading]
	paging sync.Mutex // held by the page that reads for all
}

// NewMeter makes a meter and reads the book once. Named means that owners have names: without a held API key they have
// none, and the readings have no owners.
func NewMeter(ctx context.Context, book *Ledger, named bool) *Meter {
	m := &Meter{book: book, named: named}
	m.newest.Store(&Reading{Kind: book.kind, Named: named})
	m.read(ctx, readTimeout)
	return m
}

// Run reads the book once in a while until ctx ends.
func (m *Meter) Run(ctx context.Context) {
	ticks := time.NewTicker(readEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			m.read(ctx, readTimeout)
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

// Fresh is what is known now, for a page. The page that finds it old reads the book for all others, which are given what
// is known meanwhile.
func (m *Meter) Fresh(ctx context.Context) Reading {
	if m.paging.TryLock() {
		defer m.paging.Unlock()
		if time.Since(m.newest.Load().asked) >= pageEvery {
			m.read(ctx, pageTimeout)
		}
	}
	return m.Reading()
}

// read reads the book. Where it does not answer, what was known stays.
func (m *Meter) read(ctx context.Context, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	next := *m.newest.Load()
	next.Up, next.asked = false, time.Now()
	if summary, err := m.book.Summary(ctx, m.named); err == nil {
		next.Summary, next.Up, next.Time = summary, true, time.Now()
	}
	m.newest.Store(&next)
}
