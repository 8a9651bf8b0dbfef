package lifecycle

import (
	"slices"
	"time"
)

// VisibleAfter is how long after an order a read may not find its generation.
const VisibleAfter = 30 * time.Second

// Status is the newest state of a generation: see [Status.MayBecome].
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

// follows has the states that may follow each state, for watchers and for the ledger. An end stays, except that a refund may
// follow a failure. A refund after a success changes only the money: see [Observed].
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

// Observed is what was seen of the generation of an order, as far as its end and its money go.
type Observed struct {
	// Status is its newest state.
	Status Status
	// PriceCents was reserved when the order was written down.
	PriceCents int64
	// ChargedCents is the highest charge that could be read, nil before.
	ChargedCents *int64
	// Final means that a charge was read in a record that had ended. What an earlier one says may still grow, and the
	// record of the end may name none, as in a list.
	Final bool
	// Refunded means that a refund was seen, also after a success, whose result stays.
	Refunded bool
	// FailedTime is when it was first seen failed; zero where it was not.
	FailedTime time.Time
	// Deleted means that a call of ours has deleted it, which nothing undoes.
	Deleted bool
	// Absence is what reads say that have not found it.
	Absence Absence
	// Settled means that no money is expected to move any more.
	Settled bool
}

// Observation is what one look at a generation has shown.
type Observation struct {
	// Status is its state; Unseen where the look shows none.
	Status Status
	// CostCents is nil where it can't be read.
	CostCents *int64
	// Whole means that the catalog will say no more of its charge than this: a list may leave it out.
	Whole bool
	// Deleted means that a call of ours has deleted it, or beside NotFound that whoever looked has found its [Absence]
	// to be lasting.
	Deleted bool
	// NotFound means that the catalog has said in words of its own that there is no such generation.
	NotFound bool
	// Witnessed means that the catalog has answered another read under the same API key at about the same time.
	Witnessed bool
}

// After is what was seen when an observation has been made at a time. A refund may follow a failure within refundWindow.
func (g Observed) After(o Observation, now time.Time, refundWindow time.Duration) Observed {
	switch {
	case o.NotFound && o.Deleted:
		g.Absence.Lasting = true
	case o.NotFound:
		g.Absence = g.Absence.NotFound(now, o.Witnessed)
	case o.Deleted:
		g.Deleted = true
	case o.Status != Unseen:
		g.Absence = Absence{} // it lives
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

// isSettled reports whether no money of what the catalog has is expected to move any more.
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

// IsGone reports whether the catalog has it no more.
func (g Observed) IsGone() bool { return g.Deleted || g.Absence.Lasting }

// isCharged reports whether no more than what was read is expected to be charged. An order without a price was not quoted.
func (g Observed) isCharged() bool {
	return g.ChargedCents != nil && (g.Final || g.PriceCents > 0 && *g.ChargedCents >= g.PriceCents)
}

// Money is what the order holds and has cost, which follows from what was seen and from nothing else. The price stays
// reserved until the end, as far as it is not charged.
func (g Observed) Money() Money {
	m, charged := Money{CostCents: g.ChargedCents}, int64(0)
	if g.ChargedCents != nil {
		charged = *g.ChargedCents
	}
	switch {
	case g.Refunded: // nothing is held of a price that was never read
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

// Money is what an order holds and has cost. All of it counts in the budgets of the time of the order.
type Money struct {
	// ReservedCents is the price that is held until the generation has ended, less what was charged.
	ReservedCents int64
	// CostCents is the highest charge that could be read, nil before. A refund does not change it.
	CostCents *int64
	// RefundedCents is what came back of it.
	RefundedCents int64
	// UnconfirmedCents counts as spent without proof: of what has ended failed, deleted or without a price, and
	// of which no refund was seen; and of orders that nobody knows the outcome of any more. It includes what was
	// charged.
	UnconfirmedCents int64
}

// SpentCents is what the budgets count as spent.
func (m Money) SpentCents() int64 {
	if m.CostCents == nil {
		return m.UnconfirmedCents
	}
	return max(*m.CostCents-m.RefundedCents, m.UnconfirmedCents)
}

// AbsentFor is how long reads must have found nothing before a generation counts as gone.
const AbsentFor = time.Minute

// Absence is what reads say of a generation that have not found it. One says nothing: a proxy may have answered it, or
// for a moment another API key may have asked. It is the one rule of absence, of watchers and of the ledger.
type Absence struct {
	// Since is when the first of them was, with none between that has found it; zero: there was none.
	Since time.Time
	// Lasting means that the generation counts as gone, until somebody sees it again.
	Lasting bool
}

// NotFound is the absence after a read has not found the generation. It lasts when two reads have not, a minute apart,
// while another read under the same API key was answered.
func (a Absence) NotFound(now time.Time, witnessed bool) Absence {
	if a.Since.IsZero() {
		a.Since = now
	}
	a.Lasting = a.Lasting || witnessed && now.Sub(a.Since) >= AbsentFor
	return a
}
