//go:build go1.25

package easel_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	easel "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

type (
	watchStream    = grpc.ServerStreamingServer[easelv1.WatchGenerationResponse]
	downloadStream = grpc.ServerStreamingServer[easelv1.DownloadGenerationResponse]
	eventStream    = grpc.ServerStreamingServer[easelv1.WatchEventsResponse]
	manyStream     = grpc.ServerStreamingServer[easelv1.WatchGenerationsResponse]
)

// script is a server whose responses are scripted. All methods share one counter of calls. The nth call is handled by
// the nth function in the list for its method, or by the last function of a shorter list.
type script struct {
	easelv1.UnimplementedGenerationServiceServer
	creates   []func(*easelv1.CreateGenerationRequest) error
	watches   []func(*easelv1.WatchGenerationRequest, watchStream) error
	downloads []func(*easelv1.DownloadGenerationRequest, downloadStream) error
	many      []func(*easelv1.WatchGenerationsRequest, manyStream) error
	events    []func(*easelv1.WatchEventsRequest, eventStream) error
	lists     []func(*easelv1.ListGenerationsRequest) (*easelv1.ListGenerationsResponse, error)
	health    *health.Server
	mu        sync.Mutex
	calls     []time.Time
}

// createHandlers returns one handler of CreateGeneration for each error in errs. The handler returns this error. If
// the error is nil, the handler accepts the order.
func createHandlers(errs ...error) (all []func(*easelv1.CreateGenerationRequest) error) {
	for _, err := range errs {
		all = append(all, func(*easelv1.CreateGenerationRequest) error { return err })
	}
	return all
}

func (s *script) next(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, time.Now())
	return min(len(s.calls), n) - 1
}

func (s *script) CreateGeneration(_ context.Context, request *easelv1.CreateGenerationRequest) (*easelv1.CreateGenerationResponse, error) {
	err := s.creates[s.next(len(s.creates))](request)
	return &easelv1.CreateGenerationResponse{Generation: &easelv1.Generation{GenerationId: "gen_1"}}, err
}

func (s *script) ListGenerations(_ context.Context, request *easelv1.ListGenerationsRequest) (*easelv1.ListGenerationsResponse, error) {
	return s.lists[s.next(len(s.lists))](request)
}

func (s *script) WatchGeneration(request *easelv1.WatchGenerationRequest, stream watchStream) error {
	return s.watches[s.next(len(s.watches))](request, stream)
}

func (s *script) DownloadGeneration(request *easelv1.DownloadGenerationRequest, stream downloadStream) error {
	return s.downloads[s.next(len(s.downloads))](request, stream)
}

func (s *script) WatchGenerations(request *easelv1.WatchGenerationsRequest, stream manyStream) error {
	return s.many[s.next(len(s.many))](request, stream)
}

func (s *script) WatchEvents(request *easelv1.WatchEventsRequest, stream eventStream) error {
	return s.events[s.next(len(s.events))](request, stream)
}

// serveScript serves the script s over in-memory connections until the test ends, and returns a client that is
// connected to it.
func serveScript(t *testing.T, s *script, options ...easel.Option) *easel.Client {
	t.Helper()
	pipe, server := bufconn.Listen(1<<16), grpc.NewServer(grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second}))
	easelv1.RegisterGenerationServiceServer(server, s)
	s.health = health.NewServer()
	grpc_health_v1.RegisterHealthServer(server, s.health)
	ended := make(chan error)
	go func() { ended <- server.Serve(pipe) }()
	client, err := easel.New(t.Context(), append([]easel.Option{
		easel.WithAddress("localhost:1"), easel.WithDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close()
		server.Stop()
		if err := <-ended; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // Serve returns ErrServerStopped if the test ended before the server had started
			t.Error(err)
		}
	})
	return client
}

// serverError returns a gRPC error in the format of Easel's server, with RetryInfo if delay is not zero.
func serverError(code codes.Code, reason, outcome string, delay time.Duration) error {
	return failedWith(code, reason, map[string]string{"order_outcome": outcome}, delay)
}

func failedWith(code codes.Code, reason string, metadata map[string]string, delay time.Duration) error {
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Domain: "easel", Reason: reason, Metadata: metadata}}
	if delay != 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(delay)})
	}
	st, err := status.New(code, "scripted").WithDetails(details...)
	if err != nil {
		return err
	}
	return st.Err()
}

func update(state easelv1.State, etag string) *easelv1.WatchGenerationResponse {
	return &easelv1.WatchGenerationResponse{Event: &easelv1.WatchGenerationResponse_Update{Update: &easelv1.GenerationUpdate{
		Generation: &easelv1.Generation{GenerationId: "gen_1", State: state, Etag: etag},
	}}}
}
