package simulation

import (
	"strconv"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// operatorsSeeAll checks that each complete list has those generations of the ledger that the
// catalog still has, with their owners. The last list must also have generations that the ledger
// does not know.
func operatorsSeeAll(o *outcome, say func(event, string, ...any)) {
	if !o.plan.Ledger {
		return
	}
	for _, l := range append(o.lists, o.seen.all) {
		at := event{at: l.at, actor: operator}
		for _, c := range o.changes {
			if g := l.all[c.generation]; c.at <= l.since && c.state == lifecycle.Placed && !o.truth[c.generation].deleted && g.GetOwner() != c.owner {
				at.gen = c.generation
				say(at, "it is %s's in the ledger since %v, and an operator's list has it as %q's", c.owner, c.at, g.GetOwner())
				return
			}
		}
	}
	for _, g := range o.seen.listed {
		if o.seen.all.all[g.ID] == nil {
			say(event{at: o.seen.all.at, actor: operator, gen: g.ID}, "the catalog lists it, and an operator's list has it not")
		}
	}
}

// firstLabelsStay checks that the final labels of an order come from an attempt that had started
// when the order was written.
func firstLabelsStay(o *outcome, say func(event, string, ...any)) {
	attempts := map[string][]time.Duration{} // start times by caller and upstream key
	for _, e := range o.events {
		if e.kind == sawOrder && o.plan.Ledger {
			name := e.actor + " " + o.upstreamKey(e, e.text)
			attempts[name] = append(attempts[name], e.at)
		}
	}
	for _, c := range o.last() {
		g := o.seen.all.all[c.generation]
		if g == nil {
			continue
		}
		at := event{at: c.at, actor: c.owner, gen: c.generation}
		sent, n := attempts[g.GetLabels()["who"]+" "+c.key], 0
		n, _ = strconv.Atoi(g.GetLabels()["attempt"])
		switch {
		case n < 1 || n > len(sent):
			say(at, "it has the labels %v, and was never sent with those", g.GetLabels())
		case sent[n-1] > c.written:
			say(at, "it has the labels of attempt %d, and was written down before", n)
		}
	}
	for name, list := range o.seen.labeled {
		for id, g := range o.seen.all.all {
			if labelled := g.GetLabels()["who"] == o.seen.labels[name] && g.GetOwner() == name; labelled != (list[id] != nil) {
				say(event{at: o.end, actor: name, gen: id}, "that the label %q chooses it is %v", o.seen.labels[name], list[id] != nil)
			}
		}
	}
}

// usageIsTheLedgers compares the final usage with the orders of the ledger and with the accounts of the catalog.
func usageIsTheLedgers(o *outcome, say func(event, string, ...any)) {
	want, charged := map[string]*easelv1.UsageRow{}, map[string]int64{}
	orders := map[string]change{}
	for _, c := range o.last() {
		if c.state == lifecycle.Refused {
			continue
		}
		if want[c.owner] == nil {
			want[c.owner] = &easelv1.UsageRow{Owner: c.owner}
		}
		row := want[c.owner]
		row.CostCents += max(0, c.cost)
		row.RefundedCents += c.refunded
		row.ReservedCents += c.reserved
		row.UnconfirmedCents += c.unconfirmed
		if c.state == lifecycle.Open {
			row.UnknownCount++
			continue
		}
		row.OrderCount++
		orders[c.generation] = c
	}
	for _, g := range o.books["held"].Generations {
		if c := orders[g.ID]; c.cost >= 0 { // otherwise its price was never read
			charged[c.owner] += min(g.CostCents, c.most())
		}
	}
	for owner, row := range want {
		at, got, own := event{at: o.end, actor: owner}, o.seen.usage[owner], o.seen.own[owner]
		if owner == operator {
			own = got
		}
		for _, seen := range []*easelv1.UsageRow{got, own} {
			if seen.GetOrderCount() != row.OrderCount || seen.GetUnknownCount() != row.UnknownCount || seen.GetCostCents() != row.CostCents ||
				seen.GetRefundedCents() != row.RefundedCents || seen.GetReservedCents() != row.ReservedCents || seen.GetUnconfirmedCents() != row.UnconfirmedCents {
				say(at, "its usage is %v, and its orders are %v", seen, row)
				return
			}
		}
		if charged[owner] != row.CostCents {
			say(at, "the catalog's books have %d cents of it, and its usage %d", charged[owner], row.CostCents)
		}
	}
}
