package service

import (
	"bytes"
	"fmt"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// deadlineSender sends messages on a stream, each with a deadline: it gives up on a caller that takes
// none for so long. A blocked Send can't be ended from within its goroutine, and keepalive does not end
// it either: the peer is there, and does not read. So the sends have a goroutine of their own, and the
// end of the call sets a blocked Send free.
type deadlineSender struct {
	stream  grpc.ServerStream
	timeout time.Duration
}

// send sends m. m is not touched again.
func (s *deadlineSender) send(m any) error {
	return s.run(func(send func(any) error) error { return send(m) })
}

// content sends a result with its checksums, each chunk in a message, and closes it: where the
// caller is given up, after a blocked Send has ended.
func (s *deadlineSender) content(c *Content, message func(*easelv1.ContentChunk) proto.Message) error {
	return s.run(func(send func(any) error) error {
		defer c.Body.Close()
		return c.Copy(c.summed(func(chunk *easelv1.ContentChunk) error {
			chunk.Data = bytes.Clone(chunk.GetData()) // a sent message may not change, and the buffer is used again
			return send(message(chunk))
		}))
	})
}

// run calls do, which sends messages, and leaves it behind where the caller takes none in time.
func (s *deadlineSender) run(do func(send func(any) error) error) error {
	blocked := time.NewTimer(s.timeout)
	blocked.Stop()
	send := func(m any) error {
		blocked.Reset(s.timeout)
		defer blocked.Stop()
		return s.stream.SendMsg(m)
	}
	done := make(chan error, 1)
	go func() { done <- recovered(func() error { return do(send) }) }()
	select {
	case err := <-done:
		return err
	case <-blocked.C:
		return tooSlow(s.timeout)
	}
}

// recovered calls do in a goroutine of its own. A panic there becomes an error: nothing above would
// recover it, and the process would end with all calls.
func recovered(do func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("panic while a message was sent: %v\n%s", value, debug.Stack())
		}
	}()
	return do()
}

// tooSlow is the error of a caller that has taken no message for too long.
func tooSlow(timeout time.Duration) error {
	return Fail(easelv1.ErrorReason_READER_TOO_SLOW,
		"the caller took no message for "+timeout.String()+"; connect again and read faster")
}
