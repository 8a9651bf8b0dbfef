package simulation

import (
	"cmp"
	"path"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/promises"
)

// sentRequests returns the requests, ordered by the time at which they were sent.
func (o *outcome) sentRequests() []request {
	list := slices.Clone(o.requests)
	slices.SortStableFunc(list, func(a, b request) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.path, b.path)) })
	return list
}

// account identifies a process and one of the API keys that it uses. tenant is the name of the key's tenant or, in some
// checks, the SHA-256 of the key.
type account struct{ process, tenant string }

func (o *outcome) polls() map[account][]request {
	polls := map[account][]request{}
	for _, r := range o.sentRequests() {
		if r.poll {
			polls[account{r.process, r.tenant}] = append(polls[account{r.process, r.tenant}], r)
		}
	}
	return polls
}

// bucket is a token bucket for polls. Its capacity is the number of polls that are allowed in one second.
type bucket struct {
	at     time.Duration
	tokens float64
}

func (b *bucket) fill(at time.Duration) {
	b.tokens = min(pollRate, b.tokens+(at-b.at).Seconds()*pollRate)
	b.at = at
}

// renewal is the maximum time that replicas need to find out how many of them share the poll rate.
const renewal = 12 * time.Second

// pollsKeepToRate checks that the polls of each process under each API key do not exceed the poll rate. With a ledger, the
// polls of all processes together must not exceed this rate either, except for extra polls until the processes know about
// each other.
func pollsKeepToRate(o *outcome, say promises.Say) {
	const rounding = 1e-6
	together := map[string]*bucket{}
	for who, list := range o.polls() {
		b := bucket{tokens: pollRate}
		for _, r := range list {
			if b.fill(r.at); b.tokens < 1-rounding {
				say(promises.Event{At: r.at, Actor: who.process}, "more than %v polls a second for %s", pollRate, who.tenant)
				break
			}
			b.tokens--
		}
	}
	unknown := pollRate * renewal.Seconds() * float64(o.plan.Replicas)
	for _, r := range o.sentRequests() {
		if !r.poll || !o.plan.Ledger {
			continue
		}
		b := together[r.apiKey]
		if b == nil {
			b = &bucket{tokens: pollRate}
			together[r.apiKey] = b
		}
		if b.fill(r.at); o.isExcused(r.at-time.Minute, r.at, "", "", reachLedger, reachReplica) {
			b.tokens = pollRate
		}
		if b.tokens--; b.tokens < -unknown {
			say(promises.Event{At: r.at, Actor: r.process}, "all replicas together sent more than %v polls a second", pollRate)
			return
		}
	}
}

// oncePolled checks that polls of a generation do not overlap. It also checks the times of four consecutive polls: the
// first and the last must be at least 1.6 times the minimum interval apart. A single interval may be shorter, because
// Easel may read a generation immediately after a poll, to confirm a change that a list shows.
func oncePolled(o *outcome, say promises.Say) {
	for who, list := range o.polls() {
		o.checkPollsOf(list, who, say)
	}
}

// checkPollsOf checks that the polls of one process for the same generation neither overlap nor are too frequent (see
// oncePolled). Two different replicas may poll the same generation at the same time.
func (o *outcome) checkPollsOf(list []request, who account, say promises.Say) {
	last := map[string][]request{} // at most three reads of each path, the latest ones
	for _, r := range list {
		if r.op != routeRead || r.status == 404 || r.status == 401 { // skipped: callers do not share reads of missing generations or reads with invalid API keys, so each caller causes its own request
			continue
		}
		before := last[r.path]
		at := promises.Event{At: r.at, Actor: who.process, Generation: path.Base(r.path)}
		if n := len(before); n > 0 && r.at < before[n-1].end {
			say(at, "a poll for %s by %s started before the previous poll by %s ended", who.tenant, r.process, before[n-1].process)
		}
		if len(before) == 3 {
			if r.at-before[0].at < 2*minInterval*8/10 {
				say(at, "four polls within %v", r.at-before[0].at)
			}
			before = before[1:]
		}
		last[r.path] = append(before, r)
	}
}

// outageIsProbed checks that only a few polls are sent after the first minute of an outage. By then, the interval
// between polls must have grown to at least 27 s, however many generations are watched.
func outageIsProbed(o *outcome, say promises.Say) {
	for _, f := range o.faults {
		if f.reach != reachOutage || f.to-f.from < 3*time.Minute || o.overlapsOther(f) {
			continue
		}
		for who, list := range o.polls() {
			from, count, normal := f.from+time.Minute, 0, 0
			for _, r := range list {
				if r.at > from && r.at < f.to {
					count++
				}
				if r.at > f.from-4*time.Minute && r.at < f.from {
					normal++
				}
			}
			if most := max(int((f.to-from)/(20*time.Second))+2, normal/10); count > most {
				say(promises.Event{At: from, Actor: who.process}, "%d polls for %s in an outage of %v, more than %d", count, who.tenant, f.to-from, most)
			}
		}
	}
}

func nobodyPolls(o *outcome, say promises.Say) {
	if o.plan.Events { // the generations of teams that receive events are polled as if they were watched
		return
	}
	if o.plan.Held { // with a shared API key, Easel polls until the costs of all orders are final
		settlingIsCheap(o, say)
		return
	}
	for _, r := range o.requests {
		if r.at > o.alone+time.Second {
			say(promises.Event{At: r.at, Actor: r.process}, "%s was sent although the last watch ended at %v", r.op, o.alone)
			return
		}
	}
}

// Maximum numbers of requests per minute from each process, starting one minute after the end of the last watch. The generation of
// an unsettled order is polled at most every 10 s, and the settlement job reads it twice.
const (
	maxAloneReads = 12 // maximum number of reads of each generation
	maxAloneLists = 24
)

// settlingIsCheap checks that few requests are sent to settle orders while no watch is open.
func settlingIsCheap(o *outcome, say promises.Say) {
	type minute struct {
		process, path string
		at            time.Duration
	}
	asked := map[minute]int{}
	for _, r := range o.sentRequests() {
		if r.at <= o.alone+time.Minute || r.at >= o.End {
			continue
		}
		most := maxAloneReads
		if r.op == routeList {
			most = maxAloneLists
		}
		in := minute{r.process, r.path, r.at / time.Minute}
		if asked[in]++; asked[in] == most+1 {
			say(promises.Event{At: r.at, Actor: r.process}, "%d requests for %s in a minute, although the last watch ended at %v", asked[in], r.path, o.alone)
		}
	}
}

// overlapsOther reports whether another fault was active during the fault f. In this case, the effects of the two
// faults cannot be separated.
func (o *outcome) overlapsOther(f span) bool {
	return slices.ContainsFunc(o.faults, func(other span) bool {
		return other != f && other.from <= f.to && f.from <= other.to && other.reach != reachNobody
	})
}
