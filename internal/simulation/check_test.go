package simulation

import (
	"slices"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/promises"
)

// timed contains the promises that can be checked only in virtual time. A report lists violations in this order.
var timed = []promises.Promise[*outcome]{
	{Name: "no unknown outcome is reported as known", Check: onlyWhatIsKnown},
	{Name: "every order that arrives is an attempt of ours", Check: everyPostIsOurs},
	{Name: "one idempotency key has one submission at a time, and none after it succeeded", Check: oneSubmission},
	{Name: "an order that may have been sent is completed", Check: ordersAreFinished},
	{Name: "only orders in the ledger are sent, by one replica at a time", Check: sentAsWritten},
	{Name: "no order is sent after the window, or under another API key", Check: sentInTheWindow},
	{Name: "no outcome is returned before it is in the ledger", Check: toldAsHeld},
	{Name: "a generation that is deleted in the ledger does not exist", Check: deletedDoesNotExist},
	{Name: "a price is reserved until the end", Check: reservedUntilTheEnd},
	{Name: "nothing is reserved after the window", Check: nothingReservedPastTheWindow},
	{Name: "nothing is charged after the window", Check: nothingChargedPastTheWindow},
	{Name: "an order that is reported as not placed is not placed", Check: notPlacedIsTrueWhenSaid},
	{Name: "the outcome of an order is known a minute after the catalog recovers", Check: knownInAMinute},
	{Name: "unwatched orders are settled", Check: settledInTheEnd},
	{Name: "a resumed watch of many delivers only changes", Check: tellsChanges},
	{Name: "no state is delivered that the catalog never had", Check: onlyTrueStates},
	{Name: "silence is never longer than the heartbeat", Check: noLongSilence},
	{Name: "a change is delivered immediately", Check: deliveredAtOnce},
	{Name: "the end of a generation is detected in time", Check: seenInTime},
	{Name: "failures of the catalog end no watch", Check: watchesAreKept},
	{Name: "a drain is announced", Check: drainIsAnnounced},
	{Name: "polls keep to their rate", Check: pollsKeepToRate},
	{Name: "a generation is polled once for all watchers", Check: oncePolled},
	{Name: "no request is sent in a pause of the catalog", Check: noRequestInAPause},
	{Name: "one request is sent first after a pause", Check: oneGoesFirst},
	{Name: "an outage is only probed", Check: outageIsProbed},
	{Name: "without watchers there are no polls", Check: nobodyPolls},
	{Name: "the limits of orders hold", Check: limitsHold},
	{Name: "every caller is served in the end", Check: everybodyServed},
	{Name: "nothing runs after the end", Check: nothingIsLeft},
	{Name: "no secret is in a log, a request or a connection", Check: nothingEscapes},
	{Name: "the run had its load and its faults", Check: runWasReal},
}

// check returns the violations of promises in a run.
func check(o *outcome) []promises.Broken {
	return append(promises.Check(promises.All, o.withFaults()), promises.Check(timed, o)...)
}

// nothingEscapes checks that the logs of the processes contain no secret, and that each request has a known API key.
func nothingEscapes(o *outcome, say promises.Say) {
	for _, text := range o.leaks {
		say(promises.Event{}, "%s", text)
	}
	for _, r := range o.requests {
		if r.tenant == "" || o.plan.Ledger && r.tenant != "held" {
			say(promises.Event{At: r.at, Actor: r.process}, "%s was sent with an unknown API key", r.op)
		}
	}
}

// isExcused reports whether a fault that was active in the given period could explain a broken promise. The fault must
// affect the replica or process, the tenant of the caller, and one of the parts of the system. If the name of the replica
// or of the caller is empty, it is not compared.
func (o *outcome) isExcused(from, to time.Duration, replica, tenant string, reaches ...reach) bool {
	return slices.ContainsFunc(o.faults, func(f span) bool {
		return slices.Contains(reaches, f.reach) && f.from <= to && from <= f.to &&
			(f.replica == "" || replica == "" || strings.HasPrefix(replica, f.replica)) &&
			(f.tenant == "" || tenant == "" || strings.HasPrefix(tenant, f.tenant+"."))
	})
}

// wasKeptFromOrders reports whether the fault T11 was active during all of the fault f. T11 keeps all orders unresolved,
// so a fault that waits for an order cannot fire. T11 ends only when its orders are abandoned, so it can outlast a fault
// that started later.
func (o *outcome) wasKeptFromOrders(f span) bool {
	return slices.ContainsFunc(o.faults, func(other span) bool {
		return other.id == "T11" && other.from <= f.from && f.to <= other.to
	})
}

func limitsHold(o *outcome, say promises.Say) {
	for _, e := range o.Events {
		if e.Kind == promises.Exceeded {
			say(e, "%s", e.Text)
		}
	}
}

func everybodyServed(o *outcome, say promises.Say) {
	if len(o.late) > 0 {
		say(promises.Event{At: o.settled, Actor: o.late[0]}, "%d callers had not finished %v after all faults had ended: %s",
			len(o.late), o.settled-o.Healed, strings.Join(o.late[:min(len(o.late), 5)], ", "))
	}
}

func nothingIsLeft(o *outcome, say promises.Say) {
	for _, stack := range o.left {
		say(promises.Event{At: o.End}, "%.1500s", stack)
	}
}

// runWasReal checks the run itself. It reports deviations from the plan and planned faults that did not happen. It
// also reports a run in which no order was placed or no request was sent.
func runWasReal(o *outcome, say promises.Say) {
	for _, text := range o.problems {
		say(promises.Event{}, "%s", text)
	}
	placed := 0
	for _, e := range o.Events {
		if e.Kind == promises.Placed {
			placed++
		}
	}
	if placed == 0 || len(o.requests) == 0 {
		say(promises.Event{}, "only %d generations were placed, with %d requests", placed, len(o.requests))
	}
	if len(o.faults) != len(o.plan.Troubles) {
		say(promises.Event{}, "%d of %d faults happened", len(o.faults), len(o.plan.Troubles))
	}
	idle := 0
	for _, f := range o.faults {
		if f.fired > 0 {
			continue
		}
		if idle++; o.plan.Kind != "chaos" && !o.wasKeptFromOrders(f) {
			say(promises.Event{At: f.from}, "%s did not fire", f.id)
		}
	}
	if idle > len(o.faults)/2 { // one fault can prevent another one, but at least half of the faults must fire
		say(promises.Event{}, "%d of %d faults did not fire", idle, len(o.faults))
	}
}
