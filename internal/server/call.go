package server

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// receiveCheck is how often a receive that takes long is checked against the budget of bytes. Nearly
// every message has arrived before.
const receiveCheck = 50 * time.Millisecond

// received is a message that is being received, with its size once the codec knows it.
type received struct {
	message any
	bytes   int
}

var errSlowRequest = service.Fail(easelv1.ErrorReason_REQUEST_BODY_TIMEOUT, fmt.Sprintf("the request did not arrive within %v", requestTimeout))

// call is one call on its way through the interceptor.
type call struct {
	*interceptor
	method     string
	streams    bool
	start      time.Time
	from       origin
	ctx        context.Context // says who calls once the call was authenticated
	span       *callSpan
	bytes      heldBytes    // of the request
	in         received     // the request that is being received
	countOut   func()       // ends what admission counts; nil before the call was admitted
	references atomic.Int32 // by the call itself, and by the submission that it started
}

// serve authenticates a call by its headers, before its request is received, and handles it.
func (c *call) serve(ctx context.Context, handle func(context.Context, *call) error) error {
	c.from = c.origin(ctx)
	c.span.from(c.from.peer)
	ctx = withIdempotencyKeys(withoutPrivateMetadata(ctx), c.from.idempotencyKeys)
	if !public(c.method) {
		known, denied := c.service.Authenticate(ctx, c.from.certificate)
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

// status is the status of how the call has ended, for its caller.
func (c *call) status(cause error) *status.Status { return service.StatusFor(c.ctx, cause) }

// hold counts the call against its limits until each reference to it was released.
func (c *call) hold() (release func()) {
	c.references.Add(1)
	return c.release
}

// release counts the call out with the last reference.
func (c *call) release() {
	if c.references.Add(-1) > 0 {
		return
	}
	c.bytes.release()
	if c.countOut != nil {
		c.countOut()
	}
}

// request receives a request of a call, and admits the call with the first one.
func (c *call) request(ctx context.Context, stream grpc.ServerStream, req any) error {
	if err := c.receive(stream, req); err != nil {
		return err
	}
	return c.enter(ctx, req)
}

// receive receives a message within its time and the budget. The library has no time limit for that, so
// it receives in a goroutine of its own, which ends with the stream at the latest.
func (c *call) receive(stream grpc.ServerStream, message any) error {
	if c.from.conn == nil { // the gateway's: it is there already, and counted
		return stream.RecvMsg(message)
	}
	c.from.conn.beginMessage()
	bytes := 0
	defer func() { c.from.conn.endMessage(cmp.Or(bytes, c.from.conn.share())) }()
	c.in = received{message: message}
	done := make(chan error, 1)
	go func() { done <- c.caught(func() error { return stream.RecvMsg(&c.in) }) }()
	if err := c.await(done); err != nil {
		return err
	}
	bytes, c.in.message = c.in.bytes, nil // the message is the handler's alone from here on
	return c.bytes.arrived(c.method, bytes)
}

// await waits for a message, and checks the time and the budget meanwhile.
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

// enter admits a call whose request has come, and checks the request against the rules.
func (c *call) enter(ctx context.Context, req any) error {
	if c.countOut == nil {
		countOut, full := c.admission.admit(ctx, c.method, c.streams, c.from, req)
		if full != nil {
			return full
		}
		c.countOut = countOut
		c.span.enter()
	}
	err := c.rules.check(ctx, req)
	if err == nil {
		c.span.asked(req, c.streams)
	}
	return err
}

// caught makes an error of a panic, which would end the process.
func (c *call) caught(do func() error) (cause error) {
	defer func() {
		if value := recover(); value != nil {
			cause = c.panicked(c, value)
		}
	}()
	return do()
}
