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

// deadlineSender sends messages on a stream with a deadline for each. A blocked Send can't be canceled in its
// goroutine. Keepalive does not end it either, because the peer is connected but does not read. So sends run in their
// own goroutine, and the end of the call unblocks Send.
type deadlineSender struct {
	stream  grpc.ServerStream
	timeout time.Duration
}

// send sends m. Do not use m afterwards.
func (s *deadlineSender) send(m any) error {
	return s.run(func(send func(any) error) error { return send(m) })
}

// content sends a result with its checksums, one chunk per message, and closes it. If the caller timed out, it closes
// the result only after the blocked Send has returned.
func (s *deadlineSender) content(c *Content, message func(*easelv1.ContentChunk) proto.Message) error {
	return s.run(func(send func(any) error) error {
		defer c.Body.Close()
		return c.Copy(c.summed(func(chunk *easelv1.ContentChunk) error {
			chunk.Data = bytes.Clone(chunk.GetData()) // a sent message may not change, and the buffer is used again
			return send(message(chunk))
		}))
	})
}

// run calls do, which sends messages. If a send times out, run returns without waiting for do.
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

// recovered calls do, which runs in its own goroutine, and converts a panic to an error. Without it a panic would end
// the process and all calls.
func recovered(do func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("panic while a message was sent: %v\n%s", value, debug.Stack())
		}
	}()
	return do()
}

// tooSlow returns the error for a caller that has read no message within timeout.
func tooSlow(timeout time.Duration) error {
	return Fail(easelv1.ErrorReason_READER_TOO_SLOW,
		"the caller read no message for "+timeout.String()+"; connect again and read faster")
}
