package main

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/easel-grpc/easel/internal/admin"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/service"
	"github.com/easel-grpc/easel/internal/telemetry"
)

const (
	summaryEvery   = 15 * time.Second // how often the ledger is read for the metrics
	summaryTimeout = 5 * time.Second
	pageEvery      = 5 * time.Second // how often at most it is read for the status page
	pageTimeout    = time.Second     // the page asks again
	measuredOwners = 200             // at most
)

// ledgerMeter keeps what the ledger has in sum, for the metrics and the status page: a scrape asks no database, and
// all pages together ask it once in a while.
type ledgerMeter struct {
	book    *ledger.Ledger
	known   *service.Callers // nil where nobody has a budget
	owners  bool             // they have names; without a held API key they have none
	events  func() map[string]map[string]int64
	newest  atomic.Pointer[summaryRead]
	paging  sync.Mutex // held by the page that reads for all
	faults  atomic.Int64
	dearer  atomic.Int64
	reading sync.WaitGroup
}

// summaryRead is a read of the summary: the newest that was answered, and how the last one ended.
type summaryRead struct {
	ledger.Summary
	up           bool
	asked, given time.Time // given is zero where none was answered
}

// measure measures the ledger until stop is called.
func (m *ledgerMeter) measure(ctx context.Context) (stop func(), err error) {
	m.read(ctx, summaryTimeout)
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
				m.read(ctx, summaryTimeout)
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

// read reads the ledger. Where it does not answer, what was known stays.
func (m *ledgerMeter) read(ctx context.Context, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	next := summaryRead{asked: time.Now()}
	var err error
	if next.Summary, err = m.book.Summary(ctx); err == nil {
		next.up, next.given = true, time.Now()
	} else if last := m.newest.Load(); last != nil {
		next.Summary, next.given = last.Summary, last.given
	}
	m.newest.Store(&next)
}

// now is what is known now, for the metrics.
func (m *ledgerMeter) now() telemetry.Ledger {
	newest := m.newest.Load()
	l := telemetry.Ledger{Up: newest.up, Unknown: newest.Unknown, OldestUnknown: newest.OldestUnknown, Faults: m.faults.Load(), Dearer: m.dearer.Load()}
	limits := m.limits()
	for n, o := range newest.Owners {
		if !m.owners || n == measuredOwners {
			break
		}
		measured := telemetry.LedgerOwner{
			Name: o.Owner, SpentCents: o.SpentCents, RefundedCents: o.RefundedCents, ReservedCents: o.ReservedCents, UnconfirmedCents: o.UnconfirmedCents,
		}
		for _, b := range budgetsOf(o, limits[o.Owner]) {
			measured.Budgets = append(measured.Budgets, telemetry.LedgerBudget(b))
		}
		l.Owners = append(l.Owners, measured)
	}
	for _, e := range newest.Events[:min(len(newest.Events), measuredOwners)] {
		l.Events = append(l.Events, telemetry.LedgerEvents(e))
	}
	if m.events != nil {
		l.EventOutcomes = m.events()
	}
	return l
}

// page is what the status page says of the ledger. The page that finds it old reads it for all others, which show what
// is known meanwhile.
func (m *ledgerMeter) page(ctx context.Context) admin.Ledger {
	if m.paging.TryLock() {
		defer m.paging.Unlock()
		if time.Since(m.newest.Load().asked) >= pageEvery {
			m.read(ctx, pageTimeout)
		}
	}
	return m.shown(m.newest.Load())
}

// shown is a read as the status page shows it. An owner of the callers file that has ordered nothing has a row too.
func (m *ledgerMeter) shown(newest *summaryRead) admin.Ledger {
	l := admin.Ledger{Durable: m.book.IsDurable(), Up: newest.up, Read: newest.given, Unknown: newest.Unknown, OldestUnknown: newest.OldestUnknown, Faults: m.faults.Load(), Named: m.owners}
	if !m.owners {
		return l
	}
	limits, all := m.limits(), slices.Clone(newest.Owners)
	for owner := range limits {
		if !slices.ContainsFunc(newest.Owners, func(o ledger.OwnerSummary) bool { return o.Owner == owner }) {
			all = append(all, ledger.OwnerSummary{Owner: owner})
		}
	}
	for _, o := range all {
		owed := newest.owed(o.Owner)
		l.Owners = append(l.Owners, admin.Owner{
			Name: o.Owner, Orders: o.Orders, SpentCents: o.SpentCents, RefundedCents: o.RefundedCents, ReservedCents: o.ReservedCents,
			UnconfirmedCents: o.UnconfirmedCents, Unknown: o.Unknown, OldestUnknown: o.OldestUnknown, Budgets: budgetsOf(o, limits[o.Owner]),
			PendingEvents: owed.Pending, GivenUpEvents: owed.GivenUp, OldestEvent: owed.Oldest,
		})
	}
	return l
}

// owed are the events that an owner was not told.
func (r *summaryRead) owed(owner string) ledger.EventSummary {
	for _, s := range r.Events {
		if s.Owner == owner {
			return s
		}
	}
	return ledger.EventSummary{}
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
func budgetsOf(o ledger.OwnerSummary, limits ledger.Limits) (all []admin.Budget) {
	for _, one := range []struct {
		window string
		limit  *int64
		used   int64
	}{{"day", limits.DailyCents, o.DayCents}, {"month", limits.MonthlyCents, o.MonthCents}} {
		if one.limit != nil {
			all = append(all, admin.Budget{Window: one.window, LimitCents: *one.limit, LeftCents: max(0, *one.limit-one.used)})
		}
	}
	return all
}
