package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/promises"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
)

// wasActive reports whether the fault with the given ID was active at the given time. A fault counts as active until
// its end plus the grace period.
func (o *outcome) wasActive(id string, at, grace time.Duration) bool {
	return slices.ContainsFunc(o.faults, func(f span) bool { return f.id == id && f.from <= at && at <= f.to+grace })
}

func onlyTrueStates(o *outcome, say promises.Say) {
	for _, e := range o.Events {
		if e.Kind != promises.Updated && e.Kind != promises.Read {
			continue
		}
		one, known := o.Truth[e.Generation]
		switch {
		case !known:
			say(e, "the catalog does not have the generation")
		case e.State == easelv1.State_STATE_DELETED:
			if !one.Deleted {
				say(e, "the generation is reported as deleted, but exists")
			}
		case one.Deleted:
		case e.State == easelv1.State_STATE_SUCCEEDED && one.State != catalog.StateSucceeded,
			e.State == easelv1.State_STATE_FAILED && !one.HasFailed, e.State == easelv1.State_STATE_REFUNDED && one.State != catalog.StateRefunded:
			say(e, "%s was delivered, but the final state is %s", e.State, one.State)
		case e.State == easelv1.State_STATE_REFUNDED && e.At < one.Refunded,
			e.State == easelv1.State_STATE_SUCCEEDED && e.At < one.Ended:
			say(e, "%s was delivered before the generation reached this state", e.State)
		case e.State == easelv1.State_STATE_UNRECOGNIZED && !o.isExcused(e.At-2*time.Minute, e.At, "", "", reachCatalog):
			say(e, "the status %q was delivered, but the catalog never had it", e.Text)
		}
	}
}

// noLongSilence checks that the time between consecutive messages in each stream is at most a second longer than the
// heartbeat interval. It skips streams with slow readers. It also skips times at which a fault affects the ledger, the
// stream's replica, or the network between caller and replica.
func noLongSilence(o *outcome, say promises.Say) {
	type stream struct {
		actor string
		n     int
	}
	before := map[stream]promises.Event{}
	slow := map[stream]bool{}
	for _, e := range o.Events {
		if e.Stream == 0 || e.Heartbeat == 0 {
			continue
		}
		s := stream{e.Actor, e.Stream}
		last, known := before[s]
		before[s] = e
		if e.Kind == promises.Opened {
			slow[s] = e.Text == "slow"
			continue
		}
		if gap := e.At - last.At; known && gap > e.Heartbeat+time.Second && !slow[s] &&
			!o.isExcused(last.At-time.Minute, e.At, e.Process, e.Actor, reachCallers, reachReplica, reachLedger) {
			say(e, "silence of %v on a stream with heartbeats every %v", gap, e.Heartbeat)
		}
	}
}

// slack is the maximum time between a list response that contains a change and the delivery of the change. It includes
// the time for a read, because the list may be incomplete and a read must then confirm the change.
const slack = 2 * time.Second

// deliveredAtOnce checks that each change is delivered soon after the catalog has returned it. The limit is slack plus the
// time that it takes to poll all unfinished generations once.
func deliveredAtOnce(o *outcome, say promises.Say) {
	crowd := o.openGenerations()
	slow, delivered, named := map[string]bool{}, map[string]bool{}, o.firstNamedVersions()
	for _, e := range o.Events {
		if e.Kind == promises.Opened && e.Text == "slow" {
			slow[fmt.Sprint(e.Actor, e.Stream)] = true
		}
		view := fmt.Sprint(e.Actor, e.Stream, e.Generation)
		first := e.Kind == promises.Updated && !delivered[view]
		delivered[view] = delivered[view] || first
		if e.Kind != promises.Updated || e.Initial || slow[fmt.Sprint(e.Actor, e.Stream)] || e.State == easelv1.State_STATE_DELETED {
			continue
		}
		limit := slack + time.Duration(crowd(e.At)/pollRate)*time.Second
		if first { // additional time, because a watch of all generations delivers a new generation only after the catalog's list contains it
			limit += maxInterval
		}
		from := e.Observed
		if c := named[e.Generation]; c.At > from { // the watch delivers a generation only when it knows the owner, for which it queries the ledger at growing intervals
			from = c.At + (c.At - c.Written) + 2*askAgain
		}
		if late := e.At - from; late > limit && !o.isExcused(e.At-time.Minute, e.At, e.Process, e.Actor, reachCallers, reachReplica, reachReads, reachLedger) {
			say(e, "%s was delivered %v after the catalog had returned it", e.State, late)
		}
	}
}

// askAgain is the minimum interval at which a team's watch of all renders queries the ledger for the renders' owners.
const askAgain = 2 * time.Second

// firstNamedVersions returns, for each generation, the first version of its order that contains the generation's ID.
func (o *outcome) firstNamedVersions() map[string]promises.Version {
	first := map[string]promises.Version{}
	for _, c := range o.Versions {
		if _, known := first[c.Generation]; !known && c.Generation != "" {
			first[c.Generation] = c
		}
	}
	return first
}

// seenInTime checks that watchers are notified soon after their generation has succeeded.
func seenInTime(o *outcome, say promises.Say) {
	type view struct{ actor, gen string }
	since := map[view]time.Duration{}
	crowd := o.openGenerations()
	for _, e := range o.Events {
		if e.Kind == promises.Opened && e.Generation != "" {
			if _, known := since[view{e.Actor, e.Generation}]; !known {
				since[view{e.Actor, e.Generation}] = e.At
			}
			if e.Text == "slow" {
				since[view{e.Actor, e.Generation}] = 1 << 62
			}
		}
		one := o.Truth[e.Generation]
		began, watched := since[view{e.Actor, e.Generation}]
		if e.Kind != promises.Updated || e.State != easelv1.State_STATE_SUCCEEDED || !watched || one.Ended < 0 {
			continue
		}
		from := max(began, one.Ended)
		// Polling all unfinished generations once takes crowd/pollRate seconds. The limit allows twice this time, because
		// calls have priority over polls.
		limit := maxInterval*12/10 + 3*time.Second + time.Duration(crowd(e.At)/pollRate*2)*time.Second
		if late := e.At - from; late > limit && !o.isExcused(from-5*time.Minute, e.At, "", "",
			reachCatalog, reachReads, reachOutage, reachReplica, reachCallers, reachRejected) {
			say(e, "the generation ended at %v, but its end was delivered %v later, which is more than %v", one.Ended, late, limit)
		}
	}
}

// openGenerations returns a function that returns an upper bound for the number of unfinished generations at a given time.
// The bound is the largest number at this time and after any of the 200 preceding changes. A generation counts as
// unfinished until 30 s after its end.
func (o *outcome) openGenerations() func(at time.Duration) float64 {
	var changes []time.Duration
	type change struct {
		at time.Duration
		by int
	}
	var list []change
	for _, e := range o.Events {
		if e.Kind == promises.Placed {
			end := o.Truth[e.Generation].Ended
			if end < e.At {
				end = e.At + time.Duration(60/o.plan.Speed)*time.Second
			}
			list = append(list, change{e.At, 1}, change{end + 30*time.Second, -1})
		}
	}
	slices.SortFunc(list, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	var counts []int
	open := 0
	for _, c := range list {
		open += c.by
		changes, counts = append(changes, c.at), append(counts, open)
	}
	return func(at time.Duration) float64 {
		i, _ := slices.BinarySearch(changes, at)
		most := 0
		for j := max(0, i-200); j < min(len(counts), i+1); j++ {
			most = max(most, counts[j])
		}
		return float64(most)
	}
}

// watchesAreKept checks that every error or silence that ended a stream had a legitimate reason.
func watchesAreKept(o *outcome, say promises.Say) {
	closing := map[string]bool{}
	for _, e := range o.Events {
		if e.Kind == promises.Closing {
			closing[fmt.Sprint(e.Actor, e.Stream)] = true
		}
		if e.Stream == 0 || e.Kind != promises.Failed && e.Kind != promises.Silent || closing[fmt.Sprint(e.Actor, e.Stream)] {
			continue
		}
		if o.isExcused(e.At-time.Minute, e.At, e.Process, e.Actor, reachCallers, reachReplica) {
			continue
		}
		if strings.HasPrefix(e.Text, "Unauthenticated") && !o.plan.Held && o.isExcused(e.At-time.Minute, e.At, "", "", reachRejected) {
			continue
		}
		if (e.Kind == promises.Silent || isLedgerError(e.Text)) && !o.wasOpen(e, e.At) && o.isExcused(e.At-time.Minute, e.At, e.Process, "", reachLedger) {
			continue // a fault of the ledger may prevent a watch from starting, but must not end a watch that has started
		}
		if strings.HasSuffix(e.Text, "UPSTREAM_UNAVAILABLE") && !o.plan.Held && !o.wasOpen(e, e.At) && !o.hadAccepted(e) {
			continue // an outage may end a watch before its first message, if the catalog has accepted no request from this process with this API key in the last hour
		}
		if strings.HasPrefix(e.Text, "NotFound") && o.Truth[e.Generation].Deleted {
			continue
		}
		say(e, "a watch ended with %s %s", e.Kind, e.Text)
	}
}

// hadAccepted reports whether the catalog accepted a request from the event's process, with the API key of the
// event's caller, in the hour before the event.
func (o *outcome) hadAccepted(e promises.Event) bool {
	return slices.ContainsFunc(o.requests, func(r request) bool {
		return r.process == e.Process && r.apiKey == e.Owner() && r.status/100 == 2 && r.end < e.At && e.At-r.end < time.Hour
	})
}

// isLedgerError reports whether an error means that the ledger does not respond, or that waiting queries occupy all of
// its connections.
func isLedgerError(text string) bool {
	return strings.HasSuffix(text, "LEDGER_UNAVAILABLE") || strings.HasSuffix(text, "OVERLOADED")
}

// drainIsAnnounced checks that a replica announces a graceful shutdown in its streams before it ends them.
func drainIsAnnounced(o *outcome, say promises.Say) {
	closing := map[string]bool{}
	for _, e := range o.Events {
		name := fmt.Sprint(e.Actor, e.Stream)
		if e.Kind == promises.Closing {
			closing[name] = true
		}
		if e.Kind != promises.Failed || e.Stream == 0 || closing[name] || !strings.HasPrefix(e.Text, "Unavailable") {
			continue
		}
		for _, f := range o.faults {
			other := o.isExcused(e.At-time.Minute, e.At, e.Process, e.Actor, reachCallers) || o.wasActive("C2", e.At, time.Minute) // another explanation: a network fault ended the stream, or a frozen caller missed the announcement
			if f.id == "N4" && !other && f.from <= e.At && e.At <= f.to && strings.HasPrefix(e.Process, f.replica) && o.wasOpen(e, f.from) {
				say(e, "the stream was closed without an announcement")
			}
		}
	}
}

// wasOpen reports whether an event's stream had received a message before the given time.
func (o *outcome) wasOpen(e promises.Event, by time.Duration) bool {
	return slices.ContainsFunc(o.Events, func(other promises.Event) bool {
		return other.Actor == e.Actor && other.Stream == e.Stream && other.Kind != promises.Opened && other.At < by
	})
}
