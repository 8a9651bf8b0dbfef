package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/promises"
)

// onlyWhatIsKnown checks that each outcome in an error for an order is consistent with the requests that the processes sent
// to the catalog.
func onlyWhatIsKnown(o *outcome, say promises.Say) {
	posts := map[string][]request{}
	for _, r := range o.requests {
		if r.op == routePlace && !r.undialed {
			posts[o.memoryName(r.process)+" "+r.key] = append(posts[o.memoryName(r.process)+" "+r.key], r)
		}
	}
	for _, e := range o.Events {
		if e.Kind != promises.Failed || e.Order == "" {
			continue
		}
		code, reason, _ := strings.Cut(e.Text, " ")
		if reason != "" && e.Outcome == "" {
			say(e, "the error does not report the order's outcome")
		}
		if e.Outcome == promises.NotPlaced && !o.plan.Ledger {
			say(e, "without a ledger, a process can't know that an order was not placed")
		}
		for _, r := range posts[o.memoryName(e.Process)+" "+o.UpstreamKey(e, e.Order)] {
			if r.at > e.At {
				continue
			}
			if e.Outcome == promises.NotPlacedByThisCall && r.at >= e.Since && o.isOwn(e, r) && !slices.Contains(definite, r.status) {
				say(e, "the error reports the order as not placed by this call, but it was sent at %v", r.at)
			}
			if !o.plan.Held && e.Outcome == promises.NotPlacedByThisCall { // with forwarded API keys, this outcome describes only this call, not orders that earlier calls have sent
				continue
			}
			if reason != "SUBMISSION_OUTCOME_UNKNOWN" && reason != "SUBMISSION_IN_PROGRESS" && reason != "LEDGER_UNAVAILABLE" && code != "DeadlineExceeded" && reason != "" &&
				r.end < e.Since && o.mayHaveTaken(r) {
				say(e, "the error does not report the order that this process sent at %v, and that may exist", r.at)
			}
		}
	}
}

// definite contains the HTTP statuses that prove that the catalog has rejected an order.
var definite = []int{400, 401, 402, 403, 404, 409, 413, 422}

// memoryName returns the name of the component that remembers a process's requests: "ledger" if there is a ledger,
// otherwise the name of the process itself.
func (o *outcome) memoryName(process string) string {
	if o.plan.Ledger {
		return "ledger"
	}
	return process
}

// isOwn reports whether the request r may belong to the call in the event e. Without a ledger, any request may. With a
// ledger, the event's process must have sent the request before the order was leased a second time.
func (o *outcome) isOwn(e promises.Event, r request) bool {
	held, _ := o.versionAt(r.key, r.at)
	return !o.plan.Ledger || r.process == e.Process && held.Leases <= 1
}

// mayHaveTaken reports whether a request may have placed its order in the catalog, judging by the response that the
// process received.
func (o *outcome) mayHaveTaken(r request) bool {
	return r.status == 0 || r.status >= 500 || r.status/100 == 2 && o.isExcused(r.at, r.end, "", "", reachOrders)
}

func everyPostIsOurs(o *outcome, say promises.Say) {
	sent := 0
	for _, r := range o.requests {
		if r.op == routePlace {
			sent++
			if r.key == "" {
				say(promises.Event{At: r.at, Actor: r.process}, "an order was sent without a key")
			}
		}
	}
	if o.posts > sent {
		say(promises.Event{}, "%d orders reached the catalog, but %d were sent", o.posts, sent)
	}
}

func oneSubmission(o *outcome, say promises.Say) {
	type submission struct{ process, tenant, key string }
	ends, placed := map[submission]time.Duration{}, map[submission]time.Duration{}
	// In one dialect, the response to a repeated order may be a generation with the status "error". Easel can't distinguish
	// this response from an error message, so it resends the order.
	isUnclear := dialect(o.plan.Dialect).Words["failed"] == "error"
	for _, r := range o.sentRequests() {
		if r.op != routePlace {
			continue
		}
		s := submission{r.process, r.tenant, r.key}
		at := promises.Event{At: r.at, Actor: r.process, Generation: r.key}
		if end, ok := ends[s]; ok && r.at < end {
			say(at, "an attempt started before the previous attempt ended, at %v", end)
		}
		ends[s] = r.end
		if when, ok := placed[s]; ok && r.at > when && r.at < when+23*time.Hour {
			say(at, "the order was sent, although the response to an earlier attempt arrived at %v", when)
		}
		if _, ok := placed[s]; !ok && r.status/100 == 2 && !isUnclear && !o.isExcused(r.at, r.end, "", "", reachOrders, reachLedger) {
			placed[s] = r.end
		}
	}
}

func ordersAreFinished(o *outcome, say promises.Say) {
	for _, r := range o.requests {
		if r.op == routePlace && r.cut && r.end-r.at < 14*time.Second && !o.isExcused(r.at, r.end+time.Minute, r.process, "", reachReplica) {
			say(promises.Event{At: r.at, Actor: r.process, Generation: r.key}, "the attempt's context ended after %v", r.end-r.at)
		}
	}
	const pause = 6 * time.Second      // maximum pause between two attempts to place an order
	attempts := map[string][]request{} // requests that place orders, keyed by process and idempotency key
	for _, r := range o.sentRequests() {
		if r.op == routePlace {
			attempts[r.process+" "+r.key] = append(attempts[r.process+" "+r.key], r)
		}
	}
	lost := map[string]bool{} // calls that got no response from Easel and may not have reached it, by actor, idempotency key and start time
	call := func(actor, key string, at time.Duration) string { return fmt.Sprint(actor, " ", key, " ", at) }
	for _, e := range o.Events {
		if e.Kind == promises.Failed && e.Order != "" && e.Outcome == "" {
			lost[call(e.Actor, e.Order, e.Since)] = true
		}
	}
	for _, e := range o.Events {
		if e.Kind != promises.Ordered || lost[call(e.Actor, e.Text, e.At)] {
			continue
		}
		all, until := attempts[e.Process+" "+o.UpstreamKey(e, e.Text)], e.At+e.Lasts
		for i, r := range all {
			due := r.end + pause
			if r.status < 500 || r.after > 0 || r.end < e.At || due > until || i+1 < len(all) && all[i+1].at <= due {
				continue
			}
			if !o.isExcused(r.at, due, r.process, "", reachReplica) && !o.mayBeLimited(r, due) {
				say(e, "no attempt followed the attempt at %v, which got status %d, although there was time until %v", r.at, r.status, until)
			}
		}
	}
}

// mayBeLimited reports whether the limiter may delay the next attempt after the request r. due is the time at which this
// attempt would otherwise be sent. A delay is possible for some minutes after the catalog has requested a pause, because
// each probe that fails starts another pause. A delay is also possible while the number of requests in flight is at least
// the lowest limit that the limiter can set.
func (o *outcome) mayBeLimited(r request, due time.Duration) bool {
	const pauses, minInFlight = 3 * time.Minute, 4
	inFlight := 0
	for _, x := range o.requests {
		if x.process != r.process || x.apiKey != r.apiKey || x.at > due {
			continue
		}
		if (x.after > 0 || x.status == 429) && x.end+pauses > r.end {
			return true
		}
		if x.end >= due {
			inFlight++
		}
	}
	return inFlight >= minInFlight
}
