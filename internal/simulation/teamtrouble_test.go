package simulation

import (
	"context"
	"errors"
	"time"

	"github.com/easel-grpc/easel/internal/promises"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// These troubles apply to worlds with a ledger. Most of their IDs start with T in the list of faults in
// cmd/easel/faults_test.go.
func init() {
	for id, act := range map[string]faultAction{
		"T4s": ofTheLedger(slowLedger),
		"T4a": ofTheLedger(ledgerAway),
		"T4m": ofTheLedger(ledgerMute),
		"T4f": ofTheLedger(ledgerFull),
		"T4c": ofTheLedger(commitLost),
		"T4n": {reach: reachLedger, victim: buyOne, begin: failAfterPost},
		"T3":  {reach: reachReplica, victim: buyAndForget, begin: crashAtStep},
		"T3l": {reach: reachOrders, victim: buyAndForget, begin: func(s *runningFault) (func(), func() int) {
			return inject(s, sandbox.Fault{AfterCommit: true, Reset: true, Key: s.apiKey()}, routePlace)
		}},
		"T9": {reach: reachReplica, victim: buyOne, begin: stopAtStep},
		"T1": {reach: reachNobody, victim: sameKeys},
		"T2": {reach: reachNobody, victim: func(s *runningFault) {
			s.concurrently(s.next("all"), func(h *caller) { h.everything(time.Minute) })
			readForeign(s)
		}},
		"T1r": {reach: reachOrders, victim: comeBackElsewhere, begin: func(s *runningFault) (func(), func() int) {
			return inject(s, []sandbox.Fault{
				{AfterCommit: true, Reset: true, Count: 4, Key: s.apiKey()}, {AfterCommit: true, Hang: true, Count: 2, Key: s.apiKey()}, {Status: 503, Count: 6, Key: s.apiKey()},
			}[s.Variant%3], routePlace)
		}},
		"A10m": {reach: reachOrders, victim: buyOne, begin: func(s *runningFault) (func(), func() int) {
			return inject(s, sandbox.Fault{AfterCommit: true, Reset: true, Count: 3, Key: s.apiKey()}, routePlace)
		}},
		"T10": {reach: reachOrders, victim: comeBackElsewhere, begin: changeAPIKey},
		"T11": {reach: reachOrders, victim: buyOne, begin: func(s *runningFault) (func(), func() int) {
			s.For = s.world.plan.Window + s.world.plan.Forgets
			end, fired := inject(s, sandbox.Fault{AfterCommit: true, Reset: true, Key: s.apiKey()}, routePlace)
			return func() {
				end()
				s.resolveAll()
			}, fired
		}},
		"T7": {reach: reachNobody, victim: buyBelow, begin: func(s *runningFault) (func(), func() int) {
			return inject(s, sandbox.Fault{Status: 200, Body: `{"priceCents": 1}`, Header: map[string]string{"Content-Type": "application/json"}, Key: s.apiKey()}, "POST /quote")
		}},
		"T8": {reach: reachNobody, victim: callersFileChanges},
	} {
		acts[id] = act
	}
}

// ofTheLedger returns an action that disturbs the connections of one replica, or of all replicas, to the ledger.
func ofTheLedger(sort ledgerSort) faultAction {
	return faultAction{reach: reachLedger, victim: buyOne, begin: func(s *runningFault) (func(), func() int) {
		process := ""
		if s.Variant%2 == 0 {
			process = s.world.replicas[s.Replica].name
		}
		return s.world.database.begin(ledgerTrouble{sort, process})
	}}
}

// failAfterPost disturbs the ledger for a while after the catalog has responded to an order.
func failAfterPost(s *runningFault) (end func(), fired func() int) {
	healed := func() {}
	return s.atStep(stepAfterPost, func(*replica) {
		healed, _ = s.world.database.begin(ledgerTrouble{sort: []ledgerSort{ledgerAway, ledgerFull, ledgerMute}[s.Variant%3]})
	}, func(*replica, *process) {
		s.c.sleep(30*time.Second + time.Duration(s.Variant)*4*time.Second)
		healed()
	})
}

// crashAtStep kills a replica at a step of an order and starts it again after a while.
func crashAtStep(s *runningFault) (end func(), fired func() int) {
	return s.atStep(s.step(), (*replica).kill, func(r *replica, _ *process) {
		s.c.sleep(time.Duration(1+s.Variant) * 3 * time.Second)
		if err := r.boot(); err != nil {
			s.world.problem("a replica did not come back: %v", err)
		}
	})
}

// stopAtStep freezes a replica at a step of an order. It resumes the replica after another replica has had time to
// lease the order.
func stopAtStep(s *runningFault) (end func(), fired func() int) {
	return s.atStep(s.step(), (*replica).freeze, func(r *replica, p *process) {
		s.c.sleep(40*time.Second + time.Duration(s.c.random.Int64N(int64(40*time.Second))))
		r.thaw(p)
	})
}

// step returns the step that the trouble's variant selects.
func (s *runningFault) step() step { return step(1 + s.Variant%int(steps)) }

// atStep calls spring when the trouble's replica reaches a step of an order. Then it calls after, which may block.
func (s *runningFault) atStep(at step, spring func(*replica), after func(*replica, *process)) (end func(), fired func() int) {
	r := s.world.replicas[s.Replica]
	p := r.current()
	t := s.world.setTrap(r, at, spring)
	dropped, over := make(chan struct{}), make(chan struct{})
	s.world.trouble.Go(func() {
		defer close(over)
		select {
		case <-t.hit:
			s.count.Add(1)
			after(r, p)
		case <-dropped:
		}
	})
	return func() {
		if s.world.dropTrap(t) {
			close(dropped)
		}
		<-over
	}, func() int { return int(s.count.Load()) }
}

// changeAPIKey drops the responses to orders, and changes the shared API key before the orders can be resent. The
// catalog has separate idempotency keys for each API key. At the end, the first API key is active again.
func changeAPIKey(s *runningFault) (end func(), fired func() int) {
	w := s.world
	home := w.holder().key
	lost, fired := inject(s, sandbox.Fault{AfterCommit: true, Reset: true, Key: home}, routePlace)
	ended, changed := make(chan struct{}), make(chan struct{})
	w.trouble.Go(func() {
		defer close(changed)
		for fired() == 0 {
			select {
			case <-ended:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
		next := w.holder().next[int(w.rotated.Add(1))%rotations]
		w.sharedKey.Store(&next)
	})
	return func() {
		close(ended)
		<-changed
		s.c.sleep(20 * time.Second)
		w.sharedKey.Store(&home)
		lost()
	}, fired
}

// sameKeys places orders for two teams concurrently, with the same idempotency key and through different replicas.
// The teams must get different generations.
func sameKeys(s *runningFault) {
	key := s.c.key()
	ids := make(chan string, 2)
	for i, t := range []*tenant{s.c.tenant, s.world.other(s.c.tenant)} {
		h := s.world.caller(t, s.next("same")+s.c.name)
		h.at = (s.Replica + i) % len(s.world.replicas)
		s.world.callers.Go(func() {
			h.pause(time.Millisecond)
			o := h.essay(false)
			o.key = key
			id, ok := h.buy(o, 30*time.Second)
			if !ok {
				id = ""
			}
			ids <- id
			if ok {
				h.follow(viewing{id: id})
			}
		})
	}
	first, second := <-ids, <-ids
	if first != "" && first == second {
		s.c.note(promises.Event{Kind: promises.Leaked, Generation: first, Text: "two teams have one generation"})
	}
	s.done(first != "" && second != "")
}

// other returns a team other than t.
func (w *world) other(t *tenant) *tenant {
	for i, one := range w.tenants {
		if one == t {
			return w.tenants[(i+1)%w.plan.Tenants]
		}
	}
	return w.tenants[0]
}

// buyAndForget places orders. If the outcome of an order is unknown, the caller sometimes abandons the order instead
// of repeating it.
func buyAndForget(s *runningFault) {
	s.concurrently(s.next("buy"), func(h *caller) {
		h.at = s.Replica
		o := h.haiku(false)
		o.forgotten = h.randomly(0.6)
		h.buy(o, 15*time.Second)
	})
	s.c.sleep(15 * time.Second)
}

// comeBackElsewhere places an order. Each attempt goes to a different replica.
func comeBackElsewhere(s *runningFault) {
	s.concurrently(s.next("back"), func(h *caller) {
		h.at = s.Replica
		o := h.haiku(false)
		o.elsewhere = true
		if id, ok := h.buy(o, 5*time.Second); ok {
			h.follow(viewing{id: id})
		}
	})
	s.c.sleep(15 * time.Second)
}

// buyBelow places an order with a cost limit, which requires a quote.
func buyBelow(s *runningFault) {
	s.concurrently(s.next("below"), func(h *caller) {
		o, most := h.essay(false), int64(100)
		o.limit = &most
		h.orderAndFollow(o, viewing{})
	})
	s.c.sleep(15 * time.Second)
}

// forgottenOrder is an order that its caller has abandoned, and the caller's tenant.
type forgottenOrder struct {
	order
	tenant *tenant
}

func (w *world) noteForgotten(c *caller, o order) {
	if !w.plan.Ledger {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gaveUp[(&outcome{plan: w.plan}).UpstreamKey(promises.Event{Actor: c.name}, o.key)] = forgottenOrder{o, c.tenant}
}

// resolveAll acts as an operator: it records the outcome of each unresolved order according to the sandbox's
// accounts. Then the order's caller repeats it.
func (s *runningFault) resolveAll() {
	w := s.world
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	led := w.replicas[s.Replica].current().ledger
	all, err := led.List(ctx, ledger.Filter{Unresolved: true}, ledger.Position{}, 100)
	audit, unread := w.box.Audit(ctx, w.account.key)
	if err := errors.Join(err, unread); err != nil {
		w.problem("nothing is resolved: %v", err)
		return
	}
	for _, o := range all {
		generation := ""
		for _, g := range audit.Generations {
			if g.IdempotencyKey == o.UpstreamKey {
				generation = g.ID
			}
		}
		_, possible, err := led.Resolve(ctx, o.ID, catalog.Shared(w.currentSharedKey).APIKeySum(), ledger.Resolution{Generation: generation, By: ledger.By{Actor: "ops"}})
		if err != nil {
			w.problem("%s is not resolved: %v", o.ID, err)
		}
		if possible {
			s.comeBackTo(o, generation)
		}
	}
}

// comeBackTo repeats a resolved order for the caller that placed it.
func (s *runningFault) comeBackTo(o ledger.Order, generation string) {
	s.world.mu.Lock()
	s.world.resolved[o.ID] = generation
	left, ok := s.world.gaveUp[o.UpstreamKey]
	s.world.mu.Unlock()
	if !ok || generation == "" {
		return
	}
	h := s.world.caller(left.tenant, s.next("resolved")+s.c.name)
	h.start(func(h *caller) {
		if id, ok := h.buy(left.order, 20*time.Second); ok && id != generation {
			h.note(promises.Event{Kind: promises.Leaked, Generation: id, Text: "it was resolved as " + generation})
		}
	})
}

// resolvedStays checks that no process overwrites an operator's resolution of an order.
func resolvedStays(o *outcome, say promises.Say) {
	for _, c := range o.Orders() {
		want, resolved := o.resolved[c.ID]
		if resolved && (c.Generation != want || (c.State == lifecycle.Placed) != (want != "")) {
			say(promises.Event{At: c.At, Actor: c.Owner, Generation: c.Key}, "the order was resolved with generation %q, but now has %q in state %d", want, c.Generation, c.State)
		}
	}
}

// dearerIsTold checks that charges above the quote are reported to operators.
func dearerIsTold(o *outcome, say promises.Say) {
	_, orders := o.Excess()
	for _, t := range o.plan.Troubles {
		if t.ID != "T7" { // with any other trouble, a process may have crashed before it reported a charge
			return
		}
	}
	if o.dearer < orders {
		say(promises.Event{At: o.End}, "%d orders cost more than their quotes, but only %d were reported", orders, o.dearer)
	}
}
