package service

import (
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
	sent := make(chan error, 1)
	go func() { sent <- guarded(func() error { return p.stream.SendMsg(m) }) }()
	timer := time.NewTimer(p.patience)
	defer timer.Stop()
	select {
	case err := <-sent:
		return err
	case <-timer.C:
		return tooSlow(p.patience)
	}
}

// tooSlow is the error of a caller that has taken no message for too long.
func tooSlow(patience time.Duration) error {
	return fail(codes.ResourceExhausted, "READER_TOO_SLOW",
		"the caller took no message for "+patience.String()+"; connect again and read faster")
}
