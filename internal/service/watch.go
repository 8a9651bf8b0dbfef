package service

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

const (
	defaultWait = time.Minute
	// answerMargin is how long before the caller's own deadline a wait answers, so that the
	// answer still arrives.
	answerMargin = 100 * time.Millisecond
)

func goal(until easelv1.WatchUntil) watch.Goal {
	if until == easelv1.WatchUntil_WATCH_UNTIL_SETTLED {
		return watch.Settled
	}
	return watch.Terminal
}

// WatchGeneration sends each change of one render, and its bytes where asked.
func (s *generations) WatchGeneration(req *easelv1.WatchGenerationRequest, stream grpc.ServerStreamingServer[easelv1.WatchGenerationResponse]) error {
	ctx, done := s.lasting(stream.Context(), s.cfg.MaxStreamAge)
	defer done()
	out := &patient{stream: stream, patience: s.cfg.SendPatience, packs: packs(stream.Context())}
	last, err := s.follow(ctx, req, out)
	if late := out.settle(); late != nil {
		return late
	}
	if closing := closingMessage(err); closing != nil {
		_ = out.send(&easelv1.WatchGenerationResponse{
			Event: &easelv1.WatchGenerationResponse_Closing{Closing: closing}, EmitTime: timestamppb.Now(),
		})
		return err
	}
	if err != nil || !req.GetIncludeContent() || last.File == nil {
		return err
	}
	return s.content(stream.Context(), download{id: req.GetGenerationId()}, out, func(chunk *easelv1.ContentChunk, data mem.Buffer) Piece {
		return Piece{chunk: chunk, data: data, field: chunkOfWatch, sent: time.Now()}
	})
}

// follow sends updates and heartbeats of one render until the goal, and gives the last
// state that the hub told.
func (s *generations) follow(ctx context.Context, req *easelv1.WatchGenerationRequest, out *patient) (last catalog.Generation, err error) {
	begun := false
	for event, err := range s.cfg.Hub.Watch(ctx, watch.Request{
		Credential: credential(ctx),
		IDs:        []string{req.GetGenerationId()},
		Goal:       goal(req.GetUntil()),
		KnownEtag:  req.GetKnownEtag(),
		Heartbeat:  req.GetHeartbeatInterval().AsDuration(),
		Quick:      out.quick,
		Lane:       lane(ctx),
	}) {
		switch {
		case err != nil:
			return last, err
		case event.Update != nil && event.Update.Missing && !begun:
			return last, noGeneration(req.GetGenerationId())
		case event.Update != nil:
			last = event.Update.Generation
			err = out.send(encoded{encode(event.Update), time.Now()})
		case event.Heartbeat != nil:
			if event.Known != nil {
				last = event.Known.Generation
			}
			err = out.send(&easelv1.WatchGenerationResponse{
				Event: &easelv1.WatchGenerationResponse_Heartbeat{Heartbeat: heartbeatMessage(*event.Heartbeat)}, EmitTime: timestamppb.Now(),
			})
		default:
			continue // caught up says nothing on a stream of one
		}
		if err != nil {
			return last, err
		}
		begun = true
	}
	return last, nil
}

// WatchGenerations sends each change of many renders.
func (s *generations) WatchGenerations(req *easelv1.WatchGenerationsRequest, stream grpc.ServerStreamingServer[easelv1.WatchGenerationsResponse]) error {
	ctx, done := s.lasting(stream.Context(), s.cfg.MaxStreamAge)
	defer done()
	out := &patient{stream: stream, patience: s.cfg.SendPatience, packs: packs(stream.Context())}
	err := s.followMany(ctx, req, out)
	if late := out.settle(); late != nil {
		return late
	}
	if closing := closingMessage(err); closing != nil {
		_ = out.send(&easelv1.WatchGenerationsResponse{
			Event: &easelv1.WatchGenerationsResponse_Closing{Closing: closing}, EmitTime: timestamppb.Now(),
		})
	}
	return err
}

// followMany sends each change of many renders until the goals.
func (s *generations) followMany(ctx context.Context, req *easelv1.WatchGenerationsRequest, out *patient) error {
	for event, err := range s.cfg.Hub.Watch(ctx, watch.Request{
		Credential: credential(ctx),
		IDs:        req.GetGenerationIds(),
		Goal:       goal(req.GetUntil()),
		Heartbeat:  req.GetHeartbeatInterval().AsDuration(),
		Quick:      out.quick,
		Lane:       lane(ctx),
	}) {
		if err != nil {
			return err
		}
		if err := out.send(eventMessage(event)); err != nil {
			return err
		}
	}
	return nil
}

// eventMessage makes the message of an event in a watch of many renders.
func eventMessage(event watch.Event) any {
	if event.Update != nil {
		return encoded{encode(event.Update), time.Now()}
	}
	m := &easelv1.WatchGenerationsResponse{EmitTime: timestamppb.Now()}
	switch {
	case event.Heartbeat != nil:
		m.Event = &easelv1.WatchGenerationsResponse_Heartbeat{Heartbeat: heartbeatMessage(*event.Heartbeat)}
	case event.CaughtUp != nil:
		m.Event = &easelv1.WatchGenerationsResponse_CaughtUp{CaughtUp: &easelv1.CaughtUp{GenerationCount: int32(event.CaughtUp.Count)}}
	}
	return m
}

func updateMessage(u *watch.Update) *easelv1.GenerationUpdate {
	return &easelv1.GenerationUpdate{Generation: generationMessage(u.Generation, u.Etag), Initial: u.Initial}
}

// closingMessage announces the end of a stream that the server ends before its goal; nil
// where err is something else.
func closingMessage(err error) *easelv1.StreamClosing {
	var end *closing
	if !errors.As(err, &end) {
		return nil
	}
	return &easelv1.StreamClosing{Reason: end.reason, RetryDelay: durationpb.New(end.delay)}
}

// WaitGeneration answers at the goal, or with the newest state when the time is over.
func (s *generations) WaitGeneration(ctx context.Context, req *easelv1.WaitGenerationRequest) (*easelv1.WaitGenerationResponse, error) {
	timeout := defaultWait
	if req.GetTimeout() != nil {
		timeout = req.GetTimeout().AsDuration()
	}
	update, err := s.await(ctx, req.GetGenerationId(), goal(req.GetUntil()), timeout)
	if err != nil {
		return nil, err
	}
	return &easelv1.WaitGenerationResponse{Generation: generationMessage(update.Generation, update.Etag)}, nil
}

// errWaited is the cause when the time of a wait is over.
var errWaited = errors.New("the wait is over")

// await gives the state at the goal, or the newest when the time is over.
func (s *generations) await(ctx context.Context, id string, until watch.Goal, timeout time.Duration) (watch.Update, error) {
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline)-answerMargin)
	}
	if timeout <= 0 {
		return s.read(ctx, id)
	}
	ctx, done := s.lasting(ctx, 0)
	defer done()
	waiting, cancel := context.WithTimeoutCause(ctx, timeout, errWaited)
	defer cancel()
	var newest *watch.Update
	for event, err := range s.cfg.Hub.Watch(waiting, watch.Request{
		Credential: credential(ctx), IDs: []string{id}, Goal: until, Heartbeat: time.Hour,
	}) {
		switch {
		case errors.Is(err, errWaited) && newest != nil:
			return *newest, nil
		case errors.Is(err, errWaited):
			return watch.Update{}, aboutGeneration(&catalog.Error{Kind: catalog.KindUnavailable, Op: "wait"}, id)
		case err != nil:
			return watch.Update{}, err
		case event.Update != nil && event.Update.Missing:
			return watch.Update{}, noGeneration(id)
		case event.Update != nil:
			newest = event.Update
		}
	}
	return *newest, nil
}
