package service

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/watch"
)

const (
	defaultWait = time.Minute
	// answerMargin is the minimum time between the return of a wait and the caller's deadline. It ensures that the
	// response still arrives.
	answerMargin = 100 * time.Millisecond
	// waitHeartbeat is the interval at which a wait checks whether its caller is still authorized. The caller does not
	// receive these heartbeats.
	waitHeartbeat = 15 * time.Second
)

func goal(until easelv1.WatchUntil) watch.Goal {
	if until == easelv1.WatchUntil_WATCH_UNTIL_SETTLED {
		return watch.Settled
	}
	return watch.Terminal
}

// sender returns a sender for the messages of a watch.
func (s *Service) sender(stream grpc.ServerStream) deadlineSender {
	return deadlineSender{stream: stream, timeout: s.cfg.SendTimeout}
}

// WatchGeneration sends each change of one generation and, on request, the bytes of its result.
func (s *generations) WatchGeneration(req *easelv1.WatchGenerationRequest, stream grpc.ServerStreamingServer[easelv1.WatchGenerationResponse]) error {
	ctx := stream.Context()
	w, err := s.watchOfOne(ctx, req, s.sender(stream))
	if err != nil {
		return err
	}
	return w.finish(s.cfg.Hub.Watch(ctx, &watch.Request{
		Credential: auth.Of(ctx).APIKey,
		IDs:        []string{req.GetGenerationId()},
		Goal:       goal(req.GetUntil()),
		Ordered:    map[string]bool{req.GetGenerationId(): w.seen.mayExist()},
		KnownEtags: knownEtag(req),
		Heartbeat:  req.GetHeartbeatInterval().AsDuration(),
		Until:      s.watchEnd(ctx),
		Stall:      s.cfg.SendTimeout,
	}, w.deliver))
}

// knownEtag returns a map from the generation ID to the etag of the state that the caller already has. It returns nil
// if the request has no such etag.
func knownEtag(req *easelv1.WatchGenerationRequest) map[string]string {
	if req.GetKnownEtag() == "" {
		return nil
	}
	return map[string]string{req.GetGenerationId(): req.GetKnownEtag()}
}

// watchOfOne sends updates and heartbeats of one generation.
type watchOfOne struct {
	service *generations
	out     deadlineSender
	known   func() error // returns an error if the caller is no longer authorized
	id      string
	seen    order // state of the order when the watch started
	content bool  // whether the caller wants the bytes of the result
	file    bool  // whether the result in the last state is a file
	begun   bool  // whether a message was sent
}

// watchOfOne prepares a watch. It is a separate function to keep the stack frame of WatchGeneration small, because that
// frame remains until the watch ends.
func (s *generations) watchOfOne(ctx context.Context, req *easelv1.WatchGenerationRequest, out deadlineSender) (*watchOfOne, error) {
	seen, err := s.visibleOrder(ctx, req.GetGenerationId())
	return &watchOfOne{
		service: s, out: out, known: s.StillKnown(ctx), id: req.GetGenerationId(), seen: seen, content: req.GetIncludeContent(),
	}, err
}

// deliver sends an event from the hub to the caller.
func (w *watchOfOne) deliver(event watch.Event) (err error) {
	if err := w.known(); err != nil {
		return err
	}
	switch {
	case event.Update != nil && event.Update.Missing && !w.begun:
		return noGeneration(w.id)
	case event.Update != nil:
		w.file = event.Update.File != nil
		err = w.out.stream.SendMsg(updateResponse(encodingsOf(event.Update).encode(event.Update, w.attributionOf(event.Update)), time.Now()))
	case event.Heartbeat != nil:
		if event.Known != nil {
			w.file = event.Known.File != nil
		}
		err = w.out.stream.SendMsg(&easelv1.WatchGenerationResponse{
			Event: &easelv1.WatchGenerationResponse_Heartbeat{Heartbeat: heartbeatMessage(auth.Of(w.out.stream.Context()), *event.Heartbeat)}, EmitTime: timestamppb.Now(),
		})
	default:
		return nil // a stream about one generation has no caught_up message
	}
	w.begun = true
	return err
}

// attributionOf returns the attribution to send with an update. For the initial update, this is the attribution that was
// read when the watch started. For later updates, the attribution is read from the ledger again if it has no owner yet or
// if it has labels, because labels can be erased at any time. If the ledger fails, attributionOf omits the labels.
func (w *watchOfOne) attributionOf(u *watch.Update) ledger.Attribution {
	if u.Initial || w.seen.Owner != "" && len(w.seen.Labels) == 0 {
		return w.seen.Attribution
	}
	whose, err := encodingsOf(u).cachedAttribution(func() (ledger.Attribution, error) { return w.service.readAttribution(w.out.stream.Context(), w.id) })
	if err != nil {
		return withoutLabels(w.seen.Attribution)
	}
	return whose
}

// finish sends the last messages of the stream after Hub.Watch has returned err. If the server closes the stream early,
// finish sends the closing message. Otherwise it sends the bytes of the result, if the caller requested them.
func (w *watchOfOne) finish(err error) error {
	err = w.service.convertWatchError(err)
	if closing := closingMessage(err); closing != nil {
		_ = w.out.send(&easelv1.WatchGenerationResponse{
			Event: &easelv1.WatchGenerationResponse_Closing{Closing: closing}, EmitTime: timestamppb.Now(),
		})
		return err
	}
	if err != nil || !w.content || !w.file {
		return err
	}
	content, err := w.service.openContent(w.out.stream.Context(), &easelv1.DownloadGenerationRequest{GenerationId: w.id})
	if err != nil {
		return err
	}
	return w.out.content(content, func(chunk *easelv1.ContentChunk) proto.Message {
		return &easelv1.WatchGenerationResponse{Event: &easelv1.WatchGenerationResponse_Content{Content: chunk}, EmitTime: timestamppb.Now()}
	})
}

func updateMessage(u *watch.Update, whose ledger.Attribution) *easelv1.GenerationUpdate {
	return &easelv1.GenerationUpdate{Generation: addAttribution(generationMessage(u.Generation, u.Etag), whose), Initial: u.Initial}
}

// closingMessage returns the last message of a stream if err means that the server closes the stream early. Otherwise it
// returns nil.
func closingMessage(err error) *easelv1.StreamClosing {
	end, ok := errors.AsType[*closing](err)
	if !ok {
		return nil
	}
	return &easelv1.StreamClosing{Reason: end.reason, RetryDelay: durationpb.New(end.delay)}
}

// WaitGeneration waits until the generation is terminal or settled, as the request specifies. If the timeout expires
// first, it returns the current state.
func (s *generations) WaitGeneration(ctx context.Context, req *easelv1.WaitGenerationRequest) (*easelv1.WaitGenerationResponse, error) {
	timeout := defaultWait
	if req.GetTimeout() != nil {
		timeout = req.GetTimeout().AsDuration()
	}
	seen, err := s.visibleOrder(ctx, req.GetGenerationId())
	if err != nil {
		return nil, err
	}
	update, err := s.await(ctx, req.GetGenerationId(), seen, goal(req.GetUntil()), timeout)
	if err != nil {
		return nil, err
	}
	if len(seen.Labels) > 0 { // the labels may have been erased during the wait
		whose, err := s.readAttribution(ctx, req.GetGenerationId())
		if err != nil {
			whose = withoutLabels(seen.Attribution)
		}
		seen.Attribution = whose
	}
	return &easelv1.WaitGenerationResponse{Generation: s.attributedMessage(update, seen.Attribution)}, nil
}

// errWaited is the cancellation cause of a wait whose timeout has expired.
var errWaited = errors.New("wait timeout expired")

// await waits until the generation reaches the goal, which is the terminal or the settled state, and returns that
// state. If the timeout expires first, it returns the current state.
func (s *Service) await(ctx context.Context, id string, seen order, until watch.Goal, timeout time.Duration) (watch.Update, error) {
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline)-answerMargin)
	}
	if end := auth.Of(ctx).Until(); !end.IsZero() {
		timeout = min(timeout, time.Until(end))
	}
	if timeout <= 0 {
		return s.read(ctx, id, seen)
	}
	waiting, cancel := context.WithTimeoutCause(ctx, timeout, errWaited)
	defer cancel()
	var newest *watch.Update
	known := s.StillKnown(ctx)
	err := s.cfg.Hub.Watch(waiting, &watch.Request{
		Credential: auth.Of(ctx).APIKey, IDs: []string{id}, Ordered: map[string]bool{id: seen.mayExist()}, Goal: until, Heartbeat: waitHeartbeat,
	}, func(event watch.Event) error {
		if err := known(); err != nil {
			return err
		}
		switch {
		case event.Update == nil:
			return nil
		case event.Update.Missing:
			return noGeneration(id)
		}
		newest = event.Update
		return nil
	})
	switch waited := errors.Is(err, errWaited); {
	case waited && newest == nil:
		return watch.Update{}, aboutGeneration(&catalog.Error{Kind: catalog.KindUnavailable, Op: "wait"}, id)
	case err != nil && !waited:
		return watch.Update{}, s.convertWatchError(err)
	}
	return *newest, nil
}
