package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// broken is a promise that was not kept.
type brokenPromise struct {
	promise string
	at      time.Duration
	actor   string
	gen     string
	text    string
}

func (b brokenPromise) String() string {
	return fmt.Sprintf("%s: at %s, %s %s: %s", b.promise, b.at.Round(time.Microsecond), b.actor, b.gen, b.text)
}

// promise is a guarantee of Easel, with a function that checks a history for violations.
type promise struct {
	name  string
	check func(o *outcome, say func(e event, format string, args ...any))
}

// promises are all promises, in the order of the report.
var promises = []promise{
	{"an idempotency key is charged once", onceCharged},
	{"a rejected order is not charged", refusedNotCharged},
	{"no unknown outcome is reported as known", onlyWhatIsKnown},
	{"an order that was not placed is sent only if it is repeated", notSentAfterwards},
	{"every order that arrives is an attempt of ours", everyPostIsOurs},
	{"one idempotency key has one submission at a time, and none after it succeeded", oneSubmission},
	{"an order that may have been sent is completed", ordersAreFinished},
	{"only orders in the ledger are sent, by one replica at a time", sentAsWritten},
	{"no order is sent after the window, or under another API key", sentInTheWindow},
	{"the ledger never reverts a state", neverUndone},
	{"no outcome is returned before it is in the ledger", toldAsHeld},
	{"every cent of the account has one owner", everyCentHasAName},
	{"a moved caller is charged once for a key", oneChargeForAMovedCaller},
	{"a generation that is deleted in the ledger does not exist", goneIsGone},
	{"a price is reserved until the end", reservedUntilTheEnd},
	{"nothing is reserved after the window", nothingReservedPastTheWindow},
	{"nothing is charged after the window", nothingChargedPastTheWindow},
	{"an order that is reported as not placed is not placed", notPlacedIsTrueWhenSaid},
	{"no budget is exceeded", budgetsHold},
	{"the sums of orders equal the budgets", moneyAddsUp},
	{"the ledger equals its journal", journalAddsUp},
	{"the outcome of an order is known a minute after the catalog recovers", knownInAMinute},
	{"unwatched orders are settled", settledInTheEnd},
	{"operators see everything", operatorsSeeAll},
	{"the current callers file determines the callers", callersInTheFile},
	{"a new order fits the current budget", newOrdersFit},
	{"the resolution of an operator is kept", resolvedStays},
	{"a charge above the quote is reported", dearerIsTold},
	{"the first labels stay, and filters use them", firstLabelsStay},
	{"usage equals the orders and the accounts of the catalog", usageIsTheLedgers},
	{"every recorded event arrives, and no other", everyEventArrives},
	{"states never go backwards", statesGoForwards},
	{"no state is delivered twice in a row", noneTwice},
	{"a resumed watch of many delivers only changes", tellsChanges},
	{"no state is delivered that the catalog never had", onlyTrueStates},
	{"no end is reported for a generation that stays queued", noInventedEnd},
	{"the last state always arrives", lastStateArrives},
	{"OK means that the goal is reached", okMeansGoal},
	{"silence is never longer than the heartbeat", noLongSilence},
	{"a change is delivered immediately", deliveredAtOnce},
	{"the end of a generation is detected in time", seenInTime},
	{"failures of the catalog end no watch", watchesAreKept},
	{"a drain is announced", drainIsAnnounced},
	{"polls keep to their rate", pollsKeepToRate},
	{"a generation is polled once for all watchers", oncePolled},
	{"a generation that does not change is polled rarely", seldomPolled},
	{"no request is sent in a pause of the catalog", noRequestInAPause},
	{"one request is sent first after a pause", oneGoesFirst},
	{"no order is lost by waiting", noOrderIsLostByWaiting},
	{"no owner starves", noOwnerStarves},
	{"the daily cap is only probed", capIsProbed},
	{"an outage is only probed", outageIsProbed},
	{"calls retry little in an outage", callsRetryLittle},
	{"without watchers there are no polls", nobodyPolls},
	{"files arrive complete", filesWhole},
	{"no caller sees another owner's generation or a secret", nothingLeaks},
	{"a stalled reader is closed", stalledAreClosed},
	{"limits hold, and are reported immediately", limitsHold},
	{"every caller is served in the end", everybodyServed},
	{"nothing runs after the end", nothingIsLeft},
	{"the run had its load and its faults", runWasReal},
}

// check reads the outcome of a run.
func check(o *outcome) (broken []brokenPromise) {
	for _, p := range promises {
		p.check(o, func(e event, format string, args ...any) {
			broken = append(broken, brokenPromise{promise: p.name, at: e.at, actor: e.actor, gen: e.gen, text: fmt.Sprintf(format, args...)})
		})
	}
	return broken
}

// excused reports whether a fault with one of the reaches was active in a period, for a replica (or
// its process) and tenant. Empty names match any.
func (o *outcome) excused(from, to time.Duration, replica, tenant string, reaches ...reach) bool {
	return slices.ContainsFunc(o.faults, func(f span) bool {
		return slices.Contains(reaches, f.reach) && f.from <= to && from <= f.to &&
			(f.replica == "" || replica == "" || strings.HasPrefix(replica, f.replica)) &&
			(f.tenant == "" || tenant == "" || strings.HasPrefix(tenant, f.tenant+"."))
	})
}

// keptFromOrders reports whether T11 prevented the conclusion of orders during a fault, so that the fault could not fire:
// T11 lasts until its orders are abandoned, possibly after the next fault.
func (o *outcome) keptFromOrders(f span) bool {
	return slices.ContainsFunc(o.faults, func(other span) bool {
		return other.id == "T11" && other.from <= f.from && f.to <= other.to
	})
}

func filesWhole(o *outcome, say func(event, string, ...any)) {
	for _, e := range o.events {
		if e.kind == sawFile && e.text != o.truth[e.gen].sum {
			say(e, "%s, and the file of the catalog is %s", e.text, o.truth[e.gen].sum)
		}
	}
}

func nothingLeaks(o *outcome, say func(event, string, ...any)) {
	for _, text := range o.leaks {
		say(event{}, "%s", text)
	}
	for _, e := range o.events {
		if one := o.truth[e.gen]; e.kind == sawListed && !strings.HasPrefix(e.actor, one.tenant+".") {
			say(e, "a list has a generation of %q", one.tenant)
		}
		if e.kind == sawLeak {
			say(e, "%s", e.text)
		}
		if one, known := o.truth[e.gen]; known && (!o.plan.Held || o.plan.Ledger) && (e.kind == sawUpdate || e.kind == sawGet) && !strings.HasPrefix(e.actor, one.tenant+".") && e.tenant() != operator {
			say(e, "a generation of %s", one.tenant)
		}
	}
	for _, r := range o.requests {
		if r.tenant == "" || o.plan.Ledger && r.tenant != "held" {
			say(event{at: r.at, actor: r.process}, "%s without a key that exists", r.op)
		}
	}
}

func stalledAreClosed(o *outcome, say func(event, string, ...any)) {
	for _, e := range o.events {
		if e.kind == sawHeld {
			say(e, "%s", e.text)
		}
	}
}

func limitsHold(o *outcome, say func(event, string, ...any)) {
	for _, e := range o.events {
		if e.kind == sawOver {
			say(e, "%s", e.text)
		}
	}
}

func everybodyServed(o *outcome, say func(event, string, ...any)) {
	if len(o.late) > 0 {
		say(event{at: o.settled, actor: o.late[0]}, "%d callers were not done %v after all had healed: %s",
			len(o.late), o.settled-o.healed, strings.Join(o.late[:min(len(o.late), 5)], ", "))
	}
}

func nothingIsLeft(o *outcome, say func(event, string, ...any)) {
	for _, stack := range o.left {
		say(event{at: o.end}, "%.1500s", stack)
	}
}

// runWasReal reports a failure if a run had no load, or if its planned faults did not occur.
func runWasReal(o *outcome, say func(event, string, ...any)) {
	for _, text := range o.problems {
		say(event{}, "%s", text)
	}
	placed := 0
	for _, e := range o.events {
		if e.kind == sawPlaced {
			placed++
		}
	}
	if placed == 0 || len(o.requests) == 0 {
		say(event{}, "%d generations, %d requests", placed, len(o.requests))
	}
	if len(o.faults) != len(o.plan.Troubles) {
		say(event{}, "%d of %d faults happened", len(o.faults), len(o.plan.Troubles))
	}
	idle := 0
	for _, f := range o.faults {
		if f.fired > 0 && (f.id != "L6" || o.joinedAtTheEnd(f)) {
			continue
		}
		if idle++; o.plan.Kind != "chaos" && !o.keptFromOrders(f) {
			say(event{at: f.from}, "%s did not fire", f.id)
		}
	}
	if idle > len(o.faults)/2 { // one fault may prevent another, but not all
		say(event{}, "%d of %d faults did not fire", idle, len(o.faults))
	}
}

// joinedAtTheEnd reports whether a watch of a generation started within a second of its end.
func (o *outcome) joinedAtTheEnd(f span) bool {
	return slices.ContainsFunc(o.events, func(e event) bool {
		one, known := o.truth[e.gen]
		near := (e.at-one.ended).Abs() < time.Second || one.ended < 0 // this dialect has no end times
		return e.kind == sawOpen && known && near && e.at >= f.from && strings.Contains(e.actor, ".L6.")
	})
}
