package simulation

import (
	"cmp"
	"path"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/promises"
)

// sent returns the requests in the order of their start.
func (o *outcome) sent() []request {
	list := slices.Clone(o.requests)
	slices.SortStableFunc(list, func(a, b request) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.path, b.path)) })
	return list
}

// account is a process and the API key of its requests.
type account struct{ process, tenant string }

func (o *outcome) polls() map[account][]request {
	polls := map[account][]request{}
	for _, r := range o.sent() {
		if r.poll {
			polls[account{r.process, r.tenant}] = append(polls[account{r.process, r.tenant}], r)
		}
	}
	return polls
}

// bucket is a token bucket for polls. It holds the tokens of at most one second.
type bucket struct {
	at     time.Duration
	tokens float64
}

func (b *bucket) fill(at time.Duration) {
	b.tokens = min(pollRate, b.tokens+(at-b.at).Seconds()*pollRate)
	b.at = at
}

// renewal is the time until every replica knows the number of replicas that share the poll rate.
const renewal = 12 * time.Second

// pollsKeepToRate checks the polls of each process and key against a token bucket. It checks the polls of all processes
// together against one bucket, from the time when the processes know about each other.
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
	for _, r := range o.sent() {
		if !r.poll || !o.plan.Ledger {
			continue
		}
		b := together[r.apiKey]
		if b == nil {
			b = &bucket{tokens: pollRate}
			together[r.apiKey] = b
		}
		if b.fill(r.at); o.excused(r.at-time.Minute, r.at, "", "", reachLedger, reachReplica) {
			b.tokens = pollRate
		}
		if b.tokens--; b.tokens < -unknown {
			say(promises.Event{At: r.at, Actor: r.process}, "all replicas together sent more than %v polls a second", pollRate)
			return
		}
	}
}

// oncePolled checks that polls of the same generation do not overlap, and that they are at least the minimum interval
// apart. Only the read that confirms a list may follow sooner.
func oncePolled(o *outcome, say promises.Say) {
	for who, list := range o.polls() {
		o.onceIn(list, who, say)
	}
}

// onceIn checks oncePolled for the requests of one process. Two replicas may poll the same generation at the same time.
func (o *outcome) onceIn(list []request, who account, say promises.Say) {
	last := map[string][]request{} // the last reads of each path, up to three
	for _, r := range list {
		if r.op != routeRead || r.status == 404 || r.status == 401 { // a generation that does not exist, or an invalid key, causes a request for each caller
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

// outageIsProbed checks the number of polls after the first minute of an outage. Polls become rarer until they are at
// least 27 s apart, regardless of the number of watched generations.
func outageIsProbed(o *outcome, say promises.Say) {
	for _, f := range o.faults {
		if f.reach != reachOutage || f.to-f.from < 3*time.Minute || o.mixed(f) {
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

// callsRetryLittle checks that a process retries only a few reading calls during an outage.
func callsRetryLittle(o *outcome, say promises.Say) {
	for _, f := range o.faults {
		if f.reach != reachOutage || o.mixed(f) {
			continue
		}
		repeats := map[string]int{}
		for _, r := range o.sent() {
			if r.at >= f.from && r.at <= f.to && r.op != routePlace && r.attempt > 1 {
				repeats[r.process]++
			}
		}
		for process, n := range repeats {
			if n > 12 {
				say(promises.Event{At: f.from, Actor: process}, "%d calls were retried during an outage", n)
			}
		}
	}
}

func nobodyPolls(o *outcome, say promises.Say) {
	if o.plan.Events { // a team with events counts as a watcher
		return
	}
	if o.plan.Held { // orders are settled
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

// Maximum numbers of requests in a minute without watchers. The render of an unsettled order is polled every 10 s or
// less often, and the settlement job reads it twice. A minute after the last watcher disconnected, no further render is
// polled more often.
const (
	maxAloneReads = 12 // for one render
	maxAloneLists = 24
)

// settlingIsCheap checks that, without watchers, a single replica sends few requests for unsettled orders.
func settlingIsCheap(o *outcome, say promises.Say) {
	type minute struct {
		path string
		at   time.Duration
	}
	asked := map[minute]int{}
	for _, r := range o.sent() {
		if r.at <= o.alone+time.Minute || r.at >= o.End {
			continue
		}
		most := maxAloneReads
		if r.op == routeList {
			most = maxAloneLists
		}
		in := minute{r.path, r.at / time.Minute}
		if asked[in]++; asked[in] == most+1 {
			say(promises.Event{At: r.at, Actor: r.process}, "%d requests for %s in a minute, although the last watch ended at %v", asked[in], r.path, o.alone)
		}
	}
}

// mixed reports whether another fault overlaps, so that the effect of this one can't be isolated.
func (o *outcome) mixed(f span) bool {
	return slices.ContainsFunc(o.faults, func(other span) bool {
		return other != f && other.from <= f.to && f.from <= other.to && other.reach != reachNobody
	})
}
