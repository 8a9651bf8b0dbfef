package service

import (
	"fmt"
	"runtime/debug"
	"time"

	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// content sends a result with its checksums, each chunk in a message, and closes it. A caller that
// takes none for too long is given up: a Send that blocks then ends with the call, and the result
// is closed after it.
func (p *patient) content(c *Content, message func(*easelv1.ContentChunk) proto.Message) error {
	blocked := time.NewTimer(p.patience)
	blocked.Stop()
	send := func(chunk *easelv1.ContentChunk) error {
		blocked.Reset(p.patience)
		defer blocked.Stop()
		return p.stream.SendMsg(encodeChunk(message(chunk), len(chunk.GetData())))
	}
	done := make(chan error, 1)
	go func() {
		done <- guarded(func() error {
			defer c.Body.Close()
			return c.Copy(c.summed(send))
		})
	}()
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
