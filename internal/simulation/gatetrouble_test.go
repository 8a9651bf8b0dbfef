package simulation

import (
	"fmt"
	"time"

	"github.com/easel-grpc/easel/internal/sandbox"
)

// These troubles test the limiter: the demand exceeds the catalog's rate or daily cap, or the catalog requests a
// pause.
func init() {
	acts["G1"] = faultAction{reach: reachNobody, victim: flood}
	acts["G2"] = faultAction{reach: reachOrders, victim: orderPastTheCap, begin: func(s *runningFault) (func(), func() int) {
		return inject(s, sandbox.Fault{Status: 409, Body: `{"code":"API_KEY_DAILY_CAP","message":"enough for today"}`, Key: s.apiKey()}, routePlace)
	}}
	acts["G3"] = faultAction{reach: reachCatalog, victim: orderIntoAPause, begin: func(s *runningFault) (func(), func() int) {
		return inject(s, sandbox.Fault{Status: []int{429, 503}[s.Variant%2], Header: waitFor("12"), Body: tooMany, Count: 1, Key: s.apiKey()}, []string{routePlace, routeRead, routeList}[s.Variant%3])
	}}
}

const (
	orderRate       = 2.0 // orders per second that the catalog accepts if its rate is low
	floodOrders     = 60  // number of concurrent orders of the team that sends too many
	capOrdersAtOnce = 4   // maximum number of orders in flight when the catalog first rejects an order because of the cap
)

// flood sends many orders of one team concurrently, while another team places one order after the other.
func flood(s *runningFault) {
	owner, small := s.c.tenant, s.world.tenants[0]
	if small == owner {
		small = s.world.tenants[1]
	}
	for i := range floodOrders {
		s.concurrently(s.next(fmt.Sprint("flood", i)), func(h *caller) { h.buy(h.haiku(false), time.Minute) })
	}
	c := s.world.caller(small, fmt.Sprintf("G1.%d.small", s.At/time.Millisecond))
	c.at = s.Replica
	s.c.sleep(time.Second)
	for range 10 {
		if _, ok := c.buy(c.haiku(false), 30*time.Second); ok {
			s.count.Add(1)
		}
		c.pause(time.Second)
	}
}

// orderPastTheCap places orders repeatedly while the daily cap rejects them.
func orderPastTheCap(s *runningFault) {
	for range 40 {
		s.c.buy(s.c.haiku(false), 10*time.Second)
		s.c.pause(200 * time.Millisecond)
	}
}

// orderIntoAPause places overlapping orders from several callers around a pause that the catalog requests.
func orderIntoAPause(s *runningFault) {
	for i := range 5 {
		s.concurrently(s.next(fmt.Sprint("waits", i)), func(h *caller) {
			h.at = s.Replica
			h.orderAndFollow(h.haiku(false), viewing{})
		})
		s.c.pause(300 * time.Millisecond)
	}
	s.c.sleep(15 * time.Second)
}
