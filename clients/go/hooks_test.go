//go:build go1.25

package easel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	easel "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

func TestAClientTellsThatEaselIsAwayAndBackOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		var retries []string
		away := func(*easelv1.WatchGenerationRequest, watchStream) error {
			return status.Error(codes.Unavailable, "nobody is there")
		}
		s := &script{watches: []func(*easelv1.WatchGenerationRequest, watchStream) error{
			away, away,
			func(_ *easelv1.WatchGenerationRequest, stream watchStream) error {
				return errors.Join(send(stream, update(easelv1.State_STATE_QUEUED, "e1")), failed(codes.Unavailable, "UPSTREAM_UNAVAILABLE", "", 0))
			},
			away,
			func(_ *easelv1.WatchGenerationRequest, stream watchStream) error {
				return send(stream, update(easelv1.State_STATE_SUCCEEDED, "e2"))
			},
		}}
		client := play(t, s, easel.WithLogger(slog.New(slog.NewTextHandler(&said, nil))), easel.WithRetryHook(func(r easel.Retry) {
			retries = append(retries, fmt.Sprint(r.Method, r.GenerationID, r.Attempt))
		}))
		if err := lastError(client.Watch(t.Context(), "gen_1")); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(retries, " "); got != "WatchGenerationgen_11 WatchGenerationgen_12 WatchGenerationgen_11 WatchGenerationgen_12" {
			t.Errorf("the retries are told as %s", got)
		}
		var lines []string
		for _, found := range regexp.MustCompile(`msg="([^"]+)"`).FindAllStringSubmatch(said.String(), -1) {
			lines = append(lines, found[1])
		}
		if got := strings.Join(lines, "\n"); got != "Easel is away; the calls go on\nEasel is back\nEasel is away; the calls go on\nEasel is back" {
			t.Errorf("it says\n%s", said.String())
		}
	})
}

func TestATimeoutCarriesWhatTheLastHeartbeatSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heartbeats []easel.Heartbeat
		s := &script{watches: []func(*easelv1.WatchGenerationRequest, watchStream) error{func(_ *easelv1.WatchGenerationRequest, stream watchStream) error {
			err := send(stream, &easelv1.WatchGenerationResponse{Event: &easelv1.WatchGenerationResponse_Heartbeat{Heartbeat: &easelv1.Heartbeat{
				UpstreamCondition: easelv1.UpstreamCondition_UPSTREAM_CONDITION_UNREACHABLE, LastError: "no route", TypicalRemaining: durationpb.New(time.Minute),
			}}}, update(easelv1.State_STATE_QUEUED, "e1"))
			<-stream.Context().Done()
			return errors.Join(err, stream.Context().Err())
		}}}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		client := play(t, s, easel.WithHeartbeatHook(func(h easel.Heartbeat) { heartbeats = append(heartbeats, h) }))
		var last error
		for render, err := range client.Watch(ctx, "gen_1") {
			if last = err; err == nil && render.TypicalRemaining != time.Minute {
				t.Errorf("the render has %s left", render.TypicalRemaining)
			}
		}
		timeout := (*easel.TimeoutError)(nil)
		if !errors.As(last, &timeout) || timeout.Heartbeat == nil || !strings.Contains(last.Error(), "UNREACHABLE: no route") || !errors.Is(last, context.DeadlineExceeded) {
			t.Errorf("it ended with %v", last)
		}
		if len(heartbeats) != 1 || heartbeats[0].GenerationID != "gen_1" || heartbeats[0].Condition != "UNREACHABLE" {
			t.Errorf("the heartbeats are %+v", heartbeats)
		}
	})
}

func TestAWatchIsStoppedFromElsewhereByItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("nobody wants it any more")
		s := &script{watches: []func(*easelv1.WatchGenerationRequest, watchStream) error{func(_ *easelv1.WatchGenerationRequest, stream watchStream) error {
			err := send(stream, update(easelv1.State_STATE_QUEUED, "e1"))
			<-stream.Context().Done()
			return err
		}}}
		time.AfterFunc(time.Second, func() { cancel(stop) })
		if err := lastError(play(t, s).Watch(ctx, "gen_1")); !errors.Is(err, stop) || easel.IsRetryable(err) {
			t.Errorf("it ended with %v", err)
		}
	})
}

func TestAServerThatDoesNotServeIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{lists: []func(*easelv1.ListGenerationsRequest) (*easelv1.ListGenerationsResponse, error){
			func(*easelv1.ListGenerationsRequest) (*easelv1.ListGenerationsResponse, error) {
				return &easelv1.ListGenerationsResponse{}, nil
			},
		}}
		client := play(t, s, easel.WithAttempts(1))
		for _, status := range []grpc_health_v1.HealthCheckResponse_ServingStatus{
			grpc_health_v1.HealthCheckResponse_SERVING, grpc_health_v1.HealthCheckResponse_NOT_SERVING, grpc_health_v1.HealthCheckResponse_SERVING,
		} {
			s.health.SetServingStatus("", status)
			synctest.Wait()
			_, err := client.Generations.ListGenerations(t.Context(), nil)
			if away := (*easel.UnavailableError)(nil); errors.As(err, &away) != (status == grpc_health_v1.HealthCheckResponse_NOT_SERVING) {
				t.Errorf("%s: %v", status, err)
			}
		}
		if len(s.calls) != 2 {
			t.Errorf("%d calls", len(s.calls))
		}
	})
}

func TestListReadsAllPagesAndAgainWhereThatHelps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := func(token, id string) func(*easelv1.ListGenerationsRequest) (*easelv1.ListGenerationsResponse, error) {
			return func(request *easelv1.ListGenerationsRequest) (*easelv1.ListGenerationsResponse, error) {
				if request.GetFilter().GetLabels()["campaign"] != "winter" {
					return nil, status.Error(codes.InvalidArgument, "the filter is lost")
				}
				return &easelv1.ListGenerationsResponse{Generations: []*easelv1.Generation{{GenerationId: id}}, NextPageToken: token}, nil
			}
		}
		fail := func(*easelv1.ListGenerationsRequest) (*easelv1.ListGenerationsResponse, error) {
			return nil, failed(codes.Unavailable, "UPSTREAM_UNAVAILABLE", "", 0)
		}
		list := func(options ...easel.Option) (ids []string, last error) {
			s := &script{lists: []func(*easelv1.ListGenerationsRequest) (*easelv1.ListGenerationsResponse, error){fail, page("2", "a"), fail, fail, page("", "b")}}
			for render, err := range play(t, s, options...).List(t.Context(), easel.Filter{Labels: map[string]string{"campaign": "winter"}}) {
				if last = err; err == nil {
					ids = append(ids, render.GenerationID)
				}
			}
			return ids, last
		}
		if ids, err := list(); err != nil || fmt.Sprint(ids) != "[a b]" {
			t.Errorf("got %v, %v", ids, err)
		}
		if ids, err := list(easel.WithAttempts(1)); easel.ReasonOf(err) != "UPSTREAM_UNAVAILABLE" || len(ids) != 0 {
			t.Errorf("with one attempt: %v, %v", ids, err)
		}
	})
}
