package lifecycle

import (
	"slices"
	"time"
)

// VisibleAfter is the time after an order in which a read may not find its generation.
const VisibleAfter = 30 * time.Second

// Status is the latest state of a generation: see [Status.MayBecome].
type Status int

// The states of a generation.
const (
	Unseen Status = iota
	Queued
	Running
	Failed
	Succeeded
	Refunded
)

func (s Status) String() string {
	return [...]string{"placed", "queued", "running", "failed", "succeeded", "refunded"}[s]
}

// follows has the states that may follow each state, for watchers and for the ledger. A terminal state is final, except
// that a refund may follow a failure. A refund after a success changes only the money: see [Observed].
var follows = map[Status][]Status{
	Unseen:    {Unseen, Queued, Running, Failed, Succeeded, Refunded},
	Queued:    {Queued, Running, Failed, Succeeded, Refunded},
	Running:   {Running, Failed, Succeeded, Refunded},
	Failed:    {Failed, Refunded},
	Succeeded: {Succeeded},
	Refunded:  {Refunded},
}

// MayBecome reports whether a state may follow this one, or is the same.
func (s Status) MayBecome(next Status) bool { return slices.Contains(follows[s], next) }

// Observed is the observed state of the generation of an order, as far as its outcome and its money are concerned.
type Observed struct {
	// Status is the latest state.
	Status Status
	// PriceCents is the price that was reserved when the order was written.
	PriceCents int64
	// ChargedCents is the highest charge that was read, nil before the first.
	ChargedCents *int64
	// Final means that a charge was read in a terminal record. An earlier charge may still grow, and a terminal record
	// may have none, for example in a list.
	Final bool
	// Refunded means that a refund was seen, also after a success, which keeps its result.
	Refunded bool
	// FailedTime is the time when the generation was first seen failed. Zero means never.
	FailedTime time.Time
	// Deleted means that a call through Easel has deleted the generation. It is permanent.
	Deleted bool
	// Absence has the results of reads that did not find the generation.
	Absence Absence
	// Settled means that the charge is final: no change of the money is expected.
	Settled bool
}

// Observation is the result of one read of a generation, or of its deletion.
type Observation struct {
	// Status is the state. Unseen means that the read shows none.
	Status Status
	// CostCents is the charge, nil if it is unknown.
	CostCents *int64
	// Whole means that the catalog reports no more about the charge than this read shows. A list may omit the charge.
	Whole bool
	// Deleted means that a call through Easel has deleted the generation. Together with NotFound, it means that the
	// reader has found the [Absence] to be lasting.
	Deleted bool
	// NotFound means that the catalog, and not a proxy, has responded that the generation does not exist.
	NotFound bool
	// Witnessed means that the catalog has answered another read under the same API key at about the same time.
	Witnessed bool
}

// After returns the state after an observation at a time. A refund may follow a failure within refundWindow.
func (g Observed) After(o Observation, now time.Time, refundWindow time.Duration) Observed {
	switch {
	case o.NotFound && o.Deleted:
		g.Absence.Lasting = true
	case o.NotFound:
		g.Absence = g.Absence.NotFound(now, o.Witnessed)
	case o.Deleted:
		g.Deleted = true
	case o.Status != Unseen:
		g.Absence = Absence{} // it exists
	}
	if g.Status.MayBecome(o.Status) {
		g.Status = o.Status
	}
	g.Refunded = g.Refunded || o.Status == Refunded
	if o.CostCents != nil && (g.ChargedCents == nil || *o.CostCents > *g.ChargedCents) {
		g.ChargedCents = o.CostCents
	}
	g.Final = g.Final || o.CostCents != nil && o.Status >= Failed
	if g.Status == Failed && g.FailedTime.IsZero() {
		g.FailedTime = now
	}
	g.Settled = g.IsGone() || g.isSettled(o.Whole, now, refundWindow)
	return g
}

// isSettled reports whether no change of the money of an existing generation is expected.
func (g Observed) isSettled(whole bool, now time.Time, refundWindow time.Duration) bool {
	switch g.Status {
	case Refunded:
		return true
	case Succeeded:
		return g.Settled || g.Refunded || whole || g.isCharged()
	case Failed:
		return now.Sub(g.FailedTime) >= refundWindow
	}
	return false
}

// IsGone reports whether the catalog no longer has the generation.
func (g Observed) IsGone() bool { return g.Deleted || g.Absence.Lasting }

// isCharged reports whether the charge is complete. A price of zero means that the order was not quoted.
func (g Observed) isCharged() bool {
	return g.ChargedCents != nil && (g.Final || g.PriceCents > 0 && *g.ChargedCents >= g.PriceCents)
}

// Money returns the reserved and the charged amounts, which follow only from the observed state. The uncharged part of
// the price stays reserved until the generation is settled.
func (g Observed) Money() Money {
	m, charged := Money{CostCents: g.ChargedCents}, int64(0)
	if g.ChargedCents != nil {
		charged = *g.ChargedCents
	}
	switch {
	case g.Refunded: // no reservation remains for a charge that was never read
		m.RefundedCents = charged
	case !g.Settled && !g.isCharged():
		m.ReservedCents = max(0, g.PriceCents-charged)
	case g.Settled && !g.isCharged():
		m.UnconfirmedCents = max(g.PriceCents, charged)
	case g.Settled && g.Status != Succeeded:
		m.UnconfirmedCents = charged
	}
	return m
}

// Money has the amounts that an order reserves and costs. All of them count in the budgets of the time of the order.
type Money struct {
	// ReservedCents is the price, less the charge, while the generation is not settled.
	ReservedCents int64
	// CostCents is the highest charge that was read, nil before the first. A refund does not change it.
	CostCents *int64
	// RefundedCents is the refunded part of the charge.
	RefundedCents int64
	// UnconfirmedCents counts as spent without confirmation. It is set if a generation failed or was deleted without a known
	// refund, or ended without a known charge. It is also set if the outcome of an order stays unknown. It includes the
	// charge.
	UnconfirmedCents int64
}

// SpentCents returns the amount that the budgets count as spent.
func (m Money) SpentCents() int64 {
	if m.CostCents == nil {
		return m.UnconfirmedCents
	}
	return max(*m.CostCents-m.RefundedCents, m.UnconfirmedCents)
}

// AbsentFor is the time in which reads must not find a generation before it counts as deleted.
const AbsentFor = time.Minute

// Absence has the results of reads that did not find a generation. One read is not enough: a proxy may have answered it,
// or it briefly used another API key. Watchers and the ledger share this rule.
type Absence struct {
	// Since is the time of the first such read after the generation was last found. Zero means no such read.
	Since time.Time
	// Lasting means that the generation counts as deleted, until a read finds it again.
	Lasting bool
}

// NotFound returns the absence after another read that did not find the generation. It is lasting after two such reads,
// at least a minute apart, if another read under the same API key succeeded at the time of the second.
func (a Absence) NotFound(now time.Time, witnessed bool) Absence {
	if a.Since.IsZero() {
		a.Since = now
	}
	a.Lasting = a.Lasting || witnessed && now.Sub(a.Since) >= AbsentFor
	return a
}
