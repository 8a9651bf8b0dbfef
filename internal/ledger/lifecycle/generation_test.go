package lifecycle

import (
	"testing"
	"time"
)

// looks contains the possible observations of a generation. Successive observations are 20 s apart. The catalog may
// report the charge early, late or never. A read may fail to find the generation. Such a read is witnessed if another
// read succeeded at about the same time. A call through Easel may delete the generation.
var looks = map[string]Observation{
	"queued":               {Status: Queued},
	"queued, free":         {Status: Queued, CostCents: new(int64(0))},
	"running, in part":     {Status: Running, CostCents: new(int64(4))},
	"succeeded":            {Status: Succeeded},
	"succeeded, whole":     {Status: Succeeded, Whole: true},
	"succeeded, dearer":    {Status: Succeeded, CostCents: new(int64(13))},
	"failed":               {Status: Failed, CostCents: new(int64(11))},
	"refunded":             {Status: Refunded, CostCents: new(int64(11))},
	"not found":            {NotFound: true, Witnessed: true},
	"not found, unwitness": {NotFound: true},
	"gone":                 {NotFound: true, Deleted: true},
	"deleted":              {Deleted: true},
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
func TestTheMoneyOfAGenerationFollowsFromWhatWasSeen(t *testing.T) { // faults M4, M7
	count, refundsAfterSuccess := 0, 0
	var walk func(before seen, names []string)
	walk = func(before seen, names []string) {
		for name, look := range looks {
			count++
			after := before.next(look)
			if why := after.broken(before, look); why != "" {
				t.Fatalf("%s: %q, %q: %+v, %+v", why, names, name, after.Observed, after.Money())
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
		t.Error("the walk has no refund after a success")
	}
}

func (s seen) next(look Observation) seen {
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

// broken returns a description of the promise that is broken if the observation look changes the state from before to s.
// It returns an empty string if no promise is broken.
func (s seen) broken(before seen, look Observation) string {
	m := s.Money()
	counted := m.SpentCents() + m.ReservedCents
	switch {
	case m.ReservedCents < 0 || m.RefundedCents < 0 || m.UnconfirmedCents < 0 || m.SpentCents() < 0:
		return "an amount is below nothing"
	case s.charged != (m.CostCents != nil) || s.charged && *m.CostCents != s.highest:
		return "the charge is not the highest that was seen"
	case s.Status < before.Status:
		return "a state went back"
	case before.Status >= Failed && s.Status != before.Status && (before.Status != Failed || s.Status != Refunded):
		return "an end became another one"
	case look.Status != Unseen && !s.deleted && s.IsDeleted():
		return "a generation that was just seen counts as gone"
	case s.deleted && !s.IsDeleted():
		return "a deletion of ours was undone"
	case look.NotFound && !look.Deleted && !before.IsDeleted() && s.IsDeleted() && (s.absent < 4 || !look.Witnessed):
		return "a generation counts as gone before a minute was over, or with no other read answered"
	case s.refunded && counted != 0:
		return "what was refunded counts"
	case s.refunded && !s.Settled && s.Status >= Succeeded:
		return "a refund has come, and the money is not settled"
	case !s.refunded && counted < s.highest:
		return "less counts than was charged"
	case !s.refunded && s.Status != Succeeded && !s.IsDeleted() && !s.final && counted < price:
		return "less is held than the price, before the end"
	case s.Status == Succeeded && look.Whole && !s.Settled:
		return "a success is not settled, and nothing more is to be told of it"
	case before.Settled && !s.Settled && !before.Absence.Lasting && s.Status == before.Status:
		return "what was settled is open again"
	case s.Settled && m.ReservedCents != 0:
		return "something is reserved though no money can move"
	case s.Settled && !s.refunded && !s.final && s.highest < price && m.UnconfirmedCents != price:
		return "an end without a price is not unconfirmed"
	case s.Status == Succeeded && s.final && m.UnconfirmedCents != 0:
		return "something is unconfirmed beside a proven charge"
	}
	return ""
}
