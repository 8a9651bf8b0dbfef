package simulation

import (
	"fmt"
	"maps"
	"slices"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// manyStream is a stream of many generations, as its caller sees it.
type manyStream struct {
	open event
	has  memory
	up   bool // the caller has caught up
}

// tellsChanges checks each watch of many generations across its streams, because a new stream sends
// the known etags.
func tellsChanges(o *outcome, say func(event, string, ...any)) {
	crowd := o.openGenerations()
	streams := map[string]*manyStream{}
	for _, e := range o.events {
		name := fmt.Sprint(e.actor, e.stream)
		if e.kind == sawOpen && e.known != nil {
			streams[name] = &manyStream{open: e, has: maps.Clone(e.known)}
		}
		s := streams[name]
		if s == nil || e.stream == 0 {
			continue
		}
		switch e.kind {
		case sawUpdate:
			s.applyUpdate(e, say)
		case sawUp:
			s.caughtUp(o, e, crowd(e.at), say)
		case sawOK:
			s.done(e, say)
		}
	}
}

// applyUpdate applies an update to the state of the caller.
func (s *manyStream) applyUpdate(e event, say func(event, string, ...any)) {
	gone := e.state == easelv1.State_STATE_DELETED
	switch {
	case !s.up && s.has[e.gen].etag == e.etag:
		say(e, "the etag %s is known", e.etag)
	case s.open.model != "" && e.model != s.open.model && !gone:
		say(e, "it is of %q, and the filter asks for %s", e.model, s.open.model)
	}
	if s.has[e.gen] = (recalled{e.etag, e.state}); gone && len(s.open.many) == 0 {
		delete(s.has, e.gen)
	}
}

// caughtUp compares what the caller has with how many there are, and with the truth.
func (s *manyStream) caughtUp(o *outcome, e event, crowd float64, say func(event, string, ...any)) {
	s.up = true
	want := len(s.has)
	if len(s.open.many) > 0 {
		want = len(s.open.many)
	}
	if e.text != fmt.Sprint(want) && !o.excused(s.open.at-time.Minute, e.at, "", "", reachLedger) { // a watch without the ledger's response waits
		say(e, "caught up with %s, and the caller has %d", e.text, want)
	}
	limit := maxInterval*12/10 + 3*time.Second + time.Duration(crowd/pollRate*2)*time.Second // as in seenInTime
	for _, id := range slices.Sorted(maps.Keys(s.has)) {
		one := o.truth[id]
		if ended(s.has[id].state) || one.deleted || one.ended < 0 || s.open.at-one.ended < limit {
			continue
		}
		if !o.excused(one.ended-5*time.Minute, e.at, "", "", reachCatalog, reachReads, reachOutage, reachReplica, reachCallers, reachVisible, reachRejected, reachLedger) {
			e.gen = id
			say(e, "it has ended at %v, and the caller has %s", one.ended, s.has[id].state)
		}
	}
}

// done sees that a stream of named generations ended when all of them had.
func (s *manyStream) done(e event, say func(event, string, ...any)) {
	for _, id := range s.open.many {
		if !ended(s.has[id].state) {
			e.gen = id
			say(e, "OK, and the caller has %s", s.has[id].state)
		}
	}
}
