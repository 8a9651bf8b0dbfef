package service

import (
	"context"
	"fmt"
	"hash/maphash"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/peer"
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
	sent     int        // bytes, for as long as the next Send can't block
	packs    bool       // the library packs all that it is sent
	late     chan error // what a Send ends with that goes on; nil: there is none
}

// quick reports whether the next Send can't block.
func (p *patient) quick() bool { return p.sent < roomUnread }

// send sends m. m is not touched again. The Send of one that takes long to pack may go on
// when send has returned: see settle.
func (p *patient) send(m any) error {
	if err := p.settle(); err != nil {
		return err
	}
	if p.quick() {
		bytes := size(m)
		p.sent += bytes
		if bytes <= packedHere || !p.packs {
			return p.stream.SendMsg(m)
		}
		p.sent, p.late = roomUnread, p.begin(m)
		return nil
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

// settle waits for a Send that goes on. It does not wait for the caller: there was room. Who
// sends must settle before the call ends.
func (p *patient) settle() error {
	if p.late == nil {
		return nil
	}
	defer func() { p.late = nil }()
	return <-p.late
}

// packedHere is how large a message may be that is packed while others of the lane wait: gzip
// takes 0.2 ms for it at best and 2 ms for 70 KB, for each caller anew.
const packedHere = 16 << 10

// packs reports whether the caller of a stream has asked for gzip.
//
// To send all that is large where the watch is told, let it report false.
func packs(ctx context.Context) bool {
	stream, ok := grpc.ServerTransportStreamFromContext(ctx).(interface{ SendCompress() string })
	return ok && stream.SendCompress() != "" && stream.SendCompress() != encoding.Identity
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

// lanes is what connections are told apart by.
var lanes = maphash.MakeSeed()

// lane gives the lane of a watch: that of its connection. Two goroutines that write to one
// connection would wait for each other.
func lane(ctx context.Context) uint64 {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return 0
	}
	return maphash.String(lanes, p.Addr.String())
}
