package server

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protojson"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/admin"
	"github.com/easel-grpc/easel/internal/service"
	"github.com/easel-grpc/easel/internal/telemetry"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// studio is a service whose answers a test decides. It lets in who sends the bearer
// token "key".
type studio struct {
	easelv1.UnimplementedAccountServiceServer
	easelv1.UnimplementedModelServiceServer
	easelv1.UnimplementedGenerationServiceServer

	create   func(context.Context, *easelv1.CreateGenerationRequest) (*easelv1.CreateGenerationResponse, error)
	get      func(context.Context, *easelv1.GetGenerationRequest) (*easelv1.GetGenerationResponse, error)
	model    func(context.Context, *easelv1.GetModelRequest) (*easelv1.GetModelResponse, error)
	watch    func(*easelv1.WatchGenerationRequest, grpc.ServerStreamingServer[easelv1.WatchGenerationResponse]) error
	watchAll func(*easelv1.WatchGenerationsRequest, grpc.ServerStreamingServer[easelv1.WatchGenerationsResponse]) error
	content  func(context.Context, *easelv1.DownloadGenerationRequest) (*service.Content, error)

	draining chan struct{}

	mu        sync.Mutex
	certNames []string
	seen      []metadata.MD
}

func newStudio() *studio { return &studio{draining: make(chan struct{})} }

func (s *studio) Register(r grpc.ServiceRegistrar) {
	easelv1.RegisterAccountServiceServer(r, s)
	easelv1.RegisterModelServiceServer(r, s)
	easelv1.RegisterGenerationServiceServer(r, s)
}

func (s *studio) Authenticate(ctx context.Context, certName string) (context.Context, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.certNames = append(s.certNames, certName)
	s.seen = append(s.seen, md)
	if first(md.Get("authorization")) != "Bearer key" && certName == "" {
		return nil, service.Fail(codes.Unauthenticated, "CREDENTIAL_MISSING", "no key")
	}
	return ctx, nil
}

func (s *studio) Accepted(string) bool { return true }

func (s *studio) lastMetadata() metadata.MD {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[len(s.seen)-1]
}

func (s *studio) Drain() { close(s.draining) }

func (s *studio) CreateGeneration(ctx context.Context, req *easelv1.CreateGenerationRequest) (*easelv1.CreateGenerationResponse, error) {
	return s.create(ctx, req)
}

func (s *studio) GetGeneration(ctx context.Context, req *easelv1.GetGenerationRequest) (*easelv1.GetGenerationResponse, error) {
	if s.get != nil {
		return s.get(ctx, req)
	}
	return &easelv1.GetGenerationResponse{Generation: &easelv1.Generation{GenerationId: req.GetGenerationId()}}, nil
}

func (s *studio) GetModel(ctx context.Context, req *easelv1.GetModelRequest) (*easelv1.GetModelResponse, error) {
	return s.model(ctx, req)
}

func (s *studio) WatchGeneration(req *easelv1.WatchGenerationRequest, stream grpc.ServerStreamingServer[easelv1.WatchGenerationResponse]) error {
	return s.watch(req, stream)
}

func (s *studio) WatchGenerations(req *easelv1.WatchGenerationsRequest, stream grpc.ServerStreamingServer[easelv1.WatchGenerationsResponse]) error {
	return s.watchAll(req, stream)
}

func (s *studio) Content(ctx context.Context, req *easelv1.DownloadGenerationRequest) (*service.Content, error) {
	return s.content(ctx, req)
}

// site is a server that runs over in-memory connections until the test ends.
type site struct {
	*studio
	http  *http.Client
	admin *http.Client
	grpc  *grpc.ClientConn
	logs  *lockedBuffer
	gates *gates

	grpcPipe, httpPipe, adminPipe *bufconn.Listener
	stop                          func() error // stops the server, and waits until it has
}

func serve(t testing.TB, studio *studio, change ...func(*Config)) *site {
	t.Helper()
	grpcPipe, httpPipe, adminPipe := bufconn.Listen(1<<16), bufconn.Listen(1<<16), bufconn.Listen(1<<16)
	s := &site{studio: studio, logs: &lockedBuffer{}, grpcPipe: grpcPipe, httpPipe: httpPipe, adminPipe: adminPipe}
	config := Config{
		Listeners: Listeners{GRPC: grpcPipe, HTTP: httpPipe, Admin: adminPipe},
		Service:   studio,
		Admin:     operators,
		Logger:    slog.New(slog.NewJSONHandler(s.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		OpenAPI:   []byte(`{"openapi":"3.1.0"}`),
		Pages:     map[string]http.Handler{"/": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("a page")) })},
	}
	for _, f := range change {
		f(&config)
	}
	server, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	s.gates = server.calls.gates
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	var result error
	go func() { defer close(ended); result = server.Serve(ctx) }()
	s.stop = func() error { cancel(); <-ended; return result }
	s.http, s.admin = httpClient(httpPipe), httpClient(adminPipe)
	s.grpc = dial(t, grpcPipe)
	t.Cleanup(func() {
		s.http.CloseIdleConnections()
		s.admin.CloseIdleConnections()
		s.grpc.Close()
		if err := s.stop(); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s
}

// operators makes what the admin listener serves.
func operators(s *Server) (http.Handler, func()) {
	return admin.New(admin.Config{
		Status: admin.Status{Serving: s.Serving}, LogLevel: &telemetry.Level{}, Addr: s.AdminAddr(),
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "metrics") }),
	})
}

// httpClient makes a connection for each request: an in-memory connection that is used
// again now and then reports a deadline of the request before.
func httpClient(pipe *bufconn.Listener) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: pipeDialer(pipe), DisableCompression: true, DisableKeepAlives: true}}
}

func dial(t testing.TB, pipe *bufconn.Listener, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	options = append([]grpc.DialOption{
		grpc.WithContextDialer(grpcDialer(pipe)),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
	}, options...)
	conn, err := grpc.NewClient("passthrough:///site", options...)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func (s *site) generations() easelv1.GenerationServiceClient {
	return easelv1.NewGenerationServiceClient(s.grpc)
}

// request makes a request with the key, and headers as "Name: value".
func request(t *testing.T, method, path, body string, headers ...string) *http.Request {
	t.Helper()
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, "http://easel.test"+path, content)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer key")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Add(name, value)
		if value == "" {
			r.Header.Del(name)
		}
	}
	return r
}

// do sends a request and reads the whole answer.
func do(t *testing.T, client *http.Client, r *http.Request) (*http.Response, string) {
	t.Helper()
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(body)
}

// restStatus reads the status that a REST error is.
func restStatus(t *testing.T, body string) *status.Status {
	t.Helper()
	var message rpcstatus.Status
	if err := protojson.Unmarshal([]byte(body), &message); err != nil {
		t.Fatalf("%s is no status: %v", body, err)
	}
	return status.FromProto(&message)
}

func wantError(t *testing.T, err error, code codes.Code, reason string) *status.Status {
	t.Helper()
	st := status.Convert(err)
	if st.Code() != code || service.Reason(st) != reason {
		t.Fatalf("got %v with reason %q, want %v with %q", err, service.Reason(st), code, reason)
	}
	if info := service.Detail[*errdetails.ErrorInfo](st); info.GetDomain() != "easel" {
		t.Errorf("the domain is %q", info.GetDomain())
	}
	return st
}

func withKey(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer key")
}

// lines are the log lines with a message.
func (s *site) lines(t *testing.T, message string) (found []map[string]any) {
	t.Helper()
	for line := range strings.Lines(s.logs.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%s is no JSON: %v", line, err)
		}
		if fields["msg"] == message {
			found = append(found, fields)
		}
	}
	return found
}

// lockedBuffer is a buffer that servers write while tests read.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

func writeFile(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
