package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/service"
	"github.com/easel-grpc/easel/internal/telemetry"
)

const (
	summaryEvery   = 15 * time.Second // how often the ledger is read for the metrics
	summaryTimeout = 5 * time.Second
	measuredOwners = 200 // at most
)

// ledgerMeter keeps what the ledger has in sum, for the metrics: a scrape asks no database.
type ledgerMeter struct {
	book    *ledger.Ledger
	known   *service.Callers // nil where nobody has a budget
	owners  bool             // they have names; without a held API key they have none
	newest  atomic.Pointer[telemetry.Ledger]
	faults  atomic.Int64
	dearer  atomic.Int64
	reading sync.WaitGroup
}

// measure measures the ledger until stop is called.
func (m *ledgerMeter) measure(ctx context.Context) (stop func(), err error) {
	if m.book == nil {
		return func() {}, nil
	}
	m.read(ctx)
	unmeasure, err := telemetry.MeasureLedger(m.now)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	m.reading.Go(func() {
		ticks := time.NewTicker(summaryEvery)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
				m.read(ctx)
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		unmeasure()
		cancel()
		m.reading.Wait()
	}, nil
}

// now is what is known now.
func (m *ledgerMeter) now() telemetry.Ledger {
	l := *m.newest.Load()
	l.Faults, l.Dearer = m.faults.Load(), m.dearer.Load()
	return l
}

// read reads the ledger. Where it does not answer, what was known stays.
func (m *ledgerMeter) read(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, summaryTimeout)
	defer cancel()
	s, err := m.book.Summary(ctx)
	if err != nil {
		l := telemetry.Ledger{}
		if last := m.newest.Load(); last != nil {
			l = *last
		}
		l.Up = false
		m.newest.Store(&l)
		return
	}
	l := &telemetry.Ledger{Up: true, Unknown: s.Unknown, OldestUnknown: s.OldestUnknown}
	limits := m.limits()
	for n, o := range s.Owners {
		if !m.owners || n == measuredOwners {
			break
		}
		l.Owners = append(l.Owners, telemetry.LedgerOwner{
			Name: o.Owner, SpentCents: o.SpentCents, RefundedCents: o.RefundedCents, ReservedCents: o.ReservedCents, UnconfirmedCents: o.UnconfirmedCents,
			Budgets: budgetsOf(o, limits[o.Owner]),
		})
	}
	m.newest.Store(l)
}

// limits are the limits of the owners in force.
func (m *ledgerMeter) limits() map[string]ledger.Limits {
	all := map[string]ledger.Limits{}
	if m.known == nil {
		return all
	}
	for _, caller := range m.known.List().Callers() {
		all[caller.Owner()] = ledger.Limits{DailyCents: caller.Team.DailyCents, MonthlyCents: caller.Team.MonthlyCents}
	}
	return all
}

// budgetsOf are the budgets of an owner that have a limit.
func budgetsOf(o ledger.OwnerSummary, limits ledger.Limits) (all []telemetry.LedgerBudget) {
	for _, one := range []struct {
		window string
		limit  *int64
		used   int64
	}{{"day", limits.DailyCents, o.DayCents}, {"month", limits.MonthlyCents, o.MonthCents}} {
		if one.limit != nil {
			all = append(all, telemetry.LedgerBudget{Window: one.window, LimitCents: *one.limit, LeftCents: max(0, *one.limit-one.used)})
		}
	}
	return all
}
