//go:build go1.25

package easel_test

import (
	"bytes"
	"context"
	"errors"
	"io"
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

func TestClientWarnsAboutFailingCalls(t *testing.T) {
	for name, test := range map[string]struct {
		err   error
		lasts time.Duration
		want  string
	}{
		"no server":             {status.Error(codes.Unavailable, "connection refused"), 20 * time.Second, "call still failing, call recovered"},
		"an unavailable ledger": {serverError(codes.Unavailable, "LEDGER_UNAVAILABLE", "", 0), 20 * time.Second, "call still failing, call recovered"},
		"a long delay":          {serverError(codes.ResourceExhausted, "UPSTREAM_RATE_LIMITED", "", 30*time.Second), time.Second, "call still failing, call recovered"},
		"a short failure":       {status.Error(codes.Unavailable, "connection refused"), time.Second, ""},
		"a failure that lasts minutes": {
			status.Error(codes.Unavailable, "connection refused"), 170 * time.Second,
			"call still failing, call still failing, call still failing, call recovered",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said bytes.Buffer
				began := time.Now()
				s := &script{creates: []func(*easelv1.CreateGenerationRequest) error{func(*easelv1.CreateGenerationRequest) error {
					if time.Since(began) < test.lasts {
						return test.err
					}
					return nil
				}}}
				client := serveScript(t, s, easel.WithLogger(slog.New(slog.NewTextHandler(&said, nil))))
				if _, err := client.Order(t.Context(), easel.Order{Key: "k"}); err != nil {
					t.Fatal(err)
				}
				var lines []string
				for _, found := range regexp.MustCompile(`time=(\S+) \w+=\w+ msg="([^"]+)"`).FindAllStringSubmatch(said.String(), -1) {
					lines = append(lines, found[2])
					if at, err := time.Parse(time.RFC3339, found[1]); len(lines) == 1 && (err != nil || at.Sub(began) > 5*time.Second) {
						t.Errorf("the first line was logged at %s, %v; want within 5 s of the start", at, err)
					}
				}
				if got := strings.Join(lines, ", "); got != test.want {
					t.Errorf("the log does not have the wanted lines:\n%s", said.String())
				}
			})
		})
	}
}

func TestEachCallEndsWithinItsTimeLimit(t *testing.T) {
	down := func(context.Context) error { return status.Error(codes.Unavailable, "connection refused") }
	silent := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	list := func(options ...easel.CallOption) func(context.Context, *easel.Client) error {
		return func(ctx context.Context, c *easel.Client) error {
			return lastError(c.List(ctx, easel.Filter{}, options...))
		}
	}
	order := func(ctx context.Context, c *easel.Client) error {
		_, err := c.Order(ctx, easel.Order{Key: "k"})
		return err
	}
	sevenSeconds := easel.WithTimeout(7 * time.Second)
	for name, test := range map[string]struct {
		call    func(context.Context, *easel.Client) error
		answer  func(context.Context) error
		options []easel.Option
		within  [2]time.Duration
	}{
		"a read from a closed port": {list(), down, nil, [2]time.Duration{3 * time.Second, 12 * time.Second}},
		"a read without a response": {list(), silent, nil, [2]time.Duration{time.Minute, time.Minute}},
		"a stub's read without a response": {
			func(ctx context.Context, c *easel.Client) error {
				_, err := c.Generations.ListGenerations(ctx, nil)
				return err
			},
			silent, nil,
			[2]time.Duration{time.Minute, time.Minute},
		},
		"a read of a client with a timeout": {list(), silent, []easel.Option{sevenSeconds}, [2]time.Duration{7 * time.Second, 7 * time.Second}},
		"a read with a timeout": {
			list(easel.Timeout(5 * time.Second)), silent, []easel.Option{sevenSeconds}, [2]time.Duration{5 * time.Second, 5 * time.Second},
		},
		"a read with one attempt": {list(easel.Attempts(1)), down, nil, [2]time.Duration{0, time.Second}},
		"an order":                {order, down, nil, [2]time.Duration{14 * time.Minute, 15 * time.Minute}},
		"an order with a context of one hour": {
			func(ctx context.Context, c *easel.Client) error {
				ctx, cancel := context.WithTimeout(ctx, time.Hour)
				defer cancel()
				return order(ctx, c)
			},
			func(context.Context) error {
				return serverError(codes.Aborted, "SUBMISSION_IN_PROGRESS", "unknown", 40*time.Second)
			}, nil,
			[2]time.Duration{59 * time.Minute, time.Hour},
		},
		"a watch": {
			func(ctx context.Context, c *easel.Client) error { return lastError(c.Watch(ctx, "gen_1")) }, down, nil,
			[2]time.Duration{14 * time.Minute, 18 * time.Minute},
		},
		"a download": {
			func(ctx context.Context, c *easel.Client) error { return c.Download(ctx, "gen_1", io.Discard) }, down, nil,
			[2]time.Duration{14 * time.Minute, 18 * time.Minute},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{
					creates: []func(*easelv1.CreateGenerationRequest) error{func(*easelv1.CreateGenerationRequest) error { return test.answer(t.Context()) }},
					watches: []func(*easelv1.WatchGenerationRequest, watchStream) error{func(_ *easelv1.WatchGenerationRequest, stream watchStream) error {
						return test.answer(stream.Context())
					}},
					downloads: []func(*easelv1.DownloadGenerationRequest, downloadStream) error{func(_ *easelv1.DownloadGenerationRequest, stream downloadStream) error {
						return test.answer(stream.Context())
					}},
					lists: []func(*easelv1.ListGenerationsRequest) (*easelv1.ListGenerationsResponse, error){func(*easelv1.ListGenerationsRequest) (*easelv1.ListGenerationsResponse, error) {
						ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
						defer cancel()
						return nil, test.answer(ctx)
					}},
				}
				client, began := serveScript(t, s, test.options...), time.Now()
				err := test.call(t.Context(), client)
				if took := time.Since(began); err == nil || took < test.within[0] || took > test.within[1] {
					t.Errorf("the call ended after %v, outside the wanted range, or without an error: %v", took, err)
				}
			})
		})
	}
}

func TestTimeoutErrorContainsLastHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heartbeats []easel.Heartbeat
		s := &script{watches: []func(*easelv1.WatchGenerationRequest, watchStream) error{func(_ *easelv1.WatchGenerationRequest, stream watchStream) error {
			err := sendAll(stream, &easelv1.WatchGenerationResponse{Event: &easelv1.WatchGenerationResponse_Heartbeat{Heartbeat: &easelv1.Heartbeat{
				UpstreamCondition: easelv1.UpstreamCondition_UPSTREAM_CONDITION_UNREACHABLE, LastError: "no route", TypicalRemaining: durationpb.New(time.Minute),
			}}}, update(easelv1.State_STATE_QUEUED, "e1"))
			<-stream.Context().Done()
			return errors.Join(err, stream.Context().Err())
		}}}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		client := serveScript(t, s, easel.WithHeartbeatHook(func(h easel.Heartbeat) { heartbeats = append(heartbeats, h) }))
		var last error
		for render, err := range client.Watch(ctx, "gen_1") {
			if last = err; err == nil && render.TypicalRemaining != time.Minute {
				t.Errorf("TypicalRemaining is %s, want 1m0s", render.TypicalRemaining)
			}
		}
		timeout := (*easel.TimeoutError)(nil)
		if !errors.As(last, &timeout) || timeout.Heartbeat == nil || !strings.Contains(last.Error(), "UNREACHABLE: no route") || !errors.Is(last, context.DeadlineExceeded) {
			t.Errorf("the watch ended with %v; want a TimeoutError that contains the last heartbeat", last)
		}
		if len(heartbeats) != 1 || heartbeats[0].GenerationID != "gen_1" || heartbeats[0].Condition != "UNREACHABLE" {
			t.Errorf("the heartbeat hook received %+v; want one heartbeat, for gen_1, with the condition UNREACHABLE", heartbeats)
		}
	})
}

func TestWatchReturnsCauseOfCanceledContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("the result is no longer needed")
		s := &script{watches: []func(*easelv1.WatchGenerationRequest, watchStream) error{func(_ *easelv1.WatchGenerationRequest, stream watchStream) error {
			err := sendAll(stream, update(easelv1.State_STATE_QUEUED, "e1"))
			<-stream.Context().Done()
			return err
		}}}
		time.AfterFunc(time.Second, func() { cancel(stop) })
		if err := lastError(serveScript(t, s).Watch(ctx, "gen_1")); !errors.Is(err, stop) || easel.IsRetryable(err) {
			t.Errorf("the watch ended with %v; want the cause of the cancellation, not retryable", err)
		}
	})
}

func TestUnhealthyServerReceivesNoCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{lists: []func(*easelv1.ListGenerationsRequest) (*easelv1.ListGenerationsResponse, error){
			func(*easelv1.ListGenerationsRequest) (*easelv1.ListGenerationsResponse, error) {
				return &easelv1.ListGenerationsResponse{}, nil
			},
		}}
		client := serveScript(t, s, easel.WithAttempts(1))
		for _, status := range []grpc_health_v1.HealthCheckResponse_ServingStatus{
			grpc_health_v1.HealthCheckResponse_SERVING, grpc_health_v1.HealthCheckResponse_NOT_SERVING, grpc_health_v1.HealthCheckResponse_SERVING,
		} {
			s.health.SetServingStatus("", status)
			synctest.Wait()
			_, err := client.Generations.ListGenerations(t.Context(), nil)
			if away := (*easel.UnavailableError)(nil); errors.As(err, &away) != (status == grpc_health_v1.HealthCheckResponse_NOT_SERVING) {
				t.Errorf("with the health status %s, the call returned %v; want Unavailable only if the server is not serving", status, err)
			}
		}
		if len(s.calls) != 2 {
			t.Errorf("the server received %d calls, want 2", len(s.calls))
		}
	})
}
