package simulation

import (
	"strconv"
	"time"

	"github.com/easel-grpc/easel/internal/promises"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// operatorsSeeAll checks the operator's complete lists. Each must contain the generations that the ledger had at
// the start of the list and that still exist, with their owners. The last list must also contain generations that
// are not in the ledger.
func operatorsSeeAll(o *outcome, say promises.Say) {
	if !o.plan.Ledger {
		return
	}
	for _, l := range append(o.lists, o.seen.all) {
		at := promises.Event{At: l.at, Actor: promises.Operator}
		for _, c := range o.Versions {
			if g := l.all[c.Generation]; c.At <= l.since && c.State == lifecycle.Placed && !o.Truth[c.Generation].Deleted && g.GetOwner() != c.Owner {
				at.Generation = c.Generation
				say(at, "the ledger has %s as the generation's owner since %v, but an operator's list has %q", c.Owner, c.At, g.GetOwner())
				return
			}
		}
	}
	for _, g := range o.seen.listed {
		if o.seen.all.all[g.ID] == nil {
			say(promises.Event{At: o.seen.all.at, Actor: promises.Operator, Generation: g.ID}, "the catalog lists the generation, but an operator's list does not")
		}
	}
}

// firstLabelsStay checks that the final labels of an order come from an attempt that started before the order was
// written to the ledger.
func firstLabelsStay(o *outcome, say promises.Say) {
	attempts := map[string][]time.Duration{} // start times of attempts, by caller and upstream key of the order
	for _, e := range o.Events {
		if e.Kind == promises.Ordered && o.plan.Ledger {
			name := e.Actor + " " + o.UpstreamKey(e, e.Text)
			attempts[name] = append(attempts[name], e.At)
		}
	}
	for _, c := range o.Orders() {
		g := o.seen.all.all[c.Generation]
		if g == nil {
			continue
		}
		at := promises.Event{At: c.At, Actor: c.Owner, Generation: c.Generation}
		sent, n := attempts[g.GetLabels()["who"]+" "+c.Key], 0
		n, _ = strconv.Atoi(g.GetLabels()["attempt"])
		switch {
		case n < 1 || n > len(sent):
			say(at, "the order has the labels %v, but no attempt had these labels", g.GetLabels())
		case sent[n-1] > c.Written:
			say(at, "the order has the labels of attempt %d, but was written to the ledger before that attempt", n)
		}
	}
	for name, list := range o.seen.labeled {
		for id, g := range o.seen.all.all {
			if labelled := g.GetLabels()["who"] == o.seen.labels[name] && g.GetOwner() == name; labelled != (list[id] != nil) {
				say(promises.Event{At: o.End, Actor: name, Generation: id}, "the list for the label %q is wrong; it contains the generation: %v", o.seen.labels[name], list[id] != nil)
			}
		}
	}
}

// usageIsTheLedgers compares the final usage report with the orders in the ledger and the accounts in the catalog.
func usageIsTheLedgers(o *outcome, say promises.Say) {
	want, charged := map[string]*easelv1.UsageRow{}, map[string]int64{}
	orders := map[string]promises.Version{}
	for _, c := range o.Orders() {
		if c.State == lifecycle.Refused {
			continue
		}
		if want[c.Owner] == nil {
			want[c.Owner] = &easelv1.UsageRow{Owner: c.Owner}
		}
		row := want[c.Owner]
		row.CostCents += max(0, c.Cost)
		row.RefundedCents += c.Refunded
		row.ReservedCents += c.Reserved
		row.UnconfirmedCents += c.Unconfirmed
		if c.State == lifecycle.Open {
			row.UnknownCount++
			continue
		}
		row.OrderCount++
		orders[c.Generation] = c
	}
	for _, g := range o.Accounts["held"].Generations {
		if c := orders[g.ID]; c.Cost >= 0 { // a negative cost means that the cost was never read
			charged[c.Owner] += min(g.CostCents, c.MaxCost())
		}
	}
	for owner, row := range want {
		at, got, own := promises.Event{At: o.End, Actor: owner}, o.seen.usage[owner], o.seen.own[owner]
		if owner == promises.Operator {
			own = got
		}
		for _, seen := range []*easelv1.UsageRow{got, own} {
			if seen.GetOrderCount() != row.OrderCount || seen.GetUnknownCount() != row.UnknownCount || seen.GetCostCents() != row.CostCents ||
				seen.GetRefundedCents() != row.RefundedCents || seen.GetReservedCents() != row.ReservedCents || seen.GetUnconfirmedCents() != row.UnconfirmedCents {
				say(at, "the usage report is %v, but the orders add up to %v", seen, row)
				return
			}
		}
		if charged[owner] != row.CostCents {
			say(at, "the catalog's accounts have charges of %d cents, but the usage report has %d", charged[owner], row.CostCents)
		}
	}
}
