package ledger

// Money is what an order holds and has cost. All of it counts in the budgets of the time of the order.
type Money struct {
	// ReservedCents is the price that is held until CostCents says what the order has cost.
	ReservedCents int64
	// CostCents is the first charge that could be read, nil before. A refund does not change it.
	CostCents *int64
	// RefundedCents is what came back of it.
	RefundedCents int64
	// UnconfirmedCents counts as spent without proof: of what has ended failed, deleted or without a price, and
	// of which no refund was seen.
	UnconfirmedCents int64
}

// spent is what the budgets count as spent.
func (m Money) spent() int64 {
	if m.CostCents == nil {
		return m.UnconfirmedCents
	}
	return *m.CostCents - m.RefundedCents
}

// charged is the money when a charge was read. The first one stays.
func (m Money) charged(cents *int64) Money {
	if cents == nil || m.CostCents != nil {
		return m
	}
	return Money{CostCents: cents}
}

// exceeded is the price that was reserved, where a charge is the first one and above it. Else it is 0.
func (m Money) exceeded(cents *int64) int64 {
	reserved := m.ReservedCents + m.UnconfirmedCents // before the first charge both are of the price
	if cents == nil || m.CostCents != nil || *cents <= reserved {
		return 0
	}
	return reserved
}

// refunded is the money when a refund was seen, whenever that is. Of a price that was never read nothing is
// held any more.
func (m Money) refunded() Money {
	if m.CostCents == nil {
		return Money{}
	}
	return Money{CostCents: m.CostCents, RefundedCents: *m.CostCents}
}

// settled is the money when none can move any more. Without proof that it was earned or came back it
// is unconfirmed.
func (m Money) settled(status Status) Money {
	switch {
	case status == Refunded || status == Succeeded && m.CostCents != nil:
		return m
	case m.CostCents == nil:
		return Money{UnconfirmedCents: m.ReservedCents + m.UnconfirmedCents}
	}
	return Money{CostCents: m.CostCents, UnconfirmedCents: *m.CostCents}
}

// Status is the newest state of a generation. A later one is never followed by an earlier one.
type Status int

// The states of a generation, in the order in which they may follow each other.
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

// Observation is what the catalog has said of a generation.
type Observation struct {
	// Status is its state, and Record all of it, as JSON.
	Status Status
	Record string
	// CostCents is nil where it can't be read.
	CostCents *int64
	// Deleted means that the catalog has it no more.
	Deleted bool
	// NotFound means that the catalog has not shown it to a read. Soon after the order that says nothing, later it
	// is deleted.
	NotFound bool
	// Text is the text of its result, for those who are told of it. It is not recorded.
	Text *string
	// APIKey is the SHA-256, in hex, of a forwarded API key that has seen it: one that sees nothing of another's.
	// It is empty behind a held one.
	APIKey string
}

// after is the money when an observation was made, after which none may move any more.
func (m Money) after(o Observation, status Status, settled bool) Money {
	m = m.charged(o.CostCents)
	if status == Refunded {
		m = m.refunded()
	}
	if settled {
		m = m.settled(status)
	}
	return m
}
