// Package servertest supports the tests of packages server and rest. It provides a service with responses that a test defines,
// and clients that connect to a server in memory.
package servertest

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/service"
)

// WatchStream is the server's side of a WatchGeneration stream.
type WatchStream = grpc.ServerStreamingServer[easelv1.WatchGenerationResponse]

// Studio is a service with responses that a test defines. It accepts callers that have the bearer token "key" or a client
// certificate.
type Studio struct {
	easelv1.UnimplementedAccountServiceServer
	easelv1.UnimplementedModelServiceServer
	easelv1.UnimplementedGenerationServiceServer

	// Handlers of the methods. Get and List may be nil: GetGeneration then returns an empty generation, and ListGenerations
	// returns UNIMPLEMENTED. A test must set every other handler whose method it calls.
	Create      func(context.Context, *easelv1.CreateGenerationRequest) (*easelv1.CreateGenerationResponse, error)
	Get         func(context.Context, *easelv1.GetGenerationRequest) (*easelv1.GetGenerationResponse, error)
	List        func(context.Context, *easelv1.ListGenerationsRequest) (*easelv1.ListGenerationsResponse, error)
	Model       func(context.Context, *easelv1.GetModelRequest) (*easelv1.GetModelResponse, error)
	Watch       func(*easelv1.WatchGenerationRequest, WatchStream) error
	WatchAll    func(*easelv1.WatchGenerationsRequest, grpc.ServerStreamingServer[easelv1.WatchGenerationsResponse]) error
	Events      func(*easelv1.WatchEventsRequest, grpc.ServerStreamingServer[easelv1.WatchEventsResponse]) error
	OpenContent func(context.Context, *easelv1.DownloadGenerationRequest) (*service.Content, error)

	// Draining is closed by Drain.
	Draining chan struct{}

	mu           sync.Mutex
	certificates []*auth.Certificate
	seen         []metadata.MD
}

// NewStudio returns a Studio that has no handlers yet.
func NewStudio() *Studio { return &Studio{Draining: make(chan struct{})} }

// Register registers the service's methods.
func (s *Studio) Register(r grpc.ServiceRegistrar) {
	easelv1.RegisterAccountServiceServer(r, s)
	easelv1.RegisterModelServiceServer(r, s)
	easelv1.RegisterGenerationServiceServer(r, s)
}

// Authenticate accepts the bearer token "key", and any client certificate.
func (s *Studio) Authenticate(ctx context.Context, certificate *auth.Certificate) (context.Context, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.certificates = append(s.certificates, certificate)
	s.seen = append(s.seen, md)
	return ctx, s.Admit(ctx, certificate)
}

// Admit rejects a call without an accepted credential.
func (s *Studio) Admit(ctx context.Context, certificate *auth.Certificate) error {
	given := metadata.ValueFromIncomingContext(ctx, "authorization")
	if (len(given) == 0 || given[0] != "Bearer key") && certificate.Name() == "" {
		return service.Fail(easelv1.ErrorReason_CREDENTIAL_MISSING, "no key")
	}
	return nil
}

// Certificates returns the client certificate of each call, or nil for a call without one.
func (s *Studio) Certificates() []*auth.Certificate {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.certificates
}

// Seen returns the metadata of all calls so far.
func (s *Studio) Seen() []metadata.MD {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// LastMetadata returns the metadata of the last call.
func (s *Studio) LastMetadata() metadata.MD {
	seen := s.Seen()
	return seen[len(seen)-1]
}

// Drain closes the channel Draining.
func (s *Studio) Drain() { close(s.Draining) }

// CreateGeneration calls the function Create.
func (s *Studio) CreateGeneration(ctx context.Context, req *easelv1.CreateGenerationRequest) (*easelv1.CreateGenerationResponse, error) {
	return s.Create(ctx, req)
}

// GetGeneration calls the function Get. If Get is nil, it returns an empty generation with the requested ID.
func (s *Studio) GetGeneration(ctx context.Context, req *easelv1.GetGenerationRequest) (*easelv1.GetGenerationResponse, error) {
	if s.Get != nil {
		return s.Get(ctx, req)
	}
	return &easelv1.GetGenerationResponse{Generation: &easelv1.Generation{GenerationId: req.GetGenerationId()}}, nil
}

// ListGenerations calls the function List. If List is nil, it returns UNIMPLEMENTED.
func (s *Studio) ListGenerations(ctx context.Context, req *easelv1.ListGenerationsRequest) (*easelv1.ListGenerationsResponse, error) {
	if s.List != nil {
		return s.List(ctx, req)
	}
	return s.UnimplementedGenerationServiceServer.ListGenerations(ctx, req)
}

// GetModel calls the function Model.
func (s *Studio) GetModel(ctx context.Context, req *easelv1.GetModelRequest) (*easelv1.GetModelResponse, error) {
	return s.Model(ctx, req)
}

// WatchGeneration calls the function Watch, which must send the messages.
func (s *Studio) WatchGeneration(req *easelv1.WatchGenerationRequest, stream WatchStream) error {
	return s.Watch(req, stream)
}

// WatchGenerations calls the function WatchAll, which must send the messages.
func (s *Studio) WatchGenerations(req *easelv1.WatchGenerationsRequest, stream grpc.ServerStreamingServer[easelv1.WatchGenerationsResponse]) error {
	return s.WatchAll(req, stream)
}

// WatchEvents calls the function Events, which must send the messages.
func (s *Studio) WatchEvents(req *easelv1.WatchEventsRequest, stream grpc.ServerStreamingServer[easelv1.WatchEventsResponse]) error {
	return s.Events(req, stream)
}

// Content calls the function OpenContent.
func (s *Studio) Content(ctx context.Context, req *easelv1.DownloadGenerationRequest) (*service.Content, error) {
	return s.OpenContent(ctx, req)
}

// UpdateEvent returns a watch message with an update of the generation with the given ID and etag.
func UpdateEvent(id, etag string) *easelv1.WatchGenerationResponse {
	return &easelv1.WatchGenerationResponse{Event: &easelv1.WatchGenerationResponse_Update{
		Update: &easelv1.GenerationUpdate{Generation: &easelv1.Generation{GenerationId: id, Etag: etag}},
	}}
}

// ClosingEvent returns the last message of a watch that the server closes because of a shutdown. The message asks the caller
// to reconnect after delay.
func ClosingEvent(delay time.Duration) *easelv1.WatchGenerationResponse {
	return &easelv1.WatchGenerationResponse{Event: &easelv1.WatchGenerationResponse_Closing{Closing: &easelv1.StreamClosing{
		Reason: easelv1.StreamClosingReason_STREAM_CLOSING_REASON_DRAINING, RetryDelay: durationpb.New(delay),
	}}}
}

// Draining returns the error of a stream that ends because the server shuts down.
func Draining() error {
	st, _ := status.New(codes.Unavailable, "going down").WithDetails(&errdetails.ErrorInfo{Domain: "easel", Reason: "SERVER_DRAINING"},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	return st.Err()
}

// Ending is a request body that contains no bytes. Read calls the function and returns its error, or io.EOF if the error is
// nil.
type Ending func() error

// Read implements io.Reader.
func (e Ending) Read([]byte) (int, error) { return 0, cmp.Or(e(), io.EOF) }

// Page serves a short text as a page for browsers.
func Page(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a page") }
