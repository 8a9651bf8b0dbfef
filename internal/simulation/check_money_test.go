package simulation

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

func onceCharged(o *outcome, say func(event, string, ...any)) {
	for name, books := range o.books {
		if err := books.Check(); err != nil {
			say(event{actor: name}, "%v", err)
		}
	}
	ids := map[string]string{} // generation IDs by key
	ordered := map[string]bool{}
	for _, e := range o.events {
		key := o.upstreamKey(e, e.text)
		if e.kind == sawOrder {
			ordered[key] = true
		}
		if e.kind != sawPlaced {
			continue
		}
		if other, ok := ids[key]; ok && other != e.gen {
			say(e, "the key %s stood for %s before", e.text, other)
		}
		ids[key] = e.gen
	}
	charged := map[string]string{} // charged generations by key
	for _, books := range o.books {
		for _, g := range books.Generations {
			id, placed := ids[g.IdempotencyKey]
			switch other, twice := charged[g.IdempotencyKey]; {
			case isPast(g.IdempotencyKey):
			case !ordered[g.IdempotencyKey]:
				say(event{gen: g.ID}, "its key %q belongs to no order", g.IdempotencyKey)
			case twice:
				say(event{gen: g.ID}, "its key %s was charged for %s too", g.IdempotencyKey, other)
			case placed && id != g.ID:
				say(event{gen: g.ID}, "its key %s was answered with %s", g.IdempotencyKey, id)
			}
			charged[g.IdempotencyKey] = g.ID
		}
	}
	for key := range charged {
		delete(ids, key)
	}
	for key, id := range ids {
		say(event{gen: id}, "it was placed with the key %s, and is not in the books", key)
	}
}

func refusedNotCharged(o *outcome, say func(event, string, ...any)) {
	last := map[string]event{} // latest event by key
	for _, e := range o.events {
		if e.kind == sawOrder || e.kind == sawPlaced || e.kind == sawRefused {
			last[o.upstreamKey(e, e.text)] = e
		}
	}
	for _, books := range o.books {
		for _, g := range books.Generations {
			if e := last[g.IdempotencyKey]; e.kind == sawRefused {
				say(e, "it was refused for good with %s, and charged as %s", e.gen, g.ID)
			}
		}
	}
}

// upstreamKey returns the idempotency key that the catalog receives for an actor's key. Under a
// shared API key it is derived. Without a ledger, callers are anonymous.
func (o *outcome) upstreamKey(e event, key string) string {
	if !o.plan.Held {
		return key
	}
	owner := ""
	if o.plan.Ledger {
		owner = e.tenant()
	}
	text := binary.BigEndian.AppendUint64([]byte("easel1"), uint64(len(owner)))
	return fmt.Sprintf("%x", sha256.Sum256([]byte(string(text)+owner+key)))
}

// onlyWhatIsKnown compares the reported outcomes of orders with the sent requests and with the
// sandbox's accounts.
func onlyWhatIsKnown(o *outcome, say func(event, string, ...any)) {
	posts := map[string][]request{}
	for _, r := range o.requests {
		if r.op == routePlace && !r.undialed {
			posts[o.knower(r.process)+" "+r.key] = append(posts[o.knower(r.process)+" "+r.key], r)
		}
	}
	for _, e := range o.events {
		if e.kind != sawError || e.order == "" {
			continue
		}
		code, reason, _ := strings.Cut(e.text, " ")
		if reason != "" && e.outcome == "" {
			say(e, "it says nothing of the order")
		}
		if e.outcome == notPlaced && !o.plan.Ledger {
			say(e, "without a book of orders nobody knows that")
		}
		for _, r := range posts[o.knower(e.process)+" "+o.upstreamKey(e, e.order)] {
			if r.at > e.at {
				continue
			}
			if e.outcome == notPlacedByThisCall && r.at >= e.since && o.isOwn(e, r) && !slices.Contains(definite, r.status) {
				say(e, "and it was sent at %v", r.at)
			}
			if !o.plan.Held && e.outcome == notPlacedByThisCall { // its API key was not verified, and the ledger was not read
				continue
			}
			if reason != "SUBMISSION_OUTCOME_UNKNOWN" && reason != "SUBMISSION_IN_PROGRESS" && reason != "LEDGER_UNAVAILABLE" && code != "DeadlineExceeded" && reason != "" &&
				r.end < e.since && o.mayHaveTaken(r) {
				say(e, "the error does not report the order that this process sent at %v, and that may exist", r.at)
			}
		}
	}
}

// definite has the statuses of a definite rejection.
var definite = []int{400, 401, 402, 403, 404, 409, 413, 422}

// notSentAfterwards checks that no order is sent whose outcome was not placed in each call, before its idempotency key is
// used again.
func notSentAfterwards(o *outcome, say func(event, string, ...any)) {
	type use struct {
		open, maybe bool
		told        event
	}
	uses, last := map[string]*use{}, map[string][]request{}
	for _, r := range o.requests {
		if r.op == routePlace {
			last[r.key] = append(last[r.key], r)
		}
	}
	sentBetween := func(key string, told event, until time.Duration) {
		for _, r := range last[key] {
			if r.at > told.at && r.at < until {
				say(told, "and it was sent by %s at %v", r.process, r.at)
				return
			}
		}
	}
	for _, e := range o.events {
		key := o.upstreamKey(e, cmp.Or(e.order, e.text))
		u := uses[key]
		switch {
		case e.kind == sawOrder && u == nil:
			uses[key] = &use{open: true}
		case e.kind == sawOrder:
			if u.told.kind != "" {
				sentBetween(key, u.told, e.at)
			}
			u.open, u.maybe, u.told = true, u.maybe || u.open, event{} // concurrent calls are not checked
		case u != nil && e.kind == sawPlaced:
			u.maybe = true
		case u != nil && e.kind == sawError && e.order != "":
			u.open, u.maybe = false, u.maybe || e.outcome != notPlaced && e.outcome != notPlacedByThisCall
			if !u.maybe {
				u.told = e
			}
		}
	}
	for key, u := range uses {
		if u.told.kind != "" {
			sentBetween(key, u.told, math.MaxInt64)
		}
	}
}

// knower returns the name of the store that knows the requests of a process: the ledger, or the
// process itself.
func (o *outcome) knower(process string) string {
	if o.plan.Ledger {
		return "ledger"
	}
	return process
}

// isOwn reports whether a request during a call was made for it. With a ledger others may send the order too, under
// later claims.
func (o *outcome) isOwn(e event, r request) bool {
	held, _ := o.heldAt(r.key, r.at)
	return !o.plan.Ledger || r.process == e.process && held.claims <= 1
}

// mayHaveTaken reports whether the order of a request may exist, as far as its sender could see.
func (o *outcome) mayHaveTaken(r request) bool {
	return r.status == 0 || r.status >= 500 || r.status/100 == 2 && o.excused(r.at, r.end, "", "", reachOrders)
}

func everyPostIsOurs(o *outcome, say func(event, string, ...any)) {
	sent := 0
	for _, r := range o.requests {
		if r.op == routePlace {
			sent++
			if r.key == "" {
				say(event{at: r.at, actor: r.process}, "an order was sent without a key")
			}
		}
	}
	if o.posts > sent {
		say(event{}, "%d orders arrived, %d were sent", o.posts, sent)
	}
}

func oneSubmission(o *outcome, say func(event, string, ...any)) {
	type submission struct{ process, tenant, key string }
	ends, placed := map[submission]time.Duration{}, map[submission]time.Duration{}
	for _, r := range o.sent() {
		if r.op != routePlace {
			continue
		}
		s := submission{r.process, r.tenant, r.key}
		at := event{at: r.at, actor: r.process, gen: r.key}
		if end, ok := ends[s]; ok && r.at < end {
			say(at, "an attempt began before the one before had ended at %v", end)
		}
		ends[s] = r.end
		if when, ok := placed[s]; ok && r.at > when && r.at < when+23*time.Hour {
			say(at, "it was sent although the order was answered at %v", when)
		}
		if _, ok := placed[s]; !ok && r.status/100 == 2 && !o.excused(r.at, r.end, "", "", reachOrders, reachLedger) {
			placed[s] = r.end
		}
	}
}

func ordersAreFinished(o *outcome, say func(event, string, ...any)) {
	for _, r := range o.requests {
		if r.op == routePlace && r.cut && r.end-r.at < 14*time.Second && !o.excused(r.at, r.end+time.Minute, r.process, "", reachReplica) {
			say(event{at: r.at, actor: r.process, gen: r.key}, "the attempt was cut off after %v by the end of its context", r.end-r.at)
		}
	}
	const pause = 6 * time.Second      // the longest between two attempts
	attempts := map[string][]request{} // requests by process and key
	for _, r := range o.sent() {
		if r.op == routePlace {
			attempts[r.process+" "+r.key] = append(attempts[r.process+" "+r.key], r)
		}
	}
	for _, e := range o.events {
		if e.kind != sawOrder {
			continue
		}
		all, until := attempts[e.process+" "+o.upstreamKey(e, e.text)], e.at+e.lasts
		for i, r := range all {
			due := r.end + pause
			if r.status < 500 || r.after > 0 || r.end < e.at || due > until || i+1 < len(all) && all[i+1].at <= due {
				continue
			}
			if !o.excused(r.at, due, r.process, "", reachReplica) {
				say(e, "the attempt at %v was answered with %d, and there was none after it, though there was time until %v", r.at, r.status, until)
			}
		}
	}
}
