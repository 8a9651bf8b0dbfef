package main

import (
	"bytes"
	"context"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scripted is a server that does what a test says, for what the real one never does on
// purpose: break off, fall silent, answer with errors in a row.
type scripted struct {
	easelv1.UnimplementedAccountServiceServer
	easelv1.UnimplementedModelServiceServer
	easelv1.UnimplementedGenerationServiceServer

	account  func() (*easelv1.Account, error)
	models   func() (*easelv1.ListModelsResponse, error)
	model    func(*easelv1.GetModelRequest) (*easelv1.Model, error)
	quote    func(*easelv1.QuoteGenerationRequest) (*easelv1.Quote, error)
	create   func(*easelv1.CreateGenerationRequest) (*easelv1.Generation, error)
	getWith  func(context.Context) // sees what came with a call, nil where nobody looks
	get      func(*easelv1.GetGenerationRequest) (*easelv1.Generation, error)
	list     func(*easelv1.ListGenerationsRequest) *easelv1.ListGenerationsResponse
	remove   func(*easelv1.DeleteGenerationRequest) error
	watch    func(*easelv1.WatchGenerationRequest, grpc.ServerStreamingServer[easelv1.WatchGenerationResponse]) error
	watchAll func(*easelv1.WatchGenerationsRequest, grpc.ServerStreamingServer[easelv1.WatchGenerationsResponse]) error
	download func(*easelv1.DownloadGenerationRequest, grpc.ServerStreamingServer[easelv1.DownloadGenerationResponse]) error
}

func (s *scripted) GetAccount(context.Context, *easelv1.GetAccountRequest) (*easelv1.GetAccountResponse, error) {
	a, err := s.account()
	return &easelv1.GetAccountResponse{Account: a}, err
}

func (s *scripted) ListModels(context.Context, *easelv1.ListModelsRequest) (*easelv1.ListModelsResponse, error) {
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

func (s *scripted) GetGeneration(ctx context.Context, r *easelv1.GetGenerationRequest) (*easelv1.GetGenerationResponse, error) {
	if s.getWith != nil {
		s.getWith(ctx)
	}
	g, err := s.get(r)
	return &easelv1.GetGenerationResponse{Generation: g}, err
}

func (s *scripted) ListGenerations(_ context.Context, r *easelv1.ListGenerationsRequest) (*easelv1.ListGenerationsResponse, error) {
	return s.list(r), nil
}

func (s *scripted) DeleteGeneration(_ context.Context, r *easelv1.DeleteGenerationRequest) (*easelv1.DeleteGenerationResponse, error) {
	return &easelv1.DeleteGenerationResponse{}, s.remove(r)
}

func (s *scripted) WatchGeneration(r *easelv1.WatchGenerationRequest, stream grpc.ServerStreamingServer[easelv1.WatchGenerationResponse]) error {
	return s.watch(r, stream)
}

func (s *scripted) WatchGenerations(r *easelv1.WatchGenerationsRequest, stream grpc.ServerStreamingServer[easelv1.WatchGenerationsResponse]) error {
	return s.watchAll(r, stream)
}

func (s *scripted) DownloadGeneration(r *easelv1.DownloadGenerationRequest, stream grpc.ServerStreamingServer[easelv1.DownloadGenerationResponse]) error {
	return s.download(r, stream)
}

// serve starts the scripted server in memory and gives the way to it.
func (s *scripted) serve(t *testing.T) Dialer {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
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

// printed is what a run of the command left behind.
type printed struct {
	exit   int
	stdout string
	stderr string
}

// linesOf gives the lines of what a stream got.
func linesOf(text string) []string {
	if text = strings.TrimSuffix(text, "\n"); text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// easel runs the command over dial, without an environment.
func easel(ctx context.Context, dial Dialer, args ...string) printed {
	return easelEnv(ctx, dial, nil, args...)
}

func easelEnv(ctx context.Context, dial Dialer, env map[string]string, args ...string) printed {
	stdout, stderr := newBuffer(), newBuffer()
	exit := Run(ctx, args, &Program{
		Grammar: grammar(), Build: thisBuild(),
		Stdin: strings.NewReader(""), Stdout: stdout, Stderr: stderr, Dial: dial,
		Lookup: func(name string) (string, bool) {
			value, ok := env[name]
			return value, ok
		},
		Environ: environOf(env),
	})
	return printed{exit, stdout.String(), stderr.String()}
}

// environOf lists an environment as a process has it.
func environOf(env map[string]string) func() []string {
	return func() (all []string) {
		for _, name := range slices.Sorted(maps.Keys(env)) {
			all = append(all, name+"="+env[name])
		}
		return all
	}
}

// buffer is a stream that may be read while it is written, and tells that it was.
type buffer struct {
	mu      sync.Mutex
	text    bytes.Buffer
	written chan struct{}
}

func newBuffer() *buffer { return &buffer{written: make(chan struct{}, 1)} }

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.written <- struct{}{}:
	default:
	}
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
