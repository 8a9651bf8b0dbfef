package server

import (
	"cmp"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

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

// receive receives a message within its time and the budget. The library knows no limit of time
// for it, so it works in a goroutine of its own, which ends with the stream at the latest.
func (c *call) receive(stream grpc.ServerStream, message any) error {
	if c.from.conn == nil { // the gateway's: it is there already, and counted
		return stream.RecvMsg(message)
	}
	conn := c.from.conn
	conn.arrive()
	bytes := 0
	defer func() { conn.settle(cmp.Or(bytes, conn.share())) }()
	c.in = received{message: message}
	done := make(chan error, 1)
	go func() { done <- c.guarded(func() error { return stream.RecvMsg(&c.in) }) }()
	check, began := time.NewTimer(receiveCheck), time.Now()
	defer check.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				return err
			}
			bytes, c.in.message = c.in.bytes, nil // the message is the handler's alone from here on
			return c.bytes.arrived(c.method, bytes)
		case <-check.C:
			if time.Since(began) >= requestTimeout {
				return errSlowRequest
			}
			if err := c.bytes.set(min(conn.share(), c.mostBytes)); err != nil {
				return err
			}
			check.Reset(receiveCheck)
		}
	}
}

var errSlowRequest = service.Fail(codes.DeadlineExceeded, reasonSlowBody, fmt.Sprintf("the request did not arrive within %v", requestTimeout))
