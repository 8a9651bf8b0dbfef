package cli

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/test/bufconn"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// dialer is a function that connects to a server.
type dialer = func(ctx context.Context, addr string) (net.Conn, error)

// scripted is a server whose behavior a test determines. It can interrupt streams, stay silent, and return errors
// repeatedly, which a real server rarely does.
type scripted struct {
	easelv1.UnimplementedAccountServiceServer
	easelv1.UnimplementedModelServiceServer
	easelv1.UnimplementedGenerationServiceServer

	account  func() (*easelv1.Account, error)
	usage    func(*easelv1.ListUsageRequest) (*easelv1.ListUsageResponse, error)
	models   func() (*easelv1.ListModelsResponse, error)
	model    func(*easelv1.GetModelRequest) (*easelv1.Model, error)
	quote    func(*easelv1.QuoteGenerationRequest) (*easelv1.Quote, error)
	create   func(*easelv1.CreateGenerationRequest) (*easelv1.Generation, error)
	get      func(*easelv1.GetGenerationRequest) (*easelv1.Generation, error)
	list     func(*easelv1.ListGenerationsRequest) *easelv1.ListGenerationsResponse
	remove   func(*easelv1.DeleteGenerationRequest) error
	watch    func(*easelv1.WatchGenerationRequest, grpc.ServerStreamingServer[easelv1.WatchGenerationResponse]) error
	watchAll func(*easelv1.WatchGenerationsRequest, grpc.ServerStreamingServer[easelv1.WatchGenerationsResponse]) error
	events   func(*easelv1.WatchEventsRequest, grpc.ServerStreamingServer[easelv1.WatchEventsResponse]) error
	download func(*easelv1.DownloadGenerationRequest, grpc.ServerStreamingServer[easelv1.DownloadGenerationResponse]) error
}

func (s *scripted) GetAccount(context.Context, *easelv1.GetAccountRequest) (*easelv1.GetAccountResponse, error) {
	a, err := s.account()
	return &easelv1.GetAccountResponse{Account: a}, err
}

func (s *scripted) ListUsage(_ context.Context, r *easelv1.ListUsageRequest) (*easelv1.ListUsageResponse, error) {
	return s.usage(r)
}

func (s *scripted) ListModels(context.Context, *easelv1.ListModelsRequest) (*easelv1.ListModelsResponse, error) {
	if s.models == nil {
		return nil, serverError(codes.Unavailable, "UPSTREAM_UNAVAILABLE")
	}
	return s.models()
}

func (s *scripted) GetModel(_ context.Context, r *easelv1.GetModelRequest) (*easelv1.GetModelResponse, error) {
	m, err := s.model(r)
	return &easelv1.GetModelResponse{Model: m}, err
}

func (s *scripted) QuoteGeneration(_ context.Context, r *easelv1.QuoteGenerationRequest) (*easelv1.QuoteGenerationResponse, error) {
	q, err := s.quote(r)
	return &easelv1.QuoteGenerationResponse{Quote: q}, err
}

func (s *scripted) CreateGeneration(_ context.Context, r *easelv1.CreateGenerationRequest) (*easelv1.CreateGenerationResponse, error) {
	g, err := s.create(r)
	return &easelv1.CreateGenerationResponse{Generation: g}, err
}

func (s *scripted) GetGeneration(_ context.Context, r *easelv1.GetGenerationRequest) (*easelv1.GetGenerationResponse, error) {
	g, err := s.get(r)
	return &easelv1.GetGenerationResponse{Generation: g}, err
}

func (s *scripted) ListGenerations(_ context.Context, r *easelv1.ListGenerationsRequest) (*easelv1.ListGenerationsResponse, error) {
	return s.list(r), nil
}

func (s *scripted) DeleteGeneration(_ context.Context, r *easelv1.DeleteGenerationRequest) (*easelv1.DeleteGenerationResponse, error) {
	return &easelv1.DeleteGenerationResponse{}, s.remove(r)
}

func (s *scripted) WatchGeneration(r *easelv1.WatchGenerationRequest, stream oneStream) error {
	return s.watch(r, stream)
}

func (s *scripted) WatchGenerations(r *easelv1.WatchGenerationsRequest, stream manyStream) error {
	return s.watchAll(r, stream)
}

func (s *scripted) WatchEvents(r *easelv1.WatchEventsRequest, stream grpc.ServerStreamingServer[easelv1.WatchEventsResponse]) error {
	return s.events(r, stream)
}

func (s *scripted) DownloadGeneration(r *easelv1.DownloadGenerationRequest, stream grpc.ServerStreamingServer[easelv1.DownloadGenerationResponse]) error {
	return s.download(r, stream)
}

// serve starts the server in memory and returns a dialer for it.
func (s *scripted) serve(t *testing.T) dialer {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second}))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	easelv1.RegisterAccountServiceServer(server, s)
	easelv1.RegisterModelServiceServer(server, s)
	easelv1.RegisterGenerationServiceServer(server, s)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-ended
	})
	return func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }
}
