//go:build go1.25

package easel_test

import (
	"errors"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	easel "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// sendAll sends the messages in order. It stops at the first error and returns it.
func sendAll[M any](stream grpc.ServerStreamingServer[M], messages ...*M) error {
	for _, one := range messages {
		if err := stream.Send(one); err != nil {
			return err
		}
	}
	return nil
}

func TestWatchYieldsEachStateOnceAcrossReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heartbeat := &easelv1.WatchGenerationResponse{Event: &easelv1.WatchGenerationResponse_Heartbeat{Heartbeat: &easelv1.Heartbeat{}}}
		closing := &easelv1.WatchGenerationResponse{Event: &easelv1.WatchGenerationResponse_Closing{
			Closing: &easelv1.StreamClosing{RetryDelay: durationpb.New(20 * time.Second)},
		}}
		var etags []string
		then := func(do func(watchStream) error) func(*easelv1.WatchGenerationRequest, watchStream) error {
			return func(request *easelv1.WatchGenerationRequest, stream watchStream) error {
				etags = append(etags, request.GetKnownEtag())
				return do(stream)
			}
		}
		s := &script{watches: []func(*easelv1.WatchGenerationRequest, watchStream) error{
			then(func(stream watchStream) error {
				return errors.Join(sendAll(stream, update(easelv1.State_STATE_QUEUED, "e1"), heartbeat, closing), status.Error(codes.Unavailable, "closing"))
			}),
			then(func(stream watchStream) error { // a silent server
				<-stream.Context().Done()
				return stream.Context().Err()
			}),
			then(func(stream watchStream) error {
				return sendAll(stream, heartbeat, update(easelv1.State_STATE_RUNNING, "e2"), update(easelv1.State_STATE_SUCCEEDED, "e3"))
			}),
		}}
		var states []easel.State
		for render, err := range serveScript(t, s).Watch(t.Context(), "gen_1") {
			if err != nil {
				t.Fatal(err)
			}
			states = append(states, render.State)
			time.Sleep(time.Hour) // a slow loop body must not count as silence of the stream
		}
		if got := fmt.Sprint(states, etags); got != "[QUEUED RUNNING SUCCEEDED] [ e1 e1]" {
			t.Errorf("the states and the etags in the requests are %s, want [QUEUED RUNNING SUCCEEDED] [ e1 e1]", got)
		}
		if told, silence := s.calls[1].Sub(s.calls[0])-time.Hour, s.calls[2].Sub(s.calls[1]); told < 20*time.Second || told > 30*time.Second || silence < 30*time.Second || silence > time.Minute {
			t.Errorf("the client reconnected after %s, want 20 to 30 s, because the server requested 20 s; it reconnected after %s of silence, want 30 s to 1 minute", told, silence)
		}
	})
}

// lastError iterates over a watch until it ends, and returns the error of the last iteration.
func lastError[S any](states iter.Seq2[S, error]) error {
	var last error
	for _, last = range states {
	}
	return last
}

func TestWatchEndsWhenTheCallerLeavesTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := make(chan struct{})
		s := &script{watches: []func(*easelv1.WatchGenerationRequest, watchStream) error{
			func(_ *easelv1.WatchGenerationRequest, stream watchStream) error {
				defer close(left)
				if err := sendAll(stream, update(easelv1.State_STATE_QUEUED, "e1")); err != nil {
					return err
				}
				<-stream.Context().Done()
				return stream.Context().Err()
			},
		}}
		for range serveScript(t, s).Watch(t.Context(), "gen_1") {
			break
		}
		<-left
	})
}

// The server rejects the heartbeat interval. The watch must return the server's error, instead of treating the stream
// as silent and reconnecting.
func TestRejectedHeartbeatIntervalEndsTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{watches: []func(*easelv1.WatchGenerationRequest, watchStream) error{
			func(*easelv1.WatchGenerationRequest, watchStream) error {
				time.Sleep(time.Second)
				return status.Error(codes.InvalidArgument, "scripted")
			},
		}}
		if err := lastError(serveScript(t, s, easel.WithHeartbeatInterval(0)).Watch(t.Context(), "gen_1")); status.Code(err) != codes.InvalidArgument || len(s.calls) != 1 {
			t.Errorf("got %d calls, want 1; the error is %v, want InvalidArgument", len(s.calls), err)
		}
	})
}

func TestWatchOfAClosedClientFails(t *testing.T) {
	t.Parallel()
	client, err := easel.New(t.Context(), easel.WithAddress("127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if err := lastError(client.WatchMany(t.Context(), nil)); status.Code(err) != codes.Canceled {
		t.Errorf("the watch of a closed client ended with %v, want Canceled", err)
	}
}
