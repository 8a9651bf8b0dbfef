package simulation

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/promises"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// manyStream is a watch of many generations, as its caller sees it.
type manyStream struct {
	open promises.Event
	has  memory
	up   bool // whether the server has announced that the watch has caught up
}

// tellsChanges checks that a watch of many generations delivers only changes, even after a reconnect. When the
// caller reconnects, it sends the etags that it knows.
func tellsChanges(o *outcome, say promises.Say) {
	crowd := o.openGenerations()
	streams := map[string]*manyStream{}
	for _, e := range o.Events {
		name := fmt.Sprint(e.Actor, e.Stream)
		if e.Kind == promises.Opened && e.Known != nil {
			streams[name] = &manyStream{open: e, has: maps.Clone(e.Known)}
		}
		s := streams[name]
		if s == nil || e.Stream == 0 {
			continue
		}
		switch e.Kind {
		case promises.Updated:
			s.applyUpdate(e, say)
		case promises.CaughtUp:
			s.checkCaughtUp(o, e, crowd(e.At), say)
		case promises.EndedOK:
			s.checkDone(e, say)
		}
	}
}

// applyUpdate checks an update and stores its state.
func (s *manyStream) applyUpdate(e promises.Event, say promises.Say) {
	deleted := e.State == easelv1.State_STATE_DELETED
	switch {
	case !s.up && s.has[e.Generation].Etag == e.Etag:
		say(e, "the stream delivered the etag %s, which the caller had sent as known", e.Etag)
	case s.open.Model != "" && e.Model != s.open.Model && !deleted:
		say(e, "the generation's model is %q, but the filter selects %s", e.Model, s.open.Model)
	}
	if s.has[e.Generation] = (promises.Known{Etag: e.Etag, State: e.State}); deleted && len(s.open.Named) == 0 {
		delete(s.has, e.Generation)
	}
}

// checkCaughtUp checks the number of generations in a caught-up event. It also checks that the caller knows the final
// state of each generation that ended in the sandbox long before the watch was opened. The allowed delay grows with
// crowd, the number of unfinished generations.
func (s *manyStream) checkCaughtUp(o *outcome, e promises.Event, crowd float64, say promises.Say) {
	s.up = true
	want := len(s.has)
	if len(s.open.Named) > 0 {
		want = len(s.open.Named)
	}
	if e.Text != fmt.Sprint(want) && !o.isExcused(s.open.At-time.Minute, e.At, "", "", reachLedger) { // a watch may deliver fewer generations while the ledger does not respond
		say(e, "the stream caught up with %s generations, but the caller has %d", e.Text, want)
	}
	limit := maxInterval*12/10 + 3*time.Second + time.Duration(crowd/pollRate*2)*time.Second // the same limit as for a watch of a single generation: see seenInTime
	for _, id := range slices.Sorted(maps.Keys(s.has)) {
		one := o.Truth[id]
		if promises.IsEnd(s.has[id].State) || one.Deleted || one.Ended < 0 || s.open.At-one.Ended < limit {
			continue
		}
		if !o.isExcused(one.Ended-5*time.Minute, e.At, "", "", reachCatalog, reachReads, reachOutage, reachReplica, reachCallers, reachRejected, reachLedger) {
			e.Generation = id
			say(e, "the generation ended at %v, but the caller has the state %s", one.Ended, s.has[id].State)
		}
	}
}

// checkDone checks that a watch of named generations ended with OK only after all of them had ended.
func (s *manyStream) checkDone(e promises.Event, say promises.Say) {
	for _, id := range s.open.Named {
		if !promises.IsEnd(s.has[id].State) {
			e.Generation = id
			say(e, "the stream ended with OK, but the caller has the state %s", s.has[id].State)
		}
	}
}
