package simulation

import (
	"time"

	"github.com/easel-grpc/easel/internal/promises"

	"github.com/easel-grpc/easel/internal/sandbox"
)

// These planned faults occur only in worlds with a ledger. Most of their IDs start with T in the list of faults in
// cmd/easel/faults_test.go.
func init() {
	for id, act := range map[string]faultAction{
		"T4s": disturbLedger(slowLedger),
		"T4a": disturbLedger(ledgerAway),
		"T4m": disturbLedger(ledgerMute),
		"T4f": disturbLedger(ledgerFull),
		"T4c": disturbLedger(commitLost),
		"T4n": {reach: reachLedger, victim: buyOne, begin: failAfterPost},
		"T3":  {reach: reachReplica, victim: buyAndForget, begin: crashAtStep},
		"T3l": {reach: reachOrders, victim: buyAndForget, begin: func(s *runningFault) (func(), func() int) {
			return inject(s, sandbox.Fault{AfterCommit: true, Reset: true, Key: s.apiKey()}, routePlace)
		}},
		"T9": {reach: reachReplica, victim: buyOne, begin: stopAtStep},
		"T1": {reach: reachNobody, victim: orderWithSameKeys},
		"T2": {reach: reachNobody, victim: func(s *runningFault) {
			s.startHelper(s.nextName("all"), func(h *caller) { h.watchEverything(time.Minute) })
			readForeign(s)
		}},
		"T1r": {reach: reachOrders, victim: comeBackElsewhere, begin: func(s *runningFault) (func(), func() int) {
			return inject(s, []sandbox.Fault{
				{AfterCommit: true, Reset: true, Count: 4, Key: s.apiKey()}, {AfterCommit: true, Hang: true, Count: 2, Key: s.apiKey()}, {Status: 503, Count: 6, Key: s.apiKey()},
			}[s.Variant%3], routePlace)
		}},
		"T10": {reach: reachOrders, victim: comeBackElsewhere, begin: changeAPIKey},
		"T11": {reach: reachOrders, victim: buyOne, begin: func(s *runningFault) (func(), func() int) {
			s.For = s.world.plan.Window + s.world.plan.Forgets
			return inject(s, sandbox.Fault{AfterCommit: true, Reset: true, Key: s.apiKey()}, routePlace)
		}},
	} {
		acts[id] = act
	}
}

// disturbLedger returns an action that causes a ledger fault of the given sort, for one replica or for all replicas.
func disturbLedger(sort ledgerSort) faultAction {
	return faultAction{reach: reachLedger, victim: buyOne, begin: func(s *runningFault) (func(), func() int) {
		process := ""
		if s.Variant%2 == 0 {
			process = s.world.replicas[s.Replica].name
		}
		return s.world.database.beginFault(ledgerTrouble{sort, process})
	}}
}

// failAfterPost disturbs the ledger for a while after the catalog has responded to an order. endFault and firedCount
// have the same meaning as in [runningFault.atStep].
func failAfterPost(s *runningFault) (endFault func(), firedCount func() int) {
	healed := func() {}
	return s.atStep(stepAfterPost, func(*replica) {
		healed, _ = s.world.database.beginFault(ledgerTrouble{sort: []ledgerSort{ledgerAway, ledgerFull, ledgerMute}[s.Variant%3]})
	}, func(*replica, *process) {
		s.c.sleep(30*time.Second + time.Duration(s.Variant)*4*time.Second)
		healed()
	})
}

// crashAtStep kills a replica as soon as it reaches a certain step of an order. It starts the replica again after a
// while.
func crashAtStep(s *runningFault) (endFault func(), firedCount func() int) {
	return s.atStep(s.step(), (*replica).kill, func(r *replica, _ *process) {
		s.c.sleep(time.Duration(1+s.Variant) * 3 * time.Second)
		if err := r.boot(); err != nil {
			s.world.recordProblem("a replica did not come back: %v", err)
		}
	})
}

// stopAtStep freezes a replica at a step of an order. It resumes the replica after another replica has had time to
// lease the order.
func stopAtStep(s *runningFault) (endFault func(), firedCount func() int) {
	return s.atStep(s.step(), (*replica).freeze, func(r *replica, p *process) {
		s.c.sleep(40*time.Second + time.Duration(s.c.random.Int64N(int64(40*time.Second))))
		r.thaw(p)
	})
}

// step returns the step of an order that s.Variant selects.
func (s *runningFault) step() step { return step(1 + s.Variant%int(steps)) }

// atStep waits in the background until an order on the fault's replica reaches the given step. At this moment,
// springTrap is called. Afterwards, recoverReplica is called, which may block. endFault stops the wait or, if the
// step was reached, waits until recoverReplica has returned. firedCount returns the number of times that the step was
// reached.
func (s *runningFault) atStep(at step, springTrap func(*replica), recoverReplica func(*replica, *process)) (endFault func(), firedCount func() int) {
	r := s.world.replicas[s.Replica]
	p := r.currentProcess()
	t := s.world.setTrap(r, at, springTrap)
	dropped, over := make(chan struct{}), make(chan struct{})
	s.world.trouble.Go(func() {
		defer close(over)
		select {
		case <-t.hit:
			s.count.Add(1)
			recoverReplica(r, p)
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
// catalog stores idempotency keys separately for each API key, so it would not recognize a resent order. When the fault
// ends, the first API key is in use again.
func changeAPIKey(s *runningFault) (endFault func(), firedCount func() int) {
	w := s.world
	home := w.holder().key
	lost, firedCount := inject(s, sandbox.Fault{AfterCommit: true, Reset: true, Key: home}, routePlace)
	ended, changed := make(chan struct{}), make(chan struct{})
	w.trouble.Go(func() {
		defer close(changed)
		for firedCount() == 0 {
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
	}, firedCount
}

// orderWithSameKeys places orders for two tenants concurrently, with the same idempotency key and through different
// replicas. The tenants must get different generations.
func orderWithSameKeys(s *runningFault) {
	key := s.c.key()
	ids := make(chan string, 2)
	for i, t := range []*tenant{s.c.tenant, s.world.otherTenant(s.c.tenant)} {
		h := s.world.caller(t, s.nextName("same")+s.c.name)
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
				h.followGeneration(viewing{id: id})
			}
		})
	}
	first, second := <-ids, <-ids
	if first != "" && first == second {
		s.c.note(promises.Event{Kind: promises.Leaked, Generation: first, Text: "two teams have one generation"})
	}
	s.done(first != "" && second != "")
}

// otherTenant returns a tenant other than t.
func (w *world) otherTenant(t *tenant) *tenant {
	for i, one := range w.tenants {
		if one == t {
			return w.tenants[(i+1)%w.plan.Tenants]
		}
	}
	return w.tenants[0]
}

// buyAndForget places an order. If the outcome is unknown, the caller sometimes abandons the order instead of repeating
// it.
func buyAndForget(s *runningFault) {
	s.startHelper(s.nextName("buy"), func(h *caller) {
		h.at = s.Replica
		o := h.haiku(false)
		o.forgotten = h.randomly(0.6)
		h.buy(o, 15*time.Second)
	})
	s.c.sleep(15 * time.Second)
}

// comeBackElsewhere places an order and watches its generation. Each attempt to place the order goes to the next replica.
func comeBackElsewhere(s *runningFault) {
	s.startHelper(s.nextName("back"), func(h *caller) {
		h.at = s.Replica
		o := h.haiku(false)
		o.elsewhere = true
		if id, ok := h.buy(o, 5*time.Second); ok {
			h.followGeneration(viewing{id: id})
		}
	})
	s.c.sleep(15 * time.Second)
}
