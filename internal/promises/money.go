package promises

import (
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/sandbox"
)

func ledgerNeverReverts(r *Run, say Say) {
	before := map[string]Version{}
	for _, v := range r.Versions {
		old, at := before[v.ID], Event{At: v.At, Actor: v.Owner, Generation: v.Key}
		before[v.ID] = v
		switch {
		case old.State == lifecycle.Placed && (v.State != lifecycle.Placed || v.Generation != old.Generation):
			say(at, "the order's generation was %s, and is now %q with the order in state %d", old.Generation, v.Generation, v.State)
		case old.State == lifecycle.Refused && v.State != lifecycle.Refused:
			say(at, "the order was rejected, and is now in state %d", v.State)
		case old.ID != "" && (v.Cost < old.Cost || v.Refunded < old.Refunded):
			say(at, "the order had a cost of %d cents and a refund of %d cents, and now has %d and %d", old.Cost, old.Refunded, v.Cost, v.Refunded)
		}
	}
}

// everyCentHasAnOwner checks that each generation in the catalog's accounts belongs to one order in the ledger, and that no
// generation in the ledger is missing from the accounts. It also compares the idempotency keys, costs and refunds in the
// ledger with those in the accounts.
func everyCentHasAnOwner(r *Run, say Say) {
	if !r.HasLedger {
		return
	}
	named, open := map[string]Version{}, map[string]bool{}
	for _, v := range r.Orders() {
		at := Event{At: v.At, Actor: v.Owner, Generation: v.Generation}
		if other, twice := named[v.Generation]; twice && v.Generation != "" {
			say(at, "an order of %s has the same generation", other.Owner)
		}
		if r.IsCaller != nil && !r.IsCaller(v.Owner, v.Caller) {
			say(at, "caller %s may not order for this owner", v.Caller)
		}
		named[v.Generation] = v
		open[v.Key] = open[v.Key] || v.State == lifecycle.Open
	}
	for _, account := range r.Accounts {
		refunds := map[string]int64{}
		for _, e := range account.Entries {
			if e.Kind == "refund" {
				refunds[e.GenerationID] = e.Cents
			}
		}
		for _, g := range account.Generations {
			v, ok := named[g.ID]
			r.compareOrder(g, v, ok, ok || open[g.IdempotencyKey], refunds[g.ID], say)
			delete(named, g.ID)
		}
	}
	for id, v := range named {
		if id != "" {
			say(Event{At: v.At, Actor: v.Owner, Generation: id}, "the generation is in the ledger, but not in the catalog's accounts")
		}
	}
}

// compareOrder compares a generation in the catalog's accounts with its order v in the ledger. isKnown reports whether the
// ledger contains the generation. hasOwner reports whether the ledger contains an order that may have created the
// generation. refund is the refund in the catalog's accounts, in cents.
func (r *Run) compareOrder(g sandbox.AuditedGeneration, v Version, isKnown, hasOwner bool, refund int64, say Say) {
	at := Event{Actor: v.Owner, Generation: g.ID}
	switch {
	case IsPast(g.IdempotencyKey):
	case !hasOwner:
		say(at, "no owner has ordered this generation, which cost %d cents", g.CostCents)
	case !isKnown:
	case v.Key != g.IdempotencyKey:
		say(at, "the generation was ordered with the key %s, but the ledger has the key %s", g.IdempotencyKey, v.Key)
	case v.Cost >= 0 && v.Cost != min(g.CostCents, v.MaxCost()):
		say(at, "the generation cost %d cents, but the ledger has %d", g.CostCents, v.Cost)
	case !g.Deleted && v.Cost >= 0 && v.Refunded != refund && (r.HidesRefund == nil || !r.HidesRefund(g.ID)):
		say(at, "%d cents were refunded, but the ledger has %d", refund, v.Refunded)
	}
}

// budgetsHold checks that no budget is ever exceeded, either in the ledger or in the catalog's accounts.
func budgetsHold(r *Run, say Say) {
	above, _ := r.Excess()
	for _, v := range r.Budgets {
		if limit, limited := r.limit(v.Owner, v.Period); limited && v.Spent+v.Reserved > limit+above[v.Budget()] {
			say(Event{At: v.At, Actor: v.Owner}, "%d cents are spent and %d are reserved, but the limit is %d for each %s", v.Spent, v.Reserved, limit, v.Period)
			return
		}
	}
	orders := map[string]Version{} // one version of each order, keyed by idempotency key: the latest version with a generation, or the first version if no version has a generation
	for _, v := range r.Versions {
		if _, ok := orders[v.Key]; !ok || v.Generation != "" {
			orders[v.Key] = v
		}
	}
	spent := map[Budget]int64{}
	for _, account := range r.Accounts {
		keys := map[string]string{}
		for _, g := range account.Generations {
			keys[g.ID] = g.IdempotencyKey
		}
		for _, e := range account.Entries {
			v, ok := orders[keys[e.GenerationID]]
			if !ok {
				continue
			}
			for _, at := range v.Budgets() {
				spent[at] -= e.Cents
				if limit, limited := r.limit(at.Owner, at.Period); limited && spent[at] > limit+above[at] {
					say(Event{At: e.Time.Sub(r.Begin), Actor: at.Owner, Generation: e.GenerationID}, "the catalog charged %d cents in a %s, but the limit is %d", spent[at], at.Period, limit)
					return
				}
			}
		}
	}
}

func ordersEqualBudgets(r *Run, say Say) {
	type money struct{ spent, reserved int64 }
	budgets, sums := map[Budget]money{}, map[Budget]money{}
	for _, v := range r.Budgets {
		budgets[v.Budget()] = money{v.Spent, v.Reserved}
	}
	for _, v := range r.Orders() {
		for _, at := range v.Budgets() {
			sums[at] = money{sums[at].spent + v.Spent(), sums[at].reserved + v.Reserved}
		}
		if v.State == lifecycle.Refused && (v.Reserved != 0 || v.Spent() != 0) {
			say(Event{At: v.At, Actor: v.Owner, Generation: v.Key}, "the order was rejected, but still has a charge or a reservation")
		}
	}
	for at, sum := range sums {
		if sum != budgets[at] {
			say(Event{At: r.End, Actor: at.Owner}, "the orders of the %s have spent and reserved %v, but the budget has %v", at.Period, sum, budgets[at])
		}
	}
}

func ledgerEqualsJournal(r *Run, say Say) {
	for _, difference := range r.Differences {
		say(Event{At: r.End}, "%s", difference)
	}
}
