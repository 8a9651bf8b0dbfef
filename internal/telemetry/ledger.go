package telemetry

import "github.com/easel-grpc/easel/internal/ledger"

// measuredOwners is the maximum number of owners with their own metrics.
const measuredOwners = 200

func readLedger(l ledger.Reading, value observe) {
	up := 0.0
	if l.Up {
		up = 1
	}
	value("easel.ledger.up", up)
	value("easel.ledger.order.unknown", float64(l.Unknown))
	value("easel.ledger.order.oldest", l.OldestUnknown.Seconds())
	value("easel.ledger.faults", float64(l.Faults))
	value("easel.ledger.dearer", float64(l.Dearer))
	for _, o := range l.Owners[:min(len(l.Owners), measuredOwners)] {
		readOwner(o, value)
	}
	for _, e := range l.Events[:min(len(l.Events), measuredOwners)] {
		value("easel.event.pending", float64(e.Pending), owner.is(e.Owner))
		value("easel.event.oldest", e.Oldest.Seconds(), owner.is(e.Owner))
	}
}

// readOwner reads the metrics of an owner.
func readOwner(o ledger.OwnerSummary, value observe) {
	name := owner.is(o.Owner)
	value("easel.ledger.spent", float64(o.SpentCents), name)
	value("easel.ledger.refunded", float64(o.RefundedCents), name)
	value("easel.ledger.reserved", float64(o.ReservedCents), name)
	value("easel.ledger.unconfirmed", float64(o.UnconfirmedCents), name)
	for _, b := range o.Budgets {
		value("easel.ledger.budget.limit", float64(b.LimitCents), name, window.is(b.Period))
		value("easel.ledger.budget.left", float64(b.LeftCents()), name, window.is(b.Period))
	}
}
