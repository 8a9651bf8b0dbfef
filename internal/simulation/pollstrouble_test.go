package simulation

import (
	"time"

	"github.com/easel-grpc/easel/internal/sandbox"
)

// The troubles of worlds whose polls are shared, which are P here.
func init() {
	for id, act := range map[string]faultAction{
		"P1": {reach: reachNobody, victim: watchEverywhere, begin: func(s *runningFault) (func(), func() int) {
			return s.world.database.begin(ledgerTrouble{sort: noNotices})
		}},
		"P2": {reach: reachNobody, victim: watchEverywhere, begin: crashDatabase},
		"P3": {reach: reachReplica, victim: watchEverywhere, begin: stopInPoll},
		"P4": {reach: reachReplica, victim: watchEverywhere, begin: crashInPoll},
		"P5": {reach: reachReads, victim: watchMuch, begin: func(s *runningFault) (func(), func() int) {
			return inject(s, sandbox.Fault{Status: 503, Body: page, Header: html, Key: s.apiKey()}, routeList)
		}},
		"P6": {reach: reachLedger, victim: watchOne, begin: loseLedgerInCrowd},
	} {
		acts[id] = act
	}
}

// watchEverywhere orders a generation and watches it through every replica.
func watchEverywhere(s *runningFault) {
	s.beside(s.next("everywhere"), func(h *caller) {
		h.at = s.Replica
		h.everywhere(h.essay(false))
	})
	s.c.sleep(15 * time.Second)
}

// watchMuch orders more than the rate lets anybody read in time, and watches it through all replicas.
func watchMuch(s *runningFault) {
	for n := range 60 {
		s.beside(s.next("much"), func(h *caller) {
			h.at = n % len(s.world.replicas)
			h.orderAndFollow(h.essay(false), viewing{})
		})
	}
	s.c.sleep(15 * time.Second)
}

// loseLedgerInCrowd is a ledger that is away for minutes, of one replica or of all, while there is more to read than the
// rate allows.
func loseLedgerInCrowd(s *runningFault) (end func(), fired func() int) {
	listed, _ := inject(s, sandbox.Fault{Status: 503, Body: page, Header: html, Key: s.apiKey()}, routeList)
	watchMuch(s)
	s.For = 4 * time.Minute
	back, fired := ofTheLedger(ledgerAway).begin(s)
	return func() { back(); listed() }, fired
}

// crashDatabase lets the database lose what it has of polls every few seconds.
func crashDatabase(s *runningFault) (end func(), fired func() int) {
	ended, over := make(chan struct{}), make(chan struct{})
	s.world.trouble.Go(func() {
		defer close(over)
		for {
			select {
			case <-ended:
				return
			case <-time.After(time.Duration(3+s.Variant) * 2101 * time.Millisecond):
				s.count.Add(s.world.database.crash())
			}
		}
	})
	return func() { close(ended); <-over }, func() int { return int(s.count.Load()) }
}

// pollSteps are those at which a process is killed or stopped in a poll, by variant.
var pollSteps = []step{stepAfterClaim, stepBeforeFound, stepAfterClaim}

// crashInPoll crashes a replica between the claim of a poll and its answer, and starts it again a while later.
func crashInPoll(s *runningFault) (end func(), fired func() int) {
	return s.atStep(pollSteps[s.Variant%3], func(r *replica) {
		s.world.noteStop(r.current().name)
		r.kill()
	}, func(r *replica, _ *process) {
		s.c.sleep(time.Duration(1+s.Variant) * 3 * time.Second)
		if err := r.boot(); err != nil {
			s.world.problem("a replica did not come back: %v", err)
		}
	})
}

// stopInPoll stops a replica between the claim of a poll and its answer, and lets it go on when others have made it.
func stopInPoll(s *runningFault) (end func(), fired func() int) {
	return s.atStep(pollSteps[s.Variant%3], func(r *replica) {
		s.world.noteStop(r.current().name)
		r.freeze()
	}, func(r *replica, p *process) {
		s.c.sleep([]time.Duration{1100 * time.Millisecond, 5 * time.Second, 40 * time.Second}[s.Variant%3] + time.Duration(s.c.random.Int64N(int64(2*time.Second))))
		r.thaw(p)
	})
}
