package simulation

import (
	"time"

	"github.com/easel-grpc/easel/internal/sandbox"
)

// The troubles of worlds whose replicas watch the same, which are P here.
func init() {
	acts["P5"] = faultAction{reach: reachReads, victim: watchMuch, begin: func(s *runningFault) (func(), func() int) {
		return inject(s, sandbox.Fault{Status: 503, Body: page, Header: html, Key: s.apiKey()}, routeList)
	}}
	acts["P6"] = faultAction{reach: reachLedger, victim: watchOne, begin: loseLedgerInCrowd}
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
