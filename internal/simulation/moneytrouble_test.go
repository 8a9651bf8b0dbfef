package simulation

import (
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/promises"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// The following faults concern money. Their IDs start with M in the list of faults in cmd/easel/faults_test.go.
func init() {
	for id, act := range map[string]faultAction{
		"M2":  {reach: reachNobody, victim: func(s *runningFault) { s.buyTwice(1) }, begin: slowQuotes},
		"M2j": {reach: reachNobody, victim: func(s *runningFault) { s.buyTwice(0) }, begin: slowQuotes},
		"M3":  disturbLedger(commitSilent),
		"M4":  {reach: reachReads, victim: watchOne, begin: missForAWhile},
		"M7": {reach: reachOrders, victim: buyOne, begin: func(s *runningFault) (func(), func() int) {
			return inject(s, sandbox.Fault{Set: map[string]any{"costCents": 0}, Key: s.apiKey()}, routePlace)
		}},
		"M8": {reach: reachOrders, victim: buyOne, begin: func(s *runningFault) (func(), func() int) {
			s.For = s.world.plan.Window + s.world.plan.Forgets
			return s.refuseRepeats()
		}},
		"M12": {reach: reachReplica, victim: buyOne, begin: func(s *runningFault) (func(), func() int) {
			return s.atStep(stepBeforePost, (*replica).freeze, func(r *replica, p *process) {
				s.c.sleep(s.world.plan.Window + s.world.plan.Forgets) // long enough for another process to send the order, and then for the catalog to forget the idempotency key
				r.thaw(p)
			})
		}},
	} {
		acts[id] = act
	}
}

// slowQuotes delays the catalog's responses to requests for quotes until endFault is called. firedCount returns the
// number of delayed responses.
func slowQuotes(s *runningFault) (endFault func(), firedCount func() int) {
	return inject(s, sandbox.Fault{Delay: sandbox.Delay(6 * time.Second), Key: s.apiKey()}, routeQuote)
}

// buyTwice sends the same order from two callers concurrently. The limit of the first caller is below the price, but
// its quote is slow. In the meantime, the second caller places the order without a limit. indexDifference is the
// difference between the indexes of their replicas. If it is zero, both callers use the same replica.
func (s *runningFault) buyTwice(indexDifference int) {
	limited, free := s.c.helper(s.nextName("limited")), s.c.helper(s.nextName("free"))
	limited.at, free.at = s.Replica, (s.Replica+indexDifference)%len(s.world.replicas)
	o, none := limited.haiku(false), int64(0)
	bought := make(chan struct{})
	s.world.trouble.Go(func() {
		defer close(bought)
		below := o
		below.limit = &none
		limited.buy(below, 20*time.Second)
	})
	s.c.sleep(time.Second)
	_, ok := free.buy(o, 20*time.Second)
	if free.refused == "PRICE_ABOVE_LIMIT" {
		free.note(promises.Event{Kind: promises.Exceeded, Text: "it was refused by the limit of another call"})
	}
	<-bought
	s.done(ok)
}

// missForAWhile injects a fault that makes reads of generations return 404 or 410, as if a proxy failed or the API key
// belonged to another account. endFault removes the fault, and firedCount returns the number of affected reads.
func missForAWhile(s *runningFault) (endFault func(), firedCount func() int) {
	s.For = 20 * time.Second
	missing := []sandbox.Fault{
		{Status: 404, Body: page, Header: html}, {Status: 404, Body: `{"code":"GENERATION_NOT_FOUND","message":"There is no such generation."}`}, {Status: 410, Body: page, Header: html},
	}[s.Variant%3]
	return inject(s, missing, routeRead)
}

// nothingReservedPastTheWindow checks that an order without an outcome reserves no money two minutes after its resend
// window and all faults have ended.
func nothingReservedPastTheWindow(o *outcome, say promises.Say) {
	for _, c := range o.Orders() {
		due := max(o.Healed, c.Written+o.plan.Window) + 2*time.Minute
		if c.State == lifecycle.Open && due < o.End && c.Reserved > 0 {
			say(promises.Event{At: c.At, Actor: c.Owner, Generation: c.Key}, "%d cents are still reserved, although the resend window ended at %v", c.Reserved, c.Written+o.plan.Window)
		}
	}
}

// nothingChargedPastTheWindow checks that no order is charged after its resend window. It checks only runs with the
// fault M12, which freezes a process just before it sends an order.
func nothingChargedPastTheWindow(o *outcome, say promises.Say) {
	if !o.plan.Ledger || !slices.ContainsFunc(o.plan.Troubles, func(t trouble) bool { return t.ID == "M12" }) {
		return
	}
	for _, g := range o.Accounts["held"].Generations {
		born := g.CreatedAt.Sub(o.Begin)
		held, ok := o.versionAt(g.IdempotencyKey, born)
		if ok && born > held.Written+o.plan.Window+time.Second {
			say(promises.Event{At: born, Actor: held.Owner, Generation: g.ID}, "the order was charged %v after it was written to the ledger", born-held.Written)
		}
	}
}

// notPlacedIsTrueWhenSaid checks each error that reports an order as not placed. The ledger must not have recorded the
// order as placed before the error. At some time during the call, the idempotency key must have had no open or placed
// order.
func notPlacedIsTrueWhenSaid(o *outcome, say promises.Say) {
	for _, e := range o.Events {
		if !o.plan.Ledger || e.Kind != promises.Failed || e.Order == "" || e.Outcome != promises.NotPlaced {
			continue
		}
		key := o.UpstreamKey(e, e.Order)
		held, written := o.versionAt(key, e.Since)
		free := !written || !held.IsLive()
		for _, c := range o.journeys[key] {
			if c.State == lifecycle.Placed && c.At < e.At-time.Second {
				say(e, "the order was placed as generation %s at %v", c.Generation, c.At)
				break
			}
			free = free || c.At > e.Since && c.At <= e.At && !c.IsLive()
		}
		if !free {
			say(e, "the ledger had the order during the complete call")
		}
	}
}

func deletedDoesNotExist(o *outcome, say promises.Say) {
	for _, c := range o.Versions {
		if c.Deleted && !o.Truth[c.Generation].Deleted {
			say(promises.Event{At: c.At, Actor: c.Owner, Generation: c.Generation}, "the ledger has the generation as deleted, but it exists")
			return
		}
	}
}

func reservedUntilTheEnd(o *outcome, say promises.Say) {
	price := map[string]int64{}
	for _, c := range o.Versions {
		price[c.ID] = max(price[c.ID], c.Reserved)
		if open := c.State == lifecycle.Placed && c.Status < lifecycle.Failed && !c.Settled; open && c.Reserved+max(c.Cost, 0) < price[c.ID] {
			say(promises.Event{At: c.At, Actor: c.Owner, Generation: c.Generation}, "%d cents are reserved or charged, but the quote was %d cents", c.Reserved+max(c.Cost, 0), price[c.ID])
		}
	}
}
