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

// deadlineSender sends messages on a stream, with a time limit for each message. A separate goroutine sends the
// messages, because SendMsg blocks while the caller does not read. A blocked SendMsg can't be canceled: it returns only
// when the call ends. Keepalive does not end the call, because the caller is still connected.
type deadlineSender struct {
	stream  grpc.ServerStream
	timeout time.Duration
}

// send sends m. The caller must not use m afterwards.
func (s *deadlineSender) send(m any) error {
	return s.run(func(send func(any) error) error { return send(m) })
}

// content sends a result with checksums, one chunk per message, and closes the result. After a timeout, content returns
// immediately. The result is then closed when the blocked SendMsg returns.
func (s *deadlineSender) content(c *Content, message func(*easelv1.ContentChunk) proto.Message) error {
	return s.run(func(send func(any) error) error {
		defer c.Body.Close()
		return c.Copy(c.summedSink(func(chunk *easelv1.ContentChunk) error {
			chunk.Data = bytes.Clone(chunk.GetData()) // a sent message must not change, but Copy reuses the buffer
			return send(message(chunk))
		}))
	})
}

// run calls fn, which sends its messages by calling send. If a message times out, run returns an error without waiting
// for fn.
func (s *deadlineSender) run(fn func(send func(any) error) error) error {
	blocked := time.NewTimer(s.timeout)
	blocked.Stop()
	send := func(m any) error {
		blocked.Reset(s.timeout)
		defer blocked.Stop()
		return s.stream.SendMsg(m)
	}
	done := make(chan error, 1)
	go func() { done <- withRecovery(func() error { return fn(send) }) }()
	select {
	case err := <-done:
		return err
	case <-blocked.C:
		return tooSlow(s.timeout)
	}
}

// withRecovery calls fn, and converts a panic to an error. Otherwise, a panic in the goroutine that sends the messages
// would crash the process and end all calls.
func withRecovery(fn func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("panic while a message was sent: %v\n%s", value, debug.Stack())
		}
	}()
	return fn()
}

// tooSlow returns the error for a caller that did not read a message within timeout.
func tooSlow(timeout time.Duration) error {
	return Fail(easelv1.ErrorReason_READER_TOO_SLOW,
		"the caller read no message for "+timeout.String()+"; connect again and read faster")
}
