package promises

import (
	"cmp"
	"math"
	"time"
)

// chargedOnce checks that the catalog charged each idempotency key at most once, and that each charged key belongs to
// a caller's order. If callers received a generation for a key, it must be the charged generation.
func chargedOnce(r *Run, say Say) {
	for name, account := range r.Accounts {
		if err := account.Check(); err != nil {
			say(Event{Actor: name}, "%v", err)
		}
	}
	ids := map[string]string{} // generation IDs by idempotency key
	ordered := map[string]bool{}
	for _, e := range r.Events {
		key := r.UpstreamKey(e, e.Text)
		if e.Kind == Ordered {
			ordered[key] = true
		}
		if e.Kind != Placed {
			continue
		}
		if other, ok := ids[key]; ok && other != e.Generation {
			say(e, "an earlier response to the key %s had the generation %s", e.Text, other)
		}
		ids[key] = e.Generation
	}
	charged := map[string]string{} // IDs of charged generations by idempotency key
	for _, account := range r.Accounts {
		for _, g := range account.Generations {
			id, placed := ids[g.IdempotencyKey]
			switch other, twice := charged[g.IdempotencyKey]; {
			case IsPast(g.IdempotencyKey):
			case !ordered[g.IdempotencyKey]:
				say(Event{Generation: g.ID}, "no order has the generation's key %q", g.IdempotencyKey)
			case twice:
				say(Event{Generation: g.ID}, "the generation's key %s was also charged for generation %s", g.IdempotencyKey, other)
			case placed && id != g.ID:
				say(Event{Generation: g.ID}, "the response to the generation's key %s had generation %s", g.IdempotencyKey, id)
			}
			charged[g.IdempotencyKey] = g.ID
		}
	}
	for key, id := range ids {
		if charged[key] == "" {
			say(Event{Generation: id}, "the generation was placed with the key %s, but is not in the accounts", key)
		}
	}
}

// rejectedIsNotCharged checks that an order was not charged if the last response to it was a definite rejection.
func rejectedIsNotCharged(r *Run, say Say) {
	last := map[string]Event{} // latest event by idempotency key
	for _, e := range r.Events {
		if e.Kind == Ordered || e.Kind == Placed || e.Kind == Rejected {
			last[r.UpstreamKey(e, e.Text)] = e
		}
	}
	for _, account := range r.Accounts {
		for _, g := range account.Generations {
			if e := last[g.IdempotencyKey]; e.Kind == Rejected {
				say(e, "the order was rejected with %s, but charged for generation %s", e.Generation, g.ID)
			}
		}
	}
}

// unplacedIsNotCharged checks each order for which all responses so far reported that it was not placed. Such an order
// must not be charged until its idempotency key is used again.
func unplacedIsNotCharged(r *Run, say Say) {
	born := map[string]time.Duration{} // creation times of the charged generations, by idempotency key
	for _, account := range r.Accounts {
		for _, g := range account.Generations {
			born[g.IdempotencyKey] = g.CreatedAt.Sub(r.Begin)
		}
	}
	type use struct {
		calls   int // calls in progress
		isMaybe bool
		told    Event // latest error that reported that no order was placed; zero while a call is in progress, or if a call may have placed the order
	}
	uses := map[string]use{}
	check := func(key string, u use, until time.Duration) {
		if at, charged := born[key]; charged && u.told.Kind != "" && at < until {
			say(u.told, "no call placed the order, but it was charged at %v", at)
		}
	}
	for _, e := range r.Events {
		key := r.UpstreamKey(e, cmp.Or(e.Order, e.Text))
		u := uses[key]
		switch {
		case e.Kind == Ordered:
			check(key, u, e.At)
			u.calls++
			u.told = Event{}
		case e.Kind == Placed:
			u.calls--
			u.isMaybe = true
		case e.Kind == Failed && e.Order != "":
			u.calls--
			u.isMaybe = u.isMaybe || e.Outcome != NotPlaced && e.Outcome != NotPlacedByThisCall
			if u.calls == 0 && !u.isMaybe {
				u.told = e
			}
		}
		uses[key] = u
	}
	for key, u := range uses {
		check(key, u, math.MaxInt64)
	}
}
