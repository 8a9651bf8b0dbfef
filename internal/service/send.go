package service

import (
	"fmt"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// patient sends messages on a stream, and gives up on a caller that takes none for too
// long. A Send that blocks can't be ended from within its goroutine, and keepalive does not
// end it either: the peer is there, it only does not read. So what sends has a goroutine of its
// own, and ending the call sets a blocked Send free.
type patient struct {
	stream   grpc.ServerStream
	patience time.Duration
}

// send sends m. m is not touched again.
func (p *patient) send(m any) error {
	return p.run(func(send func(any) error) error { return send(m) })
}

// content sends a result with its checksums, each chunk in a message, and closes it: where the
// caller is given up, after a Send that blocks has ended.
func (p *patient) content(c *Content, message func(*easelv1.ContentChunk) proto.Message) error {
	return p.run(func(send func(any) error) error {
		defer c.Body.Close()
		return c.Copy(c.summed(func(chunk *easelv1.ContentChunk) error {
			return send(encodeChunk(message(chunk), len(chunk.GetData())))
		}))
	})
}

// run does what sends messages, and leaves it behind where one is not taken.
func (p *patient) run(do func(send func(any) error) error) error {
	blocked := time.NewTimer(p.patience)
	blocked.Stop()
	send := func(m any) error {
		blocked.Reset(p.patience)
		defer blocked.Stop()
		return p.stream.SendMsg(m)
	}
	done := make(chan error, 1)
	go func() { done <- guarded(func() error { return do(send) }) }()
	select {
	case err := <-done:
		return err
	case <-blocked.C:
		return tooSlow(p.patience)
	}
}

// guarded does what has a goroutine of its own. A panic there is an error: nobody above would
// recover it, and it would be the end of all calls.
func guarded(do func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("panic while a message was sent: %v\n%s", value, debug.Stack())
		}
	}()
	return do()
}

// tooSlow is the error of a caller that has taken no message for too long.
func tooSlow(patience time.Duration) error {
	return Fail(codes.ResourceExhausted, "READER_TOO_SLOW",
		"the caller took no message for "+patience.String()+"; connect again and read faster")
}
