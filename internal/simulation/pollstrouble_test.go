package simulation

import (
	"time"

	"github.com/easel-grpc/easel/internal/sandbox"
)

// These troubles apply when several replicas watch the same generations. Their IDs start with P.
func init() {
	acts["P5"] = faultAction{reach: reachReads, victim: watchMuch, begin: func(s *runningFault) (func(), func() int) {
		return inject(s, sandbox.Fault{Status: 503, Body: page, Header: html, Key: s.apiKey()}, routeList)
	}}
}

// watchMuch places more orders than can be polled one by one at the poll rate, and watches their generations through
// all replicas.
func watchMuch(s *runningFault) {
	for n := range 60 {
		s.concurrently(s.next("much"), func(h *caller) {
			h.at = n % len(s.world.replicas)
			h.orderAndFollow(h.essay(false), viewing{})
		})
	}
	s.c.sleep(15 * time.Second)
}
