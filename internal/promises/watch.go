package promises

import (
	"fmt"
	"strings"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
)

// States maps the catalog's states to the contract's states.
var States = map[catalog.State]easelv1.State{
	catalog.StateQueued: easelv1.State_STATE_QUEUED, catalog.StateRunning: easelv1.State_STATE_RUNNING,
	catalog.StateSucceeded: easelv1.State_STATE_SUCCEEDED, catalog.StateFailed: easelv1.State_STATE_FAILED,
	catalog.StateRefunded: easelv1.State_STATE_REFUNDED,
}

// ranks defines the order of a generation's states. Unknown states have rank zero.
var ranks = map[easelv1.State]int{
	easelv1.State_STATE_QUEUED: 1, easelv1.State_STATE_RUNNING: 2, easelv1.State_STATE_SUCCEEDED: 3,
	easelv1.State_STATE_FAILED: 3, easelv1.State_STATE_REFUNDED: 4, easelv1.State_STATE_DELETED: 5,
}

// IsEnd reports whether the state ends a watch.
func IsEnd(s easelv1.State) bool { return ranks[s] >= ranks[easelv1.State_STATE_SUCCEEDED] }

// mayFollow reports whether a generation's state can change from earlier to later, possibly in several steps. It returns true
// if the two states are equal.
func mayFollow(earlier, later easelv1.State) bool {
	switch {
	case earlier == later || ranks[earlier] == 0 || ranks[later] == 0 && !IsEnd(earlier):
		return true
	case earlier == easelv1.State_STATE_SUCCEEDED:
		return later == easelv1.State_STATE_DELETED
	}
	return ranks[later] > ranks[earlier]
}

func (r *Run) mayLie(at time.Duration) bool { return r.MayLie != nil && r.MayLie(at) }

// statesGoForwards checks that no actor sees the state of a generation go backwards. It compares the states in the
// order of the catalog's responses, because two replicas may have polled at different times.
func statesGoForwards(r *Run, say Say) {
	type view struct{ actor, generation string }
	seen, delivered := map[view]Event{}, deliveries{last: map[[2]string]Event{}, over: map[string]bool{}}
	for _, e := range r.Events {
		delivered.add(e)
		if e.Kind != Updated && e.Kind != Read && e.Kind != Placed {
			continue
		}
		v := view{e.Actor, e.Generation}
		before, known := seen[v]
		if known && e.Observed < before.Observed && e.Process != before.Process {
			continue // a different replica responded, and it did not have the newer state yet
		}
		if known && e.Stream != before.Stream && (e.Process != before.Process || e.At-before.At > 20*time.Second) && r.mayLie(e.At) {
			continue // allowed, because the catalog may have reverted the state, and no process remembers its earlier response
		}
		// If the catalog may have reverted the state, a process remembers the later state only while it has an open watch of
		// the generation. So the read is compared only with the latest update of an open watch.
		if e.Kind == Read && r.mayLie(e.At) {
			if before = delivered.latestUpdate(e); before.Kind == "" {
				continue
			}
			known = true
		}
		if known && !mayFollow(before.State, e.State) {
			say(e, "%s after %s", e.State, before.State)
		}
		if !known || ranks[e.State] >= ranks[before.State] {
			seen[v] = e
		}
	}
}

// deliveries holds the events that processes have delivered to watches.
type deliveries struct {
	last map[[2]string]Event // latest update, keyed by process and generation ID
	over map[string]bool     // whether a stream has ended, keyed by actor and stream
}

func (d deliveries) add(e Event) {
	switch e.Kind {
	case Updated:
		d.last[[2]string{e.Process, e.Generation}] = e
	case EndedOK, Failed:
		d.over[fmt.Sprint(e.Actor, e.Stream)] = true
	}
}

// latestUpdate returns the latest update about e.Generation that e.Process has delivered to a watch. It returns a zero
// Event if that watch has ended, or if the update was delivered less than one second before e.
func (d deliveries) latestUpdate(e Event) Event {
	delivered := d.last[[2]string{e.Process, e.Generation}]
	if d.over[fmt.Sprint(delivered.Actor, delivered.Stream)] || e.At-delivered.At < time.Second {
		return Event{}
	}
	return delivered
}

// noneTwice checks that a watch does not receive the same state twice in a row. This also applies to the first state of a new
// stream, because the request for the stream contains the etag of the last state that was received.
func noneTwice(r *Run, say Say) {
	type view struct {
		actor, generation string
		stream            int // number of the stream; zero if the stream watches a single generation, so that consecutive streams of an actor count as one
	}
	delivered := map[view]string{}
	single := map[string]bool{} // whether a stream watches a single generation, keyed by actor and stream
	for _, e := range r.Events {
		name := fmt.Sprint(e.Actor, e.Stream)
		if e.Kind == Opened && e.Generation != "" {
			single[name] = true
			delivered[view{e.Actor, e.Generation, 0}] = e.Etag
		}
		if e.Kind != Updated {
			continue
		}
		v := view{e.Actor, e.Generation, 0}
		if !single[name] {
			v.stream = e.Stream
		}
		if delivered[v] == e.Etag {
			say(e, "the state with etag %s was delivered twice", e.Etag)
		}
		delivered[v] = e.Etag
	}
}

// lastStateArrives checks that the state that ended each caller's wait is the generation's final state in the catalog. For a
// generation that has failed, both failed and refunded are accepted. Deleted generations are not checked.
func lastStateArrives(r *Run, say Say) {
	for _, e := range r.Events {
		one, known := r.Truth[e.Generation]
		if e.Kind != Done || !known || one.Deleted || e.State == States[one.State] {
			continue
		}
		if one.HasFailed && (e.State == easelv1.State_STATE_FAILED || e.State == easelv1.State_STATE_REFUNDED) {
			continue
		}
		say(e, "the last delivered state is %s, but the final state is %s", e.State, one.State)
	}
}

func okMeansGoal(r *Run, say Say) {
	type view struct{ actor, generation string }
	last := map[view]easelv1.State{}
	for _, e := range r.Events {
		if e.Kind == Updated {
			last[view{e.Actor, e.Generation}] = e.State
		}
		if e.Kind != EndedOK || e.Generation == "" {
			continue
		}
		switch state := last[view{e.Actor, e.Generation}]; {
		case !IsEnd(state):
			say(e, "the stream ended with OK, but the last delivered state is %s", state)
		case e.Goal == easelv1.WatchUntil_WATCH_UNTIL_SETTLED && state == easelv1.State_STATE_FAILED && r.Truth[e.Generation].State == catalog.StateRefunded:
			say(e, "the stream ended with OK, but the refund was not delivered")
		}
	}
}

func filesAreComplete(r *Run, say Say) {
	for _, e := range r.Events {
		if e.Kind == Downloaded && e.Text != r.Truth[e.Generation].Digest {
			say(e, "the downloaded file has the digest %s, but the catalog's result has %s", e.Text, r.Truth[e.Generation].Digest)
		}
	}
}

// nothingLeaks checks that callers see only their owner's generations, and no hidden data. Operators may read and
// watch all generations.
func nothingLeaks(r *Run, say Say) {
	for _, e := range r.Events {
		one, known := r.Truth[e.Generation]
		isOwn := strings.HasPrefix(e.Actor, one.Owner+".")
		switch {
		case e.Kind == Leaked:
			say(e, "%s", e.Text)
		case e.Kind == Listed && !isOwn:
			say(e, "a list contains a generation that belongs to %q", one.Owner)
		case known && (!r.IsShared || r.HasLedger) && (e.Kind == Updated || e.Kind == Read) && !isOwn && e.Owner() != Operator:
			say(e, "the caller received a generation that belongs to %s", one.Owner)
		}
	}
}

// Operator is the owner of the callers that may see all generations.
const Operator = "ops"
