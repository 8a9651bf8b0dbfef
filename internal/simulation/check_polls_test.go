package simulation

import (
	"cmp"
	"slices"
	"time"
)

// sent gives the requests in the order in which they began.
func (o *outcome) sent() []request {
	list := slices.Clone(o.requests)
	slices.SortStableFunc(list, func(a, b request) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.path, b.path)) })
	return list
}

// books are the requests of one process under one key.
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

// pollsKeepToBudget lets every poll take a token from the bucket that is promised.
func pollsKeepToBudget(o *outcome, say func(event, string, ...any)) {
	for who, list := range o.polls() {
		tokens, at := pollRate, time.Duration(0)
		for _, r := range list {
			tokens = min(pollRate, tokens+(r.at-at).Seconds()*pollRate)
			if at = r.at; tokens < 1-1e-6 {
				say(event{at: r.at, actor: who.process}, "more polls than %v a second for %s", pollRate, who.tenant)
				break
			}
			tokens--
		}
	}
}

func pollsWait(o *outcome, say func(event, string, ...any)) {
	for who, list := range o.polls() {
		for i, asked := range list {
			if asked.status != 429 || asked.after == 0 {
				continue
			}
			for _, r := range list[i+1:] {
				if r.at > asked.end && r.at < asked.end+asked.after {
					say(event{at: r.at, actor: who.process}, "a poll %v after the catalog asked to wait %v", r.at-asked.end, asked.after)
				}
				if r.at > asked.end+asked.after {
					break
				}
			}
		}
	}
}

// outageIsProbed counts the polls of an outage after its first minute: they come ever more
// seldom, at least 27 s apart in the end, whatever there is to look at.
func outageIsProbed(o *outcome, say func(event, string, ...any)) {
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
				say(event{at: from, actor: who.process}, "%d polls for %s in an outage of %v, more than %d", count, who.tenant, f.to-from, most)
			}
		}
	}
}

// callsRetryLittle compares the attempts of calls that read with the calls there were: each
// call is repeated at most while the bucket of retries lasts.
func callsRetryLittle(o *outcome, say func(event, string, ...any)) {
	for _, f := range o.faults {
		if f.reach != reachOutage || o.mixed(f) {
			continue
		}
		repeats := map[string]int{}
		last := map[string]request{}
		for _, r := range o.sent() {
			if r.poll || r.at < f.from || r.at > f.to || r.op == routePlace {
				continue
			}
			name := r.process + r.path + r.tenant
			if before, ok := last[name]; ok && r.at-before.end < 800*time.Millisecond && before.status == 0 {
				repeats[r.process]++
			}
			last[name] = r
		}
		for process, n := range repeats {
			if n > 12 {
				say(event{at: f.from, actor: process}, "%d repeats of calls in an outage", n)
			}
		}
	}
}

func nobodyPolls(o *outcome, say func(event, string, ...any)) {
	for _, r := range o.requests {
		if r.at > o.alone+time.Second {
			say(event{at: r.at, actor: r.process}, "%s although nobody watches since %v", r.op, o.alone)
			return
		}
	}
}

// mixed reports whether another fault overlaps, so that the one can't be judged by itself.
func (o *outcome) mixed(f span) bool {
	return slices.ContainsFunc(o.faults, func(other span) bool {
		return other != f && other.from <= f.to && f.from <= other.to && other.reach != reachNobody
	})
}
