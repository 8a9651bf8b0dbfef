package server

import (
	"context"
	"errors"

	"github.com/easel-grpc/easel/internal/service"
)

// apart are the calls that begin on a goroutine of their own, which ends when they have begun.
// They are those that mostly wait. What is left on the goroutine that waits, with the calls of
// the library, stays within a stack of 4 KB: else it would be 8 for as long as the call lasts,
// as one that has grown does not shrink far enough. Of 16.8 KB that an idle watch took, 4.1 were
// that (make bench-P3).
//
// To take it out, leave the list empty.
var apart = map[string]bool{
	"/easel.v1.GenerationService/WatchGeneration":  true,
	"/easel.v1.GenerationService/WatchGenerations": true,
}

// beginApart is around for such a call.
func (i *interceptor) beginApart(ctx context.Context, method string, handle func(context.Context, *callSpan) error) error {
	if ended := ctx.Err(); ended != nil {
		return statusOf(ended).Err() // see around
	}
	c := &call{interceptor: i, method: method, streams: true}
	cause := make(chan error)
	go func() { cause <- c.begin(ctx, handle) }()
	return c.end(c.rest(<-cause))
}

// rest is how a call ends that has begun.
func (c *call) rest(begun error) (cause error) {
	defer c.recover(&cause)
	return rest(begun)
}

// rest does what a handler has left to do, and gives how the call ends.
func rest(err error) error {
	var begun *service.Begun
	if !errors.As(err, &begun) {
		return err
	}
	begun.Wait()
	return begun.Finish()
}
