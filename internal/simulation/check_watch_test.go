package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
)

func rank(s easelv1.State) int {
	switch s {
	case easelv1.State_STATE_QUEUED:
		return 1
	case easelv1.State_STATE_RUNNING:
		return 2
	case easelv1.State_STATE_SUCCEEDED, easelv1.State_STATE_FAILED:
		return 3
	case easelv1.State_STATE_REFUNDED:
		return 4
	case easelv1.State_STATE_DELETED:
		return 5
	}
	return 0
}

// follows reports whether a state may come after another one.
func follows(before, after easelv1.State) bool {
	switch {
	case before == after || rank(before) == 0 || rank(after) == 0 && !ended(before):
		return true
	case before == easelv1.State_STATE_SUCCEEDED:
		return after == easelv1.State_STATE_DELETED
	}
	return rank(after) > rank(before)
}

// statesGoForwards checks the states of each generation for each actor, in the order of the catalog's responses, because
// two replicas may have polled at different times.
func statesGoForwards(o *outcome, say func(event, string, ...any)) {
	type view struct{ actor, gen string }
	seen, delivered := map[view]event{}, deliveries{last: map[[2]string]event{}, over: map[string]bool{}}
	for _, e := range o.events {
		delivered.add(e)
		if e.kind != sawUpdate && e.kind != sawGet && e.kind != sawPlaced {
			continue
		}
		v := view{e.actor, e.gen}
		before, known := seen[v]
		if known && e.observed < before.observed && e.process != before.process {
			continue // from another replica that did not have the newer state yet
		}
		if known && e.stream != before.stream && (e.process != before.process || e.at-before.at > 20*time.Second) && o.lies(e.at) {
			continue // no process remembers the catalog's earlier response
		}
		if e.kind == sawGet && o.lies(e.at) { // the state of an unwatched generation is not remembered between calls
			if before = delivered.watches(e); before.kind == "" {
				continue
			}
			known = true
		}
		if known && !follows(before.state, e.state) {
			say(e, "%s after %s", e.state, before.state)
		}
		if !known || rank(e.state) >= rank(before.state) {
			seen[v] = e
		}
	}
}

// deliveries holds the events that processes have delivered to watches.
type deliveries struct {
	last map[[2]string]event // latest update by process and generation
	over map[string]bool     // streams that have ended
}

func (t deliveries) add(e event) {
	switch e.kind {
	case sawUpdate:
		t.last[[2]string{e.process, e.gen}] = e
	case sawOK, sawError:
		t.over[fmt.Sprint(e.actor, e.stream)] = true
	}
}

// watches returns the latest update that the process of an event delivered to a watch of the same
// generation. It returns no event if that watch is over or the update is less than a second old.
func (t deliveries) watches(e event) event {
	delivered := t.last[[2]string{e.process, e.gen}]
	if t.over[fmt.Sprint(delivered.actor, delivered.stream)] || e.at-delivered.at < time.Second {
		return event{}
	}
	return delivered
}

// lies reports whether the catalog may have revoked a state at a time.
func (o *outcome) lies(at time.Duration) bool {
	return o.troubled("U13", at, time.Minute) || o.troubled("U21", at, time.Minute)
}

// troubled reports whether a trouble lasted at a time, or until shortly before.
func (o *outcome) troubled(id string, at, after time.Duration) bool {
	return slices.ContainsFunc(o.faults, func(f span) bool { return f.id == id && f.from <= at && at <= f.to+after })
}

// noneTwice checks each robust watch across its streams, because a new stream sends the known etag.
func noneTwice(o *outcome, say func(event, string, ...any)) {
	type view struct {
		actor, gen string
		stream     int // set only for streams that cannot send the known etags
	}
	delivered := map[view]string{}
	single := map[string]bool{} // streams of one generation by actor and stream
	for _, e := range o.events {
		name := fmt.Sprint(e.actor, e.stream)
		if e.kind == sawOpen && e.gen != "" {
			single[name] = true
			delivered[view{e.actor, e.gen, 0}] = e.etag
		}
		if e.kind != sawUpdate {
			continue
		}
		v := view{e.actor, e.gen, 0}
		if !single[name] {
			v.stream = e.stream
		}
		if delivered[v] == e.etag {
			say(e, "the etag %s was delivered before", e.etag)
		}
		delivered[v] = e.etag
	}
}

var states = map[catalog.State]easelv1.State{
	catalog.StateQueued: easelv1.State_STATE_QUEUED, catalog.StateRunning: easelv1.State_STATE_RUNNING,
	catalog.StateSucceeded: easelv1.State_STATE_SUCCEEDED, catalog.StateFailed: easelv1.State_STATE_FAILED,
	catalog.StateRefunded: easelv1.State_STATE_REFUNDED,
}

func onlyTrueStates(o *outcome, say func(event, string, ...any)) {
	for _, e := range o.events {
		if e.kind != sawUpdate && e.kind != sawGet {
			continue
		}
		one, known := o.truth[e.gen]
		switch {
		case e.gen == nobodys && e.state == easelv1.State_STATE_DELETED: // this generation never existed
		case !known:
			say(e, "a generation that the catalog does not have")
		case e.state == easelv1.State_STATE_DELETED:
			// Only the replica of a young order knows it, and an operator may ask any replica.
			young := strings.HasPrefix(e.actor, operator+".") && o.excused(e.at-time.Minute, e.at, "", "", reachVisible) &&
				slices.ContainsFunc(o.events, func(order event) bool {
					return order.kind == sawPlaced && order.gen == e.gen && order.at > e.at-30*time.Second
				})
			if !one.deleted && !young {
				say(e, "deleted, and it is there")
			}
		case one.deleted:
		case e.state == easelv1.State_STATE_SUCCEEDED && one.state != catalog.StateSucceeded,
			e.state == easelv1.State_STATE_FAILED && !one.failed, e.state == easelv1.State_STATE_REFUNDED && one.state != catalog.StateRefunded:
			say(e, "%s, and in the end it is %s", e.state, one.state)
		case e.state == easelv1.State_STATE_REFUNDED && e.at < one.refunded,
			e.state == easelv1.State_STATE_SUCCEEDED && e.at < one.ended:
			say(e, "%s before it was", e.state)
		case e.state == easelv1.State_STATE_UNRECOGNIZED && !o.excused(e.at-2*time.Minute, e.at, "", "", reachCatalog):
			say(e, "a status %q that the catalog never had", e.text)
		}
	}
}

// noInventedEnd checks the generations that were ordered while the catalog reported all of them as
// queued.
func noInventedEnd(o *outcome, say func(event, string, ...any)) {
	for _, f := range o.faults {
		if f.id != "U21" {
			continue
		}
		young := map[string]bool{}
		for _, e := range o.events {
			switch {
			case e.kind == sawPlaced && f.from < e.at && e.at < f.to:
				young[e.gen] = true
			case e.state == easelv1.State_STATE_DELETED:
			case (e.kind == sawUpdate || e.kind == sawGet) && young[e.gen] && ended(e.state) && e.observed < f.to:
				say(e, "%s, and the catalog has only said that it is queued", e.state)
			}
		}
	}
}

// lastStateArrives compares what each caller got last with the truth.
func lastStateArrives(o *outcome, say func(event, string, ...any)) {
	for _, e := range o.events {
		one := o.truth[e.gen]
		if e.kind != sawDone || one.deleted || e.gen == nobodys || e.state == states[one.state] {
			continue
		}
		if one.failed && (e.state == easelv1.State_STATE_FAILED || e.state == easelv1.State_STATE_REFUNDED) {
			continue
		}
		say(e, "%s at the end, and it is %s", e.state, one.state)
	}
}

func okMeansGoal(o *outcome, say func(event, string, ...any)) {
	last := map[string]map[string]easelv1.State{} // state by actor and generation
	for _, e := range o.events {
		if e.kind == sawUpdate {
			if last[e.actor] == nil {
				last[e.actor] = map[string]easelv1.State{}
			}
			last[e.actor][e.gen] = e.state
		}
		if e.kind != sawOK || e.gen == "" {
			continue
		}
		switch state := last[e.actor][e.gen]; {
		case !ended(state):
			say(e, "OK, and the last state delivered is %s", state)
		case e.goal == easelv1.WatchUntil_WATCH_UNTIL_SETTLED && state == easelv1.State_STATE_FAILED && o.truth[e.gen].state == catalog.StateRefunded && !o.troubled("U21", e.at, 0): // the catalog hides it
			say(e, "OK, and the refund was not delivered")
		}
	}
}

// noLongSilence checks the time between two messages of every stream, if no fault affected the
// network, the process or the reader.
func noLongSilence(o *outcome, say func(event, string, ...any)) {
	type stream struct {
		actor string
		n     int
	}
	before := map[stream]event{}
	slow := map[stream]bool{}
	for _, e := range o.events {
		if e.stream == 0 || e.every == 0 {
			continue
		}
		s := stream{e.actor, e.stream}
		last, known := before[s]
		before[s] = e
		if e.kind == sawOpen {
			slow[s] = e.text == "slow"
			continue
		}
		if gap := e.at - last.at; known && gap > e.every+time.Second && !slow[s] &&
			!o.excused(last.at-time.Minute, e.at, e.process, e.actor, reachCallers, reachReplica, reachLedger) {
			say(e, "silence of %v on a stream with heartbeats every %v", gap, e.every)
		}
	}
}

// slack is the allowed delay of a change from a list. A read confirms it first, as long as the list
// may be incomplete.
const slack = 2 * time.Second

// deliveredAtOnce compares the delivery time of a change with the time of the catalog's response.
func deliveredAtOnce(o *outcome, say func(event, string, ...any)) {
	crowd := o.openGenerations()
	slow, delivered, named := map[string]bool{}, map[string]bool{}, o.firstNamed()
	for _, e := range o.events {
		if e.kind == sawOpen && e.text == "slow" {
			slow[fmt.Sprint(e.actor, e.stream)] = true
		}
		view := fmt.Sprint(e.actor, e.stream, e.gen)
		first := e.kind == sawUpdate && !delivered[view]
		delivered[view] = delivered[view] || first
		if e.kind != sawUpdate || e.initial || slow[fmt.Sprint(e.actor, e.stream)] || e.state == easelv1.State_STATE_DELETED {
			continue
		}
		limit := slack + time.Duration(crowd(e.at)/pollRate)*time.Second
		if first { // a watch of everything reports a new generation only when the list shows it
			limit += maxInterval
		}
		from := e.observed
		if c := named[e.gen]; c.at > from { // the ledger is queried ever less often, until it has the owner
			from = c.at + (c.at - c.written) + 2*askAgain
		}
		if late := e.at - from; late > limit && !o.excused(e.at-time.Minute, e.at, e.process, e.actor, reachCallers, reachReplica, reachReads, reachLedger) {
			say(e, "%s was delivered %v after the catalog said it", e.state, late)
		}
	}
}

// askAgain is the minimum interval at which a team's watch of everything queries the ledger for
// unknown generations.
const askAgain = 2 * time.Second

// firstNamed has, by generation, the change by which the ledger learned of it.
func (o *outcome) firstNamed() map[string]change {
	first := map[string]change{}
	for _, c := range o.changes {
		if _, known := first[c.generation]; !known && c.generation != "" {
			first[c.generation] = c
		}
	}
	return first
}

// seenInTime compares the time when a watcher received the end with the time of the end.
func seenInTime(o *outcome, say func(event, string, ...any)) {
	type view struct{ actor, gen string }
	since := map[view]time.Duration{}
	crowd := o.openGenerations()
	for _, e := range o.events {
		if e.kind == sawOpen && e.gen != "" {
			if _, known := since[view{e.actor, e.gen}]; !known {
				since[view{e.actor, e.gen}] = e.at
			}
			if e.text == "slow" {
				since[view{e.actor, e.gen}] = 1 << 62
			}
		}
		one := o.truth[e.gen]
		began, watched := since[view{e.actor, e.gen}]
		if e.kind != sawUpdate || e.state != easelv1.State_STATE_SUCCEEDED || !watched || one.ended < 0 {
			continue
		}
		from := max(began, one.ended)
		// Calls come before polls, which are sure of a quarter of the rate.
		limit := maxInterval*12/10 + 3*time.Second + time.Duration(crowd(e.at)/pollRate*2)*time.Second
		if late := e.at - from; late > limit && !o.excused(from-5*time.Minute, e.at, "", "",
			reachCatalog, reachReads, reachOutage, reachReplica, reachCallers, reachVisible, reachRejected) {
			say(e, "it ended at %v and was delivered %v later, more than %v", one.ended, late, limit)
		}
	}
}

// openGenerations returns a function that counts the generations that were open around a time.
func (o *outcome) openGenerations() func(at time.Duration) float64 {
	var changes []time.Duration
	type change struct {
		at time.Duration
		by int
	}
	var list []change
	for _, e := range o.events {
		if e.kind == sawPlaced {
			end := o.truth[e.gen].ended
			if end < e.at {
				end = e.at + time.Duration(60/o.plan.Speed)*time.Second
			}
			list = append(list, change{e.at, 1}, change{end + 30*time.Second, -1})
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

// watchesAreKept checks every stream that ended with an error.
func watchesAreKept(o *outcome, say func(event, string, ...any)) {
	closing := map[string]bool{}
	for _, e := range o.events {
		if e.kind == sawClosing {
			closing[fmt.Sprint(e.actor, e.stream)] = true
		}
		if e.stream == 0 || e.kind != sawError && e.kind != sawSilence || closing[fmt.Sprint(e.actor, e.stream)] {
			continue
		}
		if o.excused(e.at-time.Minute, e.at, e.process, e.actor, reachCallers, reachReplica) {
			continue
		}
		if strings.HasPrefix(e.text, "Unauthenticated") && !o.plan.Held && o.excused(e.at-time.Minute, e.at, "", "", reachRejected) {
			continue
		}
		if (e.kind == sawSilence || saysLedger(e.text)) && !o.wasOpen(e, e.at) && o.excused(e.at-time.Minute, e.at, e.process, "", reachLedger) {
			continue // a watch that has started continues
		}
		if strings.HasSuffix(e.text, "UPSTREAM_UNAVAILABLE") && !o.plan.Held && !o.wasOpen(e, e.at) && !o.hadAccepted(e) {
			continue // its replica has never had the API key accepted
		}
		if strings.HasPrefix(e.text, "NotFound") && o.plan.Ledger && o.excused(e.at-time.Minute, e.at, "", "", reachVisible) {
			continue // its replica has not placed the order
		}
		if strings.HasPrefix(e.text, "NotFound") && (o.truth[e.gen].deleted || e.gen == nobodys) {
			continue
		}
		say(e, "a watch ended with %s %s", e.kind, e.text)
	}
}

// hadAccepted reports whether the catalog has accepted the API key of an event's actor at its process within the hour.
func (o *outcome) hadAccepted(e event) bool {
	return slices.ContainsFunc(o.requests, func(r request) bool {
		return r.process == e.process && r.apiKey == e.tenant() && r.status/100 == 2 && r.end < e.at && e.at-r.end < time.Hour
	})
}

// saysLedger reports whether an error reports an unavailable ledger: it does not respond, or
// waiting queries use all of its connections.
func saysLedger(text string) bool {
	return strings.HasSuffix(text, "LEDGER_UNAVAILABLE") || strings.HasSuffix(text, "OVERLOADED")
}

// drainIsAnnounced checks the streams that ended because their replica shut down gracefully.
func drainIsAnnounced(o *outcome, say func(event, string, ...any)) {
	closing := map[string]bool{}
	for _, e := range o.events {
		name := fmt.Sprint(e.actor, e.stream)
		if e.kind == sawClosing {
			closing[name] = true
		}
		if e.kind != sawError || e.stream == 0 || closing[name] || !strings.HasPrefix(e.text, "Unavailable") {
			continue
		}
		for _, f := range o.faults {
			other := o.excused(e.at-time.Minute, e.at, e.process, e.actor, reachCallers) || o.troubled("C2", e.at, time.Minute) // a frozen caller sends nothing
			if f.id == "N4" && !other && f.from <= e.at && e.at <= f.to && strings.HasPrefix(e.process, f.replica) && o.wasOpen(e, f.from) {
				say(e, "the stream was cut off without a word")
			}
		}
	}
}

// wasOpen reports whether the stream of an event received a message before the given time.
func (o *outcome) wasOpen(e event, by time.Duration) bool {
	return slices.ContainsFunc(o.events, func(other event) bool {
		return other.actor == e.actor && other.stream == e.stream && other.kind != sawOpen && other.at < by
	})
}
