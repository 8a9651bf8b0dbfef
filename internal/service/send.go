package service

import (
	"fmt"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// patient sends messages on a stream, and gives up on a caller that takes none for too
// long. A Send that blocks can't be ended from within its goroutine, and keepalive does not
// end it either: the peer is there, it only does not read. So a Send has a goroutine of its own, and
// ending the call sets a blocked one free.
type patient struct {
	stream   grpc.ServerStream
	patience time.Duration
}

// send sends m. m is not touched again.
func (p *patient) send(m any) error {
	timer := time.NewTimer(p.patience)
	defer timer.Stop()
	select {
	case err := <-p.begin(m):
		return err
	case <-timer.C:
		return tooSlow(p.patience)
	}
}

// begin sends m on a goroutine of its own, and gives what that ends with. A panic there is an
// error of this call: nobody above would recover it, and it would be the end of all calls.
func (p *patient) begin(m any) chan error {
	sent := make(chan error, 1)
	go func() {
		defer func() {
			if value := recover(); value != nil {
				sent <- fmt.Errorf("panic while a message was sent: %v\n%s", value, debug.Stack())
			}
		}()
		sent <- p.stream.SendMsg(m)
	}()
	return sent
}

// tooSlow is the error of a caller that has taken no message for too long.
func tooSlow(patience time.Duration) error {
	return fail(codes.ResourceExhausted, "READER_TOO_SLOW",
		"the caller took no message for "+patience.String()+"; connect again and read faster")
}
