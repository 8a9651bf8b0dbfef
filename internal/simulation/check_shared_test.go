package simulation

import (
	"fmt"
	"path"
	"slices"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

const (
	soon      = 1500 * time.Millisecond // after which another has made such a poll
	knownBy   = 500 * time.Millisecond  // how long it may take until all know what one has found
	rowKept   = time.Hour               // how long a row is kept that nobody has polled
	pollAgain = maxInterval*12/10 + time.Second
)

// apart reports whether processes may poll each for itself at a time, or until a minute after: the ledger is in trouble, or
// a process stands still, or has just lost what it was told.
func (o *outcome) apart(at time.Duration) bool {
	return o.excused(at-time.Minute, at, "", "", reachLedger, reachReplica) || o.troubled("M3", at, time.Minute) || o.troubled("P2", at, time.Minute)
}

// shared reports whether all processes had enough time between two moments to hear of each other, and nothing kept them
// from it.
func (o *outcome) shared(from, to time.Duration) bool {
	return o.plan.Ledger && to-from > pollAgain && !o.apart(to) && !o.apart(from) && !o.excused(from-time.Minute, to, "", "", reachLedger, reachReplica, reachCatalog, reachReads, reachOutage, reachVisible, reachRejected)
}

// isShared reports whether a request is a poll that processes share: each reads the account for itself.
func (r request) isShared() bool {
	return r.poll && !r.undialed && (r.op == routeRead || r.op == routeList)
}

// near reports whether a time of the database is a time of the world: it counts microseconds.
func near(micros, exact time.Duration) bool { return (exact - micros).Abs() <= time.Microsecond }

// crashed reports whether the database has lost what it had of polls at a time.
func (o *outcome) crashed(at time.Duration) bool {
	return slices.ContainsFunc(o.crashes, func(crash time.Duration) bool { return near(at, crash) })
}

// pollsOfAllKeepToRate lets every poll of all processes together take a token from one bucket, of which reads of the
// account take three quarters at most. A process tells of these when it claims a poll, so that it may be late. While the
// ledger is away, and was for a minute, each process has its part of the rate, and those that are left have all of it.
func pollsOfAllKeepToRate(o *outcome, say func(event, string, ...any)) {
	late := pollRate*float64(o.plan.Replicas) + 1
	b, unclaimed := bucketOfAll{tokens: pollRate}, map[string]float64{}
	for _, r := range o.sent() {
		rate, free := o.rateOfAll(r.at)
		b.fill(r.at, rate)
		switch {
		case free:
			b.tokens = pollRate
		case !r.poll:
		case !r.isShared():
			unclaimed[r.process]++
		default:
			b.owed, b.tokens = min(b.owed+unclaimed[r.process], pollRate), b.tokens-1
			unclaimed[r.process] = 0
		}
		if b.tokens < -late {
			say(event{at: r.at, actor: r.process}, "more polls of all replicas than %v a second", rate)
			return
		}
	}
}

// bucketOfAll has the tokens of all processes together.
type bucketOfAll struct {
	at           time.Duration
	tokens, owed float64
}

func (b *bucketOfAll) fill(at time.Duration, rate float64) {
	added := (at - b.at).Seconds() * rate
	paid := min(b.owed, added*3/4)
	b.at, b.owed, b.tokens = at, b.owed-paid, min(b.tokens+added-paid, pollRate)
}

// rateOfAll is the rate that holds for all processes together at a time, and whether they are just finding out that they
// poll apart or together again.
func (o *outcome) rateOfAll(at time.Duration) (rate float64, free bool) {
	rate = pollRate
	for _, f := range o.faults {
		if f.reach != reachLedger && f.reach != reachReplica && f.id != "M3" && f.id != "P2" || at < f.from || at > f.to+time.Minute {
			continue
		}
		if rate = pollRate * 3 / 2; at < f.from+time.Minute || at > f.to || f.reach != reachLedger {
			return rate, true
		}
	}
	return rate, false
}

// claimsEnd looks at the polls that a process has claimed and not made, as it was killed or stopped: if another process
// watches the same, it makes them soon, or when its schedule says where it has a state already.
func claimsEnd(o *outcome, say func(event, string, ...any)) {
	for _, s := range o.stops {
		for _, c := range o.polled {
			if c.what != "claim" || !near(c.at, s.at) || c.id == "" || !o.watchedElsewhere(c.id, s) {
				continue
			}
			by := s.at + soon
			if o.foundBefore(c.id, s.at) || o.toldElsewhere(c.id, s) {
				by = s.at + pollAgain
			}
			if next, ok := o.nextPoll(c.id, s); !ok || next > by {
				say(event{at: s.at, actor: s.process, gen: c.id}, "it was claimed, and polled next at %v, not by %v", next, by)
			}
		}
	}
}

// foundBefore reports whether a poll of a generation was answered before a time.
func (o *outcome) foundBefore(id string, at time.Duration) bool {
	return slices.ContainsFunc(o.polled, func(c pollChange) bool { return c.what == "found" && c.id == id && c.at < at })
}

// toldElsewhere reports whether another process has told a state of a generation before one stops, as it has placed the
// order: its schedule begins with that.
func (o *outcome) toldElsewhere(id string, s stop) bool {
	return slices.ContainsFunc(o.streams(), func(stream *toldStream) bool {
		return stream.gen == id && stream.process != s.process && len(stream.updates) > 0 && stream.updates[0].at < s.at
	})
}

// watchedElsewhere reports whether a generation that goes on is watched through another process when one stops, and until
// after it is to be polled.
func (o *outcome) watchedElsewhere(id string, s stop) bool {
	if one := o.truth[id]; one.deleted || one.ended < s.at+pollAgain || o.excused(s.at-time.Minute, s.at+pollAgain, "", "", reachCatalog, reachOutage, reachLedger) {
		return false
	}
	return slices.ContainsFunc(o.streams(), func(stream *toldStream) bool {
		return stream.gen == id && stream.process != s.process && stream.at < s.at && stream.end > s.at+pollAgain
	})
}

// nextPoll is when another process has polled a generation for the first time after one has stopped.
func (o *outcome) nextPoll(id string, s stop) (at time.Duration, ok bool) {
	for _, r := range o.sent() {
		if r.at > s.at && r.poll && r.process != s.process && (r.op == routeList || path.Base(r.path) == id) {
			return r.at, true
		}
	}
	return 0, false
}

// allKnow compares what each stream was told of a generation with what any was told before.
func allKnow(o *outcome, say func(event, string, ...any)) {
	if !o.plan.Ledger {
		return
	}
	first := map[string][]event{} // by generation: the first change to each state that was told
	for _, e := range o.events {
		if e.kind != sawUpdate || e.initial || rank(e.state) <= rank(easelv1.State_STATE_QUEUED) { // as which it is placed
			continue
		}
		if told := first[e.gen]; len(told) == 0 || rank(told[len(told)-1].state) < rank(e.state) {
			first[e.gen] = append(told, e)
		}
	}
	crowd := o.openGenerations()
	for _, s := range o.streams() {
		for _, e := range first[s.gen] {
			o.knows(s, e, time.Duration(max(crowd(e.at)-2*pollRate, 0)/pollRate*2)*time.Second, say)
		}
	}
}

// toldStream is an open stream of one generation.
type toldStream struct {
	event           // that opened it
	updates []event // that it was told
	end     time.Duration
}

// streams are those of one generation that somebody reads as fast as it comes.
func (o *outcome) streams() []*toldStream {
	open, all := map[string]*toldStream{}, []*toldStream(nil)
	for _, e := range o.events {
		name := fmt.Sprint(e.actor, e.stream)
		switch s := open[name]; {
		case e.kind == sawOpen && e.gen != "" && e.text != "slow":
			open[name] = &toldStream{event: e, end: o.end}
			all = append(all, open[name])
		case s == nil:
		case e.kind == sawUpdate:
			s.updates = append(s.updates, e)
		case e.kind == sawOK, e.kind == sawError, e.kind == sawSilence, e.kind == sawClosing:
			s.end = min(s.end, e.at)
		}
	}
	return all
}

// knows reports where a stream was not told in time of what another process has told. What the stream has begun with has to
// be read first, and so has what the list alone says: that waits for the rate where there is much.
func (o *outcome) knows(s *toldStream, e event, wait time.Duration, say func(event, string, ...any)) {
	by := e.at + knownBy + wait
	if len(s.updates) == 0 || s.updates[0].at > e.at { // it has nothing yet
		by = max(by, s.at+pollAgain)
	}
	if o.troubled("P1", e.at, knownBy) {
		by += pollAgain
	}
	if s.process == e.process || s.at > e.at || s.end < by || e.state == easelv1.State_STATE_UNRECOGNIZED ||
		o.apart(e.at) || o.excused(e.at-time.Minute, by, "", "", reachCallers, reachReplica, reachLedger, reachVisible) || o.lies(e.at) {
		return
	}
	if slices.ContainsFunc(s.updates, func(told event) bool { return told.at <= by && rank(told.state) >= rank(e.state) }) {
		return
	}
	say(event{at: by, actor: s.actor, gen: s.gen}, "%s was told through %s at %v, and %s is silent", e.state, e.process, e.at, s.process)
}

// rowsOfPollsGo looks at the rows that are left, and at those that were deleted.
func rowsOfPollsGo(o *outcome, say func(event, string, ...any)) {
	for _, r := range o.rows {
		if old := o.end - max(r.claimed, r.seen); old > rowKept+5*time.Minute {
			say(event{at: o.end, gen: r.id}, "a row is there that nobody has polled for %v", old)
		}
	}
	for _, c := range o.polled {
		if c.what == "deleted" && c.at-max(c.claimed, c.seen) < rowKept-time.Second && !o.crashed(c.at) {
			say(event{at: c.at, gen: c.id}, "a row was deleted that was polled %v before", c.at-max(c.claimed, c.seen))
		}
	}
	if o.plan.Kind == "polls-long" && !slices.ContainsFunc(o.polled, func(c pollChange) bool { return c.what == "deleted" && !o.crashed(c.at) }) {
		say(event{at: o.end}, "no row was deleted in %v", o.end)
	}
}
