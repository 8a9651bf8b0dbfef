package easel

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// watch is what one kind of watch has of its own: its messages M, and the states S in them.
type watch[M closer, S any] struct {
	open    func(context.Context) (stream[M], error)
	take    func(M) (state *S, progress bool) // state is nil where the message has none that is new
	silence time.Duration                     // more of it ends a stream
	endless bool                              // no end of a stream is the goal
}

type stream[M any] interface{ Recv() (M, error) }

type closer interface{ GetClosing() *easelv1.StreamClosing }

// follow yields the states of one stream after another, until the goal, an error that a repeat can't mend,
// or the end of the context or the caller's loop. Back-off begins anew where there was progress.
func follow[M closer, S any](ctx context.Context, w watch[M, S], yield func(*S, error) bool) {
	for attempt := 0; ; attempt++ {
		began := time.Now()
		end := w.read(ctx, yield)
		switch {
		case errors.Is(end.err, io.EOF) && !w.endless, errors.Is(end.err, errStopped):
			return
		case final(end.err):
			yield(nil, end.err)
			return
		case end.progress, time.Since(began) > longest:
			attempt = 0
		}
		if err := pause(ctx, attempt, end.delay, end.err); err != nil {
			yield(nil, err)
			return
		}
	}
}

var errStopped = errors.New("the caller has left the loop")

// ending says how a stream ended.
type ending struct {
	err      error // io.EOF of the server's OK
	progress bool
	delay    time.Duration // that the server asked for
}

// read yields the states of one stream. Time that the caller spends in its loop is no silence.
func (w watch[M, S]) read(ctx context.Context, yield func(*S, error) bool) (end ending) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.AfterFunc(w.silence, cancel)
	defer timer.Stop()
	messages, err := w.open(ctx)
	for err == nil {
		var message M
		timer.Reset(w.silence)
		message, err = messages.Recv()
		timer.Stop()
		if err != nil {
			break
		}
		if closing := message.GetClosing(); closing != nil {
			end.delay = closing.GetRetryDelay().AsDuration()
		}
		state, progress := w.take(message)
		end.progress = end.progress || progress
		if state != nil && !yield(state, nil) {
			err = errStopped
		}
	}
	end.err = err
	return end
}

// final says whether watching again can't mend an error.
func final(err error) bool {
	switch status.Code(err) {
	case codes.NotFound, codes.Unauthenticated, codes.PermissionDenied, codes.InvalidArgument, codes.FailedPrecondition, codes.Unimplemented:
		return true
	default:
		return false
	}
}
