package lifecycle

import (
	"testing"
	"time"
)

// looks contains the possible observations of a generation. The catalog may report the charge early, late or never. A
// read that does not find the generation is witnessed if another read succeeded at about the same time.
var looks = map[string]Observation{
	"queued":                              {Status: Queued},
	"queued, zero charge":                 {Status: Queued, CostCents: new(int64(0))},
	"running, partial charge":             {Status: Running, CostCents: new(int64(4))},
	"succeeded":                           {Status: Succeeded},
	"succeeded, complete record":          {Status: Succeeded, Whole: true},
	"succeeded, charge above the price":   {Status: Succeeded, CostCents: new(int64(13))},
	"failed":                              {Status: Failed, CostCents: new(int64(11))},
	"refunded":                            {Status: Refunded, CostCents: new(int64(11))},
	"not found":                           {NotFound: true, Witnessed: true},
	"not found, no other successful read": {NotFound: true},
	"not found, known deleted":            {NotFound: true, Deleted: true},
	"deleted":                             {Deleted: true},
}

const (
	mostLooks    = 5
	lookEvery    = 20 * time.Second
	price        = int64(11)
	refundWindow = 30 * time.Second
)

// seen is the state after some observations of a generation.
type seen struct {
	Observed
	now              time.Time
	highest          int64 // highest observed charge
	charged, deleted bool
	refunded         bool
	final            bool // whether a record with a terminal state contained a charge
	absent           int  // number of consecutive reads that did not find the generation
}

// The test checks every sequence of at most mostLooks observations.
func TestAmountsStayConsistentAfterEveryObservation(t *testing.T) {
	count, refundsAfterSuccess := 0, 0
	var walk func(before seen, names []string)
	walk = func(before seen, names []string) {
		for name, look := range looks {
			count++
			after := before.nextState(look)
			if why := after.brokenPromise(before, look); why != "" {
				t.Fatalf("%s after the observations %q and then %q: %+v, %+v", why, names, name, after.Observed, after.Money())
			}
			if look.Status == Refunded && before.Status == Succeeded {
				refundsAfterSuccess++
			}
			if len(names)+1 < mostLooks {
				walk(after, append(names[:len(names):len(names)], name))
			}
		}
	}
	walk(seen{Observed: Observed{PriceCents: price}, now: time.Unix(1_800_000_000, 0)}, nil)
	if t.Logf("%d looks, %d refunds after a success", count, refundsAfterSuccess); refundsAfterSuccess == 0 {
		t.Error("no sequence of observations has a refund after a success")
	}
}

func (s seen) nextState(look Observation) seen {
	s.now = s.now.Add(lookEvery)
	s.Observed = s.After(look, s.now, refundWindow)
	if look.CostCents != nil {
		s.charged, s.highest = true, max(s.highest, *look.CostCents)
		s.final = s.final || look.Status >= Failed
	}
	s.refunded = s.refunded || look.Status == Refunded
	s.deleted = s.deleted || look.Deleted && !look.NotFound
	switch {
	case look.NotFound:
		s.absent++
	case look.Status != Unseen:
		s.absent = 0
	}
	return s
}

// brokenPromise compares the state s with the state before the latest observation. It returns a description of the promise that
// the change breaks, or an empty string if it breaks none.
func (s seen) brokenPromise(before seen, look Observation) string {
	m := s.Money()
	counted := m.SpentCents() + m.ReservedCents
	switch {
	case m.ReservedCents < 0 || m.RefundedCents < 0 || m.UnconfirmedCents < 0 || m.SpentCents() < 0:
		return "an amount is negative"
	case s.charged != (m.CostCents != nil) || s.charged && *m.CostCents != s.highest:
		return "the charge is not the highest observed charge"
	case s.Status < before.Status:
		return "the status went backward"
	case before.Status >= Failed && s.Status != before.Status && (before.Status != Failed || s.Status != Refunded):
		return "a terminal status changed"
	case look.Status != Unseen && !s.deleted && s.IsDeleted():
		return "a generation that was just observed counts as deleted"
	case s.deleted && !s.IsDeleted():
		return "a deletion through Easel was undone"
	case look.NotFound && !look.Deleted && !before.IsDeleted() && s.IsDeleted() && (s.absent < 4 || !look.Witnessed):
		return "a generation counts as deleted within less than a minute, or without another successful read"
	case s.refunded && counted != 0:
		return "a refunded generation counts as spent or reserved"
	case s.refunded && !s.Settled && s.Status >= Succeeded:
		return "a refunded generation is not settled"
	case !s.refunded && counted < s.highest:
		return "less counts than the highest charge"
	case !s.refunded && s.Status != Succeeded && !s.IsDeleted() && !s.final && counted < price:
		return "less counts than the price, before the final charge is known"
	case s.Status == Succeeded && look.Whole && !s.Settled:
		return "a success with a complete record is not settled"
	case before.Settled && !s.Settled && !before.Absence.Lasting && s.Status == before.Status:
		return "a settled generation became unsettled"
	case s.Settled && m.ReservedCents != 0:
		return "a settled generation has a reserved amount"
	case s.Settled && !s.refunded && !s.final && s.highest < price && m.UnconfirmedCents != price:
		return "a generation was settled without a final charge, and its price is not unconfirmed"
	case s.Status == Succeeded && s.final && m.UnconfirmedCents != 0:
		return "an amount is unconfirmed although the charge is final"
	}
	return ""
}
