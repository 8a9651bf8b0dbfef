package server

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// receiveCheck is how often a receive that goes on is held against the budget of bytes. Nearly
// every message is there sooner.
const receiveCheck = 50 * time.Millisecond

// received is a message that is received, with its size when the codec has it.
type received struct {
	message any
	bytes   int
}

var errSlowRequest = service.Fail(codes.DeadlineExceeded, reasonSlowBody, fmt.Sprintf("the request did not arrive within %v", requestTimeout))

// call is one call on its way through the interceptor.
type call struct {
	*interceptor
	method  string
	streams bool
	start   time.Time
	from    origin
	ctx     context.Context // says who calls once that is known
	span    *callSpan
	bytes   heldBytes    // of the request
	in      received     // the request, as it is being received
	leave   func()       // nil before the call was let in
	holders atomic.Int32 // the call itself, and the submission that it started
}

// admit authenticates a call by its headers, before its request is received, and handles it.
func (c *call) admit(ctx context.Context, handle func(context.Context, *call) error) error {
	c.from = c.origin(ctx)
	c.span.from(c.from.peer)
	ctx = withIdempotencyKeys(withoutPrivateMetadata(ctx), c.from.idempotencyKeys)
	if !open(c.method) {
		known, denied := c.service.Authenticate(ctx, c.from.certName)
		if denied != nil {
			return denied
		}
		ctx, c.ctx = known, known
	}
	c.bytes = c.admission.bytes.of(c.admission.owner(ctx, c.method))
	defer c.hold()()
	if c.method == easelv1.GenerationService_CreateGeneration_FullMethodName {
		ctx = service.WithAdmission(ctx, c.hold)
	}
	return handle(ctx, c)
}

// hold keeps the place and the bytes of the call until every holder has released them.
func (c *call) hold() (release func()) {
	c.holders.Add(1)
	return c.release
}

// release gives back what the call has taken when the last holder calls it.
func (c *call) release() {
	if c.holders.Add(-1) > 0 {
		return
	}
	c.bytes.release()
	if c.leave != nil {
		c.leave()
	}
}

// request receives the request of a call and lets the call in, or a further request of one that is in.
func (c *call) request(ctx context.Context, stream grpc.ServerStream, req any) error {
	if err := c.receive(stream, req); err != nil {
		return err
	}
	return c.enter(ctx, req)
}

// receive receives a message within its time and the budget. The library knows no limit of time
// for it, so it works in a goroutine of its own, which ends with the stream at the latest.
func (c *call) receive(stream grpc.ServerStream, message any) error {
	if c.from.conn == nil { // the gateway's: it is there already, and counted
		return stream.RecvMsg(message)
	}
	c.from.conn.arrive()
	bytes := 0
	defer func() { c.from.conn.settle(cmp.Or(bytes, c.from.conn.share())) }()
	c.in = received{message: message}
	done := make(chan error, 1)
	go func() { done <- c.caught(func() error { return stream.RecvMsg(&c.in) }) }()
	if err := c.await(done); err != nil {
		return err
	}
	bytes, c.in.message = c.in.bytes, nil // the message is the handler's alone from here on
	return c.bytes.arrived(c.method, bytes)
}

// await waits for a message, and looks at the time and the budget meanwhile.
func (c *call) await(done <-chan error) error {
	began, check := time.Now(), time.NewTimer(receiveCheck)
	defer check.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-check.C:
			if time.Since(began) >= requestTimeout {
				return errSlowRequest
			}
			if err := c.bytes.set(min(c.from.conn.share(), c.mostBytes)); err != nil {
				return err
			}
			check.Reset(receiveCheck)
		}
	}
}

// enter lets a call in whose request has come, if the request keeps to the rules.
func (c *call) enter(ctx context.Context, req any) error {
	if c.leave == nil {
		leave, full := c.admission.admit(ctx, c.method, c.streams, c.from, req)
		if full != nil {
			return full
		}
		c.leave = leave
		c.span.enter()
	}
	err := c.rules.check(ctx, req)
	if err == nil {
		c.span.asked(req, c.streams)
	}
	return err
}

// caught makes an error of a panic, which would be the end of the process.
func (c *call) caught(do func() error) (cause error) {
	defer func() {
		if value := recover(); value != nil {
			cause = c.panicked(c, value)
		}
	}()
	return do()
}
