package simulation

import (
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/promises"
)

const (
	// turnBy is the maximum time until an order from a small team is placed while another team sends many orders. It
	// covers one order of each owner at the catalog's rate, and one pause.
	turnBy = 15 * time.Second
)

// noRequestInAPause checks that a process respects each pause that the catalog requests. Before the pause ends, the
// process must send no request under the same API key.
func noRequestInAPause(o *outcome, say promises.Say) {
	last := map[account]request{} // for each account, the latest response that requested a pause
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

// oneGoesFirst checks the first request under an API key after a pause. Until its response arrives, the process
// must send no other request under this API key.
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

// asksForPause reports whether the response requested a pause of known length.
func (r request) asksForPause() bool { return (r.status == 429 || r.status == 503) && r.after > 0 }

// noOwnerStarves checks that a small team's orders are placed soon even while another team sends many orders.
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

// capIsProbed checks that a process sends only one order per minute to find out whether the daily cap still
// applies.
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
