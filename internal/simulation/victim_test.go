package simulation

import (
	"context"
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
	return c.follow(v)
}

// watchOne orders a generation that takes longer than the trouble, and watches it to its end.
func watchOne(s *runningFault) {
	s.concurrently(s.next("one"), func(h *caller) {
		h.at = s.Replica
		h.orderAndFollow(h.essay(false), viewing{})
	})
	s.c.sleep(15 * time.Second)
}

// nobodys is the ID of a generation that does not exist.
const nobodys = "gen_nobodys"

// askMuch reads and watches a generation that does not exist, while another caller orders.
func askMuch(s *runningFault) {
	s.concurrently(s.next("hopes"), func(h *caller) {
		h.at = s.Replica
		h.follow(viewing{id: nobodys})
	})
	watchOne(s)
	s.concurrently(s.next("asks"), func(h *caller) {
		h.at = s.Replica
		for range 60 {
			h.readOnce(nobodys, true)
			h.pause(2 * time.Second)
		}
	})
}

// buyOne places an order and watches its generation.
func buyOne(s *runningFault) {
	s.concurrently(s.next("buy"), func(h *caller) {
		h.at = s.Replica
		h.orderAndFollow(h.haiku(false), viewing{})
	})
	s.c.sleep(15 * time.Second)
}

// fetchOne orders a picture and downloads the file.
func fetchOne(s *runningFault) {
	h := s.c.helper(s.next("file"))
	if id, ok := h.buy(h.picture(), 30*time.Second); ok && h.follow(viewing{id: id}) {
		h.download(id)
	}
}

// watched starts watches through the replica and waits until they are open.
func watched(s *runningFault) {
	for i := range 2 {
		s.concurrently(fmt.Sprint("watched", i), func(h *caller) {
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
		s.c.follow(viewing{id: id})
	}
	s.count.Add(int64(h.Fired()))
}

// orderTwice sends the same order twice, concurrently and with the same key.
func orderTwice(s *runningFault) {
	o := s.c.haiku(false)
	both := make(chan bool)
	twin := s.c.helper(s.next("twin"))
	go func() {
		twin.pause(time.Millisecond)
		_, ok := twin.buy(o, 30*time.Second)
		both <- ok
	}()
	_, ok := s.c.buy(o, 30*time.Second)
	s.done(<-both && ok)
}

// seeEndGoBack continues to watch and read a generation after its end, while the catalog sometimes reports
// earlier states.
func seeEndGoBack(s *runningFault) {
	id, ok := s.c.buy(s.c.haiku(s.Variant%2 == 0), 30*time.Second)
	if !ok {
		return
	}
	s.concurrently(s.next("all"), func(h *caller) { h.everything(40 * time.Second) })
	s.concurrently(s.next("get"), func(h *caller) {
		for range 10 {
			h.readOnce(id, true)
			h.pause(2 * time.Second)
		}
	})
	s.c.follow(viewing{id: id, until: easelv1.WatchUntil_WATCH_UNTIL_SETTLED})
	s.c.sleep(25 * time.Second)
}

// neverRead opens a stream with many large messages and does not read them for a while.
func neverRead(s *runningFault) {
	d, err := s.world.door(s.world.replicas[s.Replica], s.c.tenant.key)
	if err != nil {
		s.world.problem("no door: %v", err)
		return
	}
	defer d.close()
	s.c.neverRead(d, s)
}

// callerStreams is the server's maximum number of open streams per caller.
const callerStreams = 1000

// openTooMany opens streams until one is rejected.
func openTooMany(s *runningFault) {
	id, ok := s.c.buy(s.c.essay(false), 30*time.Second)
	if !ok {
		return
	}
	d, err := s.world.door(s.world.replicas[s.Replica], s.c.tenant.key)
	if err != nil {
		s.world.problem("no door: %v", err)
		return
	}
	defer d.close()
	ctx, cancel := context.WithCancel(s.c.world.ctx)
	defer cancel()
	for open := 0; ; open++ {
		began := time.Now()
		stream, err := d.grpc.WatchGeneration(d.signed(ctx), &easelv1.WatchGenerationRequest{GenerationId: id})
		if err == nil {
			_, err = stream.Recv()
		}
		if err == nil && open < callerStreams {
			continue
		}
		code, reason := codes.OK, ""
		if err != nil {
			code, reason = s.c.failed(promises.Event{Generation: id}, err)
		}
		switch took := time.Since(began); {
		case err == nil:
			s.c.note(promises.Event{Kind: promises.Exceeded, Generation: id, Text: fmt.Sprintf("%d streams of one caller were let in", open+1)})
		case code != codes.ResourceExhausted || reason != "STREAM_QUOTA_EXCEEDED": // the stream was not rejected because of the limit
		case took > 50*time.Millisecond:
			s.c.note(promises.Event{Kind: promises.Exceeded, Generation: id, Text: fmt.Sprintf("the refusal of a stream took %v", took)})
		default:
			s.count.Add(1)
		}
		return
	}
}

// openAndCancel opens watches and cancels them immediately.
func openAndCancel(s *runningFault) {
	id, ok := s.c.buy(s.c.essay(false), 30*time.Second)
	if !ok {
		return
	}
	for range 300 {
		s.c.watchBriefly(id)
	}
	s.done(s.c.follow(viewing{id: id}))
}

// herd starts many watches of the same generation.
func herd(s *runningFault) {
	id, ok := s.c.buy(s.c.essay(s.Variant == 0), 30*time.Second)
	if !ok {
		return
	}
	for i := range 150 + 50*s.Variant {
		s.concurrently(s.next("h"), func(h *caller) {
			h.at = s.Replica
			h.follow(viewing{id: id, rest: i%10 == 0})
		})
	}
	s.count.Add(1)
}

// joinAtTheEnd starts watches around the time at which their generation ends.
func joinAtTheEnd(s *runningFault) {
	for range 5 {
		id, ok := s.c.buy(s.c.haiku(false), 30*time.Second)
		if !ok {
			return
		}
		for i := range 25 {
			s.concurrently(s.next("j"), func(h *caller) {
				h.at = s.Replica
				h.sleep(time.Duration(i) * 120 * time.Millisecond * time.Duration(1/s.world.plan.Speed))
				h.follow(viewing{id: id})
			})
		}
		s.c.pause(5 * time.Second)
	}
	s.count.Add(1)
}

// readForeign tries to access another tenant's generations.
func readForeign(s *runningFault) {
	id, ok := s.c.buy(s.c.essay(false), 30*time.Second)
	if !ok {
		return
	}
	s.concurrently(s.next("owner"), func(h *caller) { h.at = s.Replica; h.follow(viewing{id: id}) })
	s.c.pause(time.Second)
	thief := s.world.caller(s.world.tenants[len(s.world.tenants)-1], s.next("spy")+s.c.name)
	thief.at = s.Replica
	for range 4 {
		for what, err := range thief.tryEveryCall(id) {
			switch status.Code(err) {
			case codes.NotFound:
				s.count.Add(1)
			case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Internal:
			default: // any other error would reveal that the generation exists
				thief.note(promises.Event{Kind: promises.Leaked, Generation: id, Text: fmt.Sprintf("%s of another tenant's generation: %v", what, err)})
			}
			thief.searchError(err)
		}
		thief.pause(time.Second)
	}
}

func (c *caller) searchError(err error) { c.world.searchKeys(c, fmt.Sprint(err)) }
