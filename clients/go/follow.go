package easel

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// Message is a message that a watch receives: a WatchGenerationResponse, WatchGenerationsResponse or WatchEventsResponse.
type Message interface {
	proto.Message
	GetClosing() *easelv1.StreamClosing
	GetHeartbeat() *easelv1.Heartbeat
}

// watch defines a watch that receives messages of type M and yields states of type S.
type watch[M Message, S any] struct {
	*attempts
	open    func(context.Context) (stream[M], error)
	take    func(M) *S // returns the state in a message, or nil if the message has no new state
	endless bool       // whether the watch continues after the server ends a stream with OK
}

type stream[M any] interface{ Recv() (M, error) }

// follow yields the states of a watch, and reopens the stream after each failure that may be temporary. It yields an error and
// returns if a failure is final, the attempts are used up or the context is done. It returns without an error when the caller
// leaves the loop. Unless the watch is endless, it also returns without an error when the server ends the stream with OK. A new
// state, or a stream that lasted more than 10 s, resets the back-off.
func follow[M Message, S any](ctx context.Context, w watch[M, S], yield func(*S, error) bool) {
	for {
		began := time.Now()
		end := w.readStream(ctx, yield)
		switch {
		case errors.Is(end.err, errStopped):
			return
		case errors.Is(end.err, io.EOF) && !w.endless:
			w.recordSuccess()
			return
		case errors.Is(end.err, io.EOF):
			end.err = wrapInClass(&Error{Code: codes.Unavailable, Message: "the server ended the stream"})
		case isFinal(end.err):
			setOrder(end.err, w.GenerationID, w.IdempotencyKey)
			yield(nil, end.err)
			return
		}
		if end.progress || time.Since(began) > longest {
			w.Attempt = 0
		}
		if err := w.pause(ctx, end.delay, end.err); err != nil {
			setOrder(err, w.GenerationID, w.IdempotencyKey)
			yield(nil, err)
			return
		}
	}
}

var (
	errStopped = errors.New("the caller left the loop")
	errSilent  = errors.New("no message from the server for three heartbeat intervals")
)

// ending describes how a stream ended.
type ending struct {
	err      error         // io.EOF if the server returned OK
	progress bool          // whether the stream delivered a new state
	delay    time.Duration // delay that the server requested when it closed the stream
}

// readStream yields the states of one stream. It cancels the stream if no message arrives for three heartbeat intervals.
// The timer does not run while the caller processes a state.
func (w watch[M, S]) readStream(ctx context.Context, yield func(*S, error) bool) (end ending) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := 3 * max(w.settings.heartbeat, shortest)
	timer := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer timer.Stop()
	messages, err := w.open(ctx)
	for err == nil {
		var message M
		timer.Reset(silence)
		message, err = messages.Recv()
		timer.Stop()
		if err != nil {
			break
		}
		state := w.handleMessage(message, &end)
		end.progress = end.progress || state != nil
		if state != nil && !yield(state, nil) {
			err = errStopped
		}
	}
	if errors.Is(context.Cause(ctx), errSilent) && !errors.Is(err, errStopped) {
		err = wrapInClass(&Error{Code: codes.Unavailable, Message: errSilent.Error()})
	}
	end.err = w.toTypedError(err)
	return end
}

// handleMessage processes a message of a watch. It returns the state in the message, or nil if the message has no new state.
func (w watch[M, S]) handleMessage(message M, end *ending) *S {
	w.recordSuccess()
	w.onMessage(message)
	if closing := message.GetClosing(); closing != nil {
		end.delay = closing.GetRetryDelay().AsDuration()
	}
	if heartbeat := message.GetHeartbeat(); heartbeat != nil {
		w.heartbeat = heartbeatOf(w.GenerationID, heartbeat)
		w.onHeartbeat(*w.heartbeat)
	}
	return w.take(message)
}

// isFinal reports whether err ends a watch because a retry can't help.
func isFinal(err error) bool {
	return slices.Contains(remedies().WatchEnds, code.Code(baseOf(err).Code).String())
}
