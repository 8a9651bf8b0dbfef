package simulation

import (
	"slices"
	"strings"
	"time"
)

const (
	// turnBy is the maximum duration of an order of a small team while another team sends many
	// orders. It allows for one order of each owner at the catalog's rate, and for a pause.
	turnBy = 15 * time.Second
	// gateMargin is the time before its deadline at which an order may be rejected if a pause ends
	// later.
	gateMargin = 5 * time.Second
	// longestPause is the longest pause that the catalog can ask for.
	longestPause = 2 * time.Minute
)

// noRequestInAPause checks that a process sends no request under an API key between a 429 and the end of its pause.
func noRequestInAPause(o *outcome, say func(event, string, ...any)) {
	last := map[account]request{} // the latest request that was answered with a pause
	for _, r := range o.sent() {
		who := account{r.process, r.apiKey}
		if asked := last[who]; r.at > asked.end && r.at < asked.end+asked.after {
			say(event{at: r.at, actor: r.process}, "%s %v after it was asked to wait %v", r.op, r.at-asked.end, asked.after)
			return
		}
		if r.asksForPause() && r.end+r.after > last[who].end+last[who].after {
			last[who] = r
		}
	}
}

// oneGoesFirst checks that after a pause of an API key a process sends one request, and sends
// others only after its response.
func oneGoesFirst(o *outcome, say func(event, string, ...any)) {
	asked, first := map[account]request{}, map[account]request{}
	for _, r := range o.sent() {
		who := account{r.process, r.apiKey}
		opens := asked[who].end + asked[who].after
		switch one, gone := first[who]; {
		case asked[who].after == 0 || r.at < opens || r.at < asked[who].end:
		case !gone:
			first[who] = r
		case r.at < one.end:
			say(event{at: r.at, actor: r.process}, "%s before the first request after a pause was answered at %v", r.op, one.end)
			return
		}
		if r.asksForPause() && r.end+r.after > opens {
			asked[who] = r
			delete(first, who)
		}
	}
}

// asksForPause reports whether the catalog requested a pause of known length.
func (r request) asksForPause() bool { return (r.status == 429 || r.status == 503) && r.after > 0 }

// noOrderIsLostByWaiting checks that no order is rejected for a 429 if the last pause ends well
// before the order's deadline.
func noOrderIsLostByWaiting(o *outcome, say func(event, string, ...any)) {
	lasts := map[string]map[time.Duration]time.Duration{} // time to the deadline, by idempotency key and time of sending
	for _, e := range o.events {
		if e.kind == sawOrder {
			if lasts[e.text] == nil {
				lasts[e.text] = map[time.Duration]time.Duration{}
			}
			lasts[e.text][e.at] = e.lasts
		}
		if e.kind != sawError || e.order == "" || !strings.HasSuffix(e.text, " UPSTREAM_RATE_LIMITED") || o.flooded(e) {
			continue
		}
		until := e.since + lasts[e.order][e.since]
		if opens, known := o.opens(e.at); known && opens+gateMargin < until {
			say(e, "refused for a 429 at %v, and its caller waits until %v: the pause ends at %v", e.at, until, opens)
			return
		}
	}
}

// opens returns the end of the last pause that the catalog requested before the time at. It returns false if
// a response requested a pause of unknown length.
func (o *outcome) opens(at time.Duration) (opens time.Duration, known bool) {
	for _, r := range o.requests {
		if r.status != 429 && r.status != 503 || r.end > at || at-r.end > longestPause {
			continue
		}
		if r.after == 0 {
			return 0, false
		}
		opens = max(opens, r.end+r.after)
	}
	return max(opens, at), true
}

// flooded reports whether the team of an order floods: its turn may lie beyond its deadline.
func (o *outcome) flooded(e event) bool {
	return slices.ContainsFunc(o.events, func(other event) bool {
		return other.kind == sawOrder && strings.Contains(other.actor, "flood") && other.tenant() == e.tenant() && other.at <= e.at && e.since-other.at < time.Minute
	})
}

// noOwnerStarves checks that each order of a small team is placed soon while another team sends
// many orders.
func noOwnerStarves(o *outcome, say func(event, string, ...any)) {
	sent := map[string]event{}
	for _, e := range o.events {
		if !strings.Contains(e.actor, "small") || !strings.Contains(e.actor, ".G1") {
			continue
		}
		switch first, seen := sent[e.text]; {
		case e.kind == sawOrder && !seen:
			sent[e.text] = e
		case e.kind == sawPlaced && e.at-first.at > turnBy && !o.excused(first.at, e.at, "", "", reachReplica, reachLedger, reachOutage, reachCallers, reachRejected):
			say(e, "placed %v after it was sent, while a team floods", e.at-first.at)
		}
	}
}

// capIsProbed checks that a process probes the daily cap with one order a minute.
func capIsProbed(o *outcome, say func(event, string, ...any)) {
	for _, f := range o.faults {
		if f.id != "G2" {
			continue
		}
		sent := map[string]int{}
		most := capOrdersAtOnce + int((f.to-f.from)/time.Minute) + 1
		for _, r := range o.sent() {
			if r.op != routePlace || r.at < f.from || r.at > f.to || r.undialed {
				continue
			}
			if sent[r.process]++; sent[r.process] > most {
				say(event{at: r.at, actor: r.process}, "%d orders sent past the daily cap in %v", sent[r.process], r.at-f.from)
				return
			}
		}
	}
}
