package lifecycle

import (
	"slices"
	"time"
)

// VisibleAfter is the time after an order was placed during which reads can fail to find its generation.
const VisibleAfter = 30 * time.Second

// Status is the state of a generation. [Status.MayBecome] defines the possible changes.
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

// follows maps each state to the states that may be observed after it. Watchers and the ledger both use it. A terminal state is
// final, except that a refund may follow a failure. A refund after a success changes only the amounts of money, and not the
// state: see [Observed].
var follows = map[Status][]Status{
	Unseen:    {Unseen, Queued, Running, Failed, Succeeded, Refunded},
	Queued:    {Queued, Running, Failed, Succeeded, Refunded},
	Running:   {Running, Failed, Succeeded, Refunded},
	Failed:    {Failed, Refunded},
	Succeeded: {Succeeded},
	Refunded:  {Refunded},
}

// MayBecome reports whether the state next may be observed after the state s. Both may be the same state.
func (s Status) MayBecome(next Status) bool { return slices.Contains(follows[s], next) }

// Observed is the latest observed state of an order's generation, together with the values from which the order's outcome and
// amounts of money are computed.
type Observed struct {
	// Status is the latest state.
	Status Status
	// PriceCents is the price that was reserved when the order was written, or zero if the order has no quote.
	PriceCents int64
	// ChargedCents is the highest charge that was read, or nil if none was read.
	ChargedCents *int64
	// Final means that a charge was read from a record in a terminal state. In earlier records, the charge may still increase.
	// A terminal record may lack the charge, for example in a list.
	Final bool
	// Refunded means that a refund was observed. A refund after a success does not change the state.
	Refunded bool
	// FailedTime is the time when the generation was first observed to have failed. Zero means never.
	FailedTime time.Time
	// DeletedByCall means that a call to Easel deleted the generation. It is never reset.
	DeletedByCall bool
	// Absence records the reads that did not find the generation.
	Absence Absence
	// Settled means that the order's amounts of money are final: no further change is expected.
	Settled bool
}

// Observation is the result of one call that reads or deletes a generation.
type Observation struct {
	// Status is the observed state. Unseen means that the read returned no state.
	Status Status
	// CostCents is the charge, or nil if it is unknown.
	CostCents *int64
	// Whole means that the record is complete. If a complete record contains no charge, later records are not expected to
	// contain a charge either. A record in a list may lack the charge.
	Whole bool
	// Deleted means that a call to Easel deleted the generation. Together with NotFound, it means only that the process that
	// made this observation already treats the generation as deleted.
	Deleted bool
	// NotFound means that the catalog itself, not a proxy, has responded that the generation does not exist.
	NotFound bool
	// Witnessed means that another read with the same API key succeeded at about the same time.
	Witnessed bool
}

// After returns the state that results from an observation at the given time. A refund may follow a failure within
// refundWindow.
func (g Observed) After(o Observation, now time.Time, refundWindow time.Duration) Observed {
	switch {
	case o.NotFound && o.Deleted:
		g.Absence.Lasting = true
	case o.NotFound:
		g.Absence = g.Absence.NotFound(now, o.Witnessed)
	case o.Deleted:
		g.DeletedByCall = true
	case o.Status != Unseen:
		g.Absence = Absence{} // the generation exists
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
	g.Settled = g.IsDeleted() || g.isSettled(o.Whole, now, refundWindow)
	return g
}

// isSettled reports whether the cost of a generation that was not deleted is final. isWhole is the value of [Observation.Whole]
// for the latest observation.
func (g Observed) isSettled(isWhole bool, now time.Time, refundWindow time.Duration) bool {
	switch g.Status {
	case Refunded:
		return true
	case Succeeded:
		return g.Settled || g.Refunded || isWhole || g.isCharged()
	case Failed:
		return now.Sub(g.FailedTime) >= refundWindow
	}
	return false
}

// IsDeleted reports whether the catalog no longer has the generation.
func (g Observed) IsDeleted() bool { return g.DeletedByCall || g.Absence.Lasting }

// isCharged reports whether the observed charge is complete: either it is final, or it has reached the price. A price of zero
// means that the order has no quote.
func (g Observed) isCharged() bool {
	return g.ChargedCents != nil && (g.Final || g.PriceCents > 0 && *g.ChargedCents >= g.PriceCents)
}

// Money returns the order's amounts of money in the observed state. The part of the price that is not charged stays reserved
// until the generation is settled, the charge is complete or a refund is observed.
func (g Observed) Money() Money {
	m, charged := Money{CostCents: g.ChargedCents}, int64(0)
	if g.ChargedCents != nil {
		charged = *g.ChargedCents
	}
	switch {
	case g.Refunded: // no part of the price stays reserved, even if no charge was read
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

// Money contains an order's amounts of money. The budgets for the order's day and month count ReservedCents plus
// [Money.SpentCents].
type Money struct {
	// ReservedCents is the price minus the charge. It is zero once the generation is settled or refunded, or the charge is
	// complete.
	ReservedCents int64
	// CostCents is the highest charge that was read, or nil if none was read. A refund does not change it.
	CostCents *int64
	// RefundedCents is the refunded part of the charge.
	RefundedCents int64
	// UnconfirmedCents is an amount that the budgets count as spent, although it may not have been charged or may be refunded.
	// It includes the charge. It is set in three cases: a generation failed or was deleted and no refund was observed, a
	// generation ended and no charge was observed, or the outcome of an order remains unknown.
	UnconfirmedCents int64
}

// SpentCents returns the amount that the budgets count as spent.
func (m Money) SpentCents() int64 {
	if m.CostCents == nil {
		return m.UnconfirmedCents
	}
	return max(*m.CostCents-m.RefundedCents, m.UnconfirmedCents)
}

// AbsentFor is the time for which reads must fail to find a generation before Easel treats it as deleted.
const AbsentFor = time.Minute

// Absence records consecutive reads that did not find a generation. A single such read proves nothing, because a proxy may have
// responded, or the read may have used another API key. Watchers and the ledger both use this type.
type Absence struct {
	// Since is the time of the first of the consecutive reads that did not find the generation. Zero means that the latest read
	// found it.
	Since time.Time
	// Lasting means that Easel treats the generation as deleted until a read finds it.
	Lasting bool
}

// NotFound returns the absence after one more read, at the given time, that did not find the generation. The parameter
// witnessed means that a different read with the same API key succeeded. The absence becomes lasting if witnessed is true and
// at least AbsentFor has passed since the first of the consecutive reads.
func (a Absence) NotFound(now time.Time, witnessed bool) Absence {
	if a.Since.IsZero() {
		a.Since = now
	}
	a.Lasting = a.Lasting || witnessed && now.Sub(a.Since) >= AbsentFor
	return a
}
