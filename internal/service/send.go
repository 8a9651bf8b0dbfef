package service

import (
	"fmt"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// roomUnread is how much a stream surely takes of which its reader has read nothing: the library
// lets a Send through for as long as less than 64 KiB wait on the stream, of whatever size.
const roomUnread = 48 << 10

// patient sends messages on a stream, and gives up on a caller that takes none for too
// long. A Send that blocks can't be ended from within its goroutine, and keepalive does not
// end it either: the peer is there, it only does not read. So each Send that might block has
// a goroutine of its own, and ending the call sets a blocked one free.
type patient struct {
	stream   grpc.ServerStream
	patience time.Duration
	sent     int // bytes, for as long as the next Send can't block
}

// quick reports whether the next Send can't block.
func (p *patient) quick() bool { return p.sent < roomUnread }

// send sends m. m is not touched again.
func (p *patient) send(m any) error {
	if p.quick() {
		p.sent += size(m)
		return p.stream.SendMsg(m)
	}
	timer := time.NewTimer(p.patience)
	defer timer.Stop()
	select {
	case err := <-p.begin(m):
		return err
	case <-timer.C:
		return p.tooSlow()
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

func (p *patient) tooSlow() error {
	return fail(codes.ResourceExhausted, "READER_TOO_SLOW",
		"the caller took no message for "+p.patience.String()+"; connect again and read faster")
}

// packing is what a small message may grow by where the caller has asked for gzip: what gzip
// writes about itself is more than a heartbeat.
const packing = 32

// size is how many bytes of the room on a stream a message may take.
func size(m any) int {
	const frame = 5 // what says how long the message is
	if made, ok := m.(interface{ Len() int }); ok {
		return frame + packing + made.Len()
	}
	return frame + packing + proto.Size(m.(proto.Message))
}
