package simulation

import (
	"fmt"
	"time"

	"github.com/easel-grpc/easel/internal/promises"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/sandbox"
)

func (c *caller) orderAndFollow(o order, v viewing) bool {
	id, ok := c.buy(o, 30*time.Second)
	if !ok {
		return false
	}
	v.id = id
	return c.followGeneration(v)
}

// watchOne starts a caller that orders a generation and watches it until it ends. The generation lasts longer than the
// fault.
func watchOne(s *runningFault) {
	s.startHelper(s.nextName("one"), func(h *caller) {
		h.at = s.Replica
		h.orderAndFollow(h.essay(false), viewing{})
	})
	s.c.sleep(15 * time.Second)
}

// watchMuch places more orders than can be polled individually at the poll rate, and watches their generations through
// all replicas.
func watchMuch(s *runningFault) {
	for n := range 60 {
		s.startHelper(s.nextName("much"), func(h *caller) {
			h.at = n % len(s.world.replicas)
			h.orderAndFollow(h.essay(false), viewing{})
		})
	}
	s.c.sleep(15 * time.Second)
}

// buyOne places an order and watches its generation.
func buyOne(s *runningFault) {
	s.startHelper(s.nextName("buy"), func(h *caller) {
		h.at = s.Replica
		h.orderAndFollow(h.haiku(false), viewing{})
	})
	s.c.sleep(15 * time.Second)
}

// orderIntoAPause places orders from five callers at short intervals, while the catalog requests a pause.
func orderIntoAPause(s *runningFault) {
	for i := range 5 {
		s.startHelper(s.nextName(fmt.Sprint("waits", i)), func(h *caller) {
			h.at = s.Replica
			h.orderAndFollow(h.haiku(false), viewing{})
		})
		s.c.pause(300 * time.Millisecond)
	}
	s.c.sleep(15 * time.Second)
}

// fetchOne orders a picture and downloads the file.
func fetchOne(s *runningFault) {
	h := s.c.helper(s.nextName("file"))
	if id, ok := h.buy(h.picture(), 30*time.Second); ok && h.followGeneration(viewing{id: id}) {
		h.download(id)
	}
}

// watchTwo creates two generations, and watches them through the replica that the fault affects. Then it waits for
// about 1.5 s, so that both watches are open.
func watchTwo(s *runningFault) {
	for i := range 2 {
		s.startHelper(fmt.Sprint("watched", i), func(h *caller) {
			h.at = s.Replica
			h.orderAndFollow(h.essay(false), viewing{rest: i == 1})
		})
	}
	s.c.pause(1500 * time.Millisecond)
}

// leaveAnOrder sends an order, disconnects before it receives the response, and sends the order again.
func leaveAnOrder(s *runningFault) {
	o, first := s.c.haiku(false), 100*time.Millisecond+time.Duration(s.c.random.Int64N(3e8))
	fault := sandbox.Fault{Delay: sandbox.Delay(400 * time.Millisecond), Count: 1}
	if s.Variant%2 == 1 {
		fault = sandbox.Fault{Status: 503, Count: 3}
		first, o.leave = 20*time.Second, first
	}
	fault.Route, fault.Key = routePlace, s.apiKey()
	h := s.world.box.Inject(fault)
	defer h.Remove()
	if id, ok := s.c.buy(o, first); ok {
		s.c.followGeneration(viewing{id: id})
	}
	s.count.Add(int64(h.Fired()))
}

// orderTwice sends the same order twice, concurrently and with the same key.
func orderTwice(s *runningFault) {
	o := s.c.haiku(false)
	both := make(chan bool)
	twin := s.c.helper(s.nextName("twin"))
	go func() {
		twin.pause(time.Millisecond)
		_, ok := twin.buy(o, 30*time.Second)
		both <- ok
	}()
	_, ok := s.c.buy(o, 30*time.Second)
	s.done(<-both && ok)
}

// seeEndGoBack orders a generation, and continues to watch and read it after its end, while the catalog sometimes
// reports an earlier state.
func seeEndGoBack(s *runningFault) {
	id, ok := s.c.buy(s.c.haiku(s.Variant%2 == 0), 30*time.Second)
	if !ok {
		return
	}
	s.startHelper(s.nextName("all"), func(h *caller) { h.watchEverything(40 * time.Second) })
	s.startHelper(s.nextName("get"), func(h *caller) {
		for range 10 {
			h.readNew(id)
			h.pause(2 * time.Second)
		}
	})
	s.c.followGeneration(viewing{id: id, until: easelv1.WatchUntil_WATCH_UNTIL_SETTLED})
	s.c.sleep(25 * time.Second)
}

// startHerd creates a generation and starts many watches of it.
func startHerd(s *runningFault) {
	id, ok := s.c.buy(s.c.essay(s.Variant == 0), 30*time.Second)
	if !ok {
		return
	}
	for i := range 150 + 50*s.Variant {
		s.startHelper(s.nextName("h"), func(h *caller) {
			h.at = s.Replica
			h.followGeneration(viewing{id: id, rest: i%10 == 0})
		})
	}
	s.count.Add(1)
}

// readForeign orders a generation, and checks that another tenant's calls reveal nothing about it.
func readForeign(s *runningFault) {
	id, ok := s.c.buy(s.c.essay(false), 30*time.Second)
	if !ok {
		return
	}
	s.startHelper(s.nextName("owner"), func(h *caller) { h.at = s.Replica; h.followGeneration(viewing{id: id}) })
	s.c.pause(time.Second)
	thief := s.world.caller(s.world.tenants[len(s.world.tenants)-1], s.nextName("spy")+s.c.name)
	thief.at = s.Replica
	for range 4 {
		for what, err := range thief.tryEveryCall(id) {
			switch status.Code(err) {
			case codes.NotFound:
				s.count.Add(1)
			case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Internal:
			default: // any other result would reveal that the generation exists
				thief.note(promises.Event{Kind: promises.Leaked, Generation: id, Text: fmt.Sprintf("%s of another tenant's generation: %v", what, err)})
			}
			thief.searchError(err)
		}
		thief.pause(time.Second)
	}
}

func (c *caller) searchError(err error) { c.world.searchKeys(c, fmt.Sprint(err)) }
