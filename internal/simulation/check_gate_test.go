package simulation

import (
	"slices"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/promises"
)

const (
	// turnBy is the maximum time to place a small team's order while another team sends many orders. It allows for one
	// order of each owner at the catalog's rate, and for a pause.
	turnBy = 15 * time.Second
	// gateMargin is the minimum time between the end of a pause and an order's deadline. With less time, the order may
	// be rejected.
	gateMargin = 5 * time.Second
	// longestPause is the longest pause that the catalog can request.
	longestPause = 2 * time.Minute
)

// noRequestInAPause checks that a process sends no request under an API key between a 429 and the end of its pause.
func noRequestInAPause(o *outcome, say promises.Say) {
	last := map[account]request{} // latest requests to which the catalog responded with a pause
	for _, r := range o.sent() {
		who := account{r.process, r.apiKey}
		if asked := last[who]; r.at > asked.end && r.at < asked.end+asked.after {
			say(promises.Event{At: r.at, Actor: r.process}, "%s was sent %v after the catalog had requested a pause of %v", r.op, r.at-asked.end, asked.after)
			return
		}
		if r.asksForPause() && r.end+r.after > last[who].end+last[who].after {
			last[who] = r
		}
	}
}

// oneGoesFirst checks that after an API key's pause, a process sends only one request until it has received that
// request's response.
func oneGoesFirst(o *outcome, say promises.Say) {
	asked, first := map[account]request{}, map[account]request{}
	for _, r := range o.sent() {
		who := account{r.process, r.apiKey}
		opens := asked[who].end + asked[who].after
		switch one, known := first[who]; {
		case asked[who].after == 0 || r.at < opens || r.at < asked[who].end:
		case !known:
			first[who] = r
		case r.at < one.end:
			say(promises.Event{At: r.at, Actor: r.process}, "%s was sent before the response to the first request after a pause, at %v", r.op, one.end)
			return
		}
		if r.asksForPause() && r.end+r.after > opens {
			asked[who] = r
			delete(first, who)
		}
	}
}

// asksForPause reports whether the catalog's response requested a pause of known length.
func (r request) asksForPause() bool { return (r.status == 429 || r.status == 503) && r.after > 0 }

// noOrderIsLostByWaiting checks that no order is rejected because of a 429 if the last pause ends well before the
// order's deadline.
func noOrderIsLostByWaiting(o *outcome, say promises.Say) {
	lasts := map[string]map[time.Duration]time.Duration{} // time to the deadline, by idempotency key and send time
	for _, e := range o.Events {
		if e.Kind == promises.Ordered {
			if lasts[e.Text] == nil {
				lasts[e.Text] = map[time.Duration]time.Duration{}
			}
			lasts[e.Text][e.At] = e.Lasts
		}
		if e.Kind != promises.Failed || e.Order == "" || !strings.HasSuffix(e.Text, " UPSTREAM_RATE_LIMITED") || o.flooded(e) {
			continue
		}
		until := e.Since + lasts[e.Order][e.Since]
		if opens, known := o.opens(e.At); known && opens+gateMargin < until {
			say(e, "the order was rejected because of a 429 at %v, but its deadline is %v and the pause ends at %v", e.At, until, opens)
			return
		}
	}
}

// opens returns the end of the last pause that the catalog requested before the given time. known is false if a
// response requested a pause of unknown length.
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

// flooded reports whether an order's team floods the catalog, so that the order may have to wait past its deadline.
func (o *outcome) flooded(e promises.Event) bool {
	return slices.ContainsFunc(o.Events, func(other promises.Event) bool {
		return other.Kind == promises.Ordered && strings.Contains(other.Actor, "flood") && other.Owner() == e.Owner() && other.At <= e.At && e.Since-other.At < time.Minute
	})
}

// noOwnerStarves checks that a small team's orders are placed soon while another team sends many orders.
func noOwnerStarves(o *outcome, say promises.Say) {
	sent := map[string]promises.Event{}
	for _, e := range o.Events {
		if !strings.Contains(e.Actor, "small") || !strings.Contains(e.Actor, ".G1") {
			continue
		}
		switch first, seen := sent[e.Text]; {
		case e.Kind == promises.Ordered && !seen:
			sent[e.Text] = e
		case e.Kind == promises.Placed && e.At-first.At > turnBy && !o.excused(first.At, e.At, "", "", reachReplica, reachLedger, reachOutage, reachCallers, reachRejected):
			say(e, "the order was placed %v after it was sent, while another team sent many orders", e.At-first.At)
		}
	}
}

// capIsProbed checks that a process probes the daily cap with only one order per minute.
func capIsProbed(o *outcome, say promises.Say) {
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
				say(promises.Event{At: r.at, Actor: r.process}, "%d orders were sent after the daily cap was reached, in %v", sent[r.process], r.at-f.from)
				return
			}
		}
	}
}
