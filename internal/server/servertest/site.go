package servertest

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
)

// Site is a server that runs over in-memory connections until the test ends.
type Site struct {
	*Studio
	HTTP  *http.Client
	Admin *http.Client
	GRPC  *grpc.ClientConn
	Logs  *Buffer

	GRPCPipe, HTTPPipe, AdminPipe *proctest.Pipe
	Stop                          func() error // stops the server, waits until runServer (see [Start]) has returned, and returns its error
}

// Start starts a server for a test. buildServer creates the server and returns runServer, which runs it. The server must
// listen on the pipes of the Site, and should write its log to [Site.Logs]. When the test ends, the context passed to
// runServer is canceled.
func Start(t testing.TB, studio *Studio, buildServer func(*Site) (runServer func(context.Context) error, err error)) *Site {
	t.Helper()
	s := &Site{Studio: studio, Logs: &Buffer{}, GRPCPipe: Pipe(), HTTPPipe: Pipe(), AdminPipe: Pipe()}
	runServer, err := buildServer(s)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	var result error
	go func() { defer close(ended); result = runServer(ctx) }()
	s.Stop = func() error { cancel(); <-ended; return result }
	s.HTTP, s.Admin = HTTPClient(s.HTTPPipe), HTTPClient(s.AdminPipe)
	s.GRPC = Dial(t, s.GRPCPipe)
	t.Cleanup(func() {
		s.HTTP.CloseIdleConnections()
		s.Admin.CloseIdleConnections()
		_ = s.GRPC.Close()
		if err := s.Stop(); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s
}

// Generations returns a gRPC client for the generation service.
func (s *Site) Generations() easelv1.GenerationServiceClient {
	return easelv1.NewGenerationServiceClient(s.GRPC)
}

// Lines returns the fields of all log lines that have the given message.
func (s *Site) Lines(t *testing.T, message string) (found []map[string]any) {
	t.Helper()
	for line := range strings.Lines(s.Logs.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%s is not JSON: %v", line, err)
		}
		if fields["msg"] == message {
			found = append(found, fields)
		}
	}
	return found
}

// Pipe returns an in-memory listener.
func Pipe() *proctest.Pipe { return proctest.NewPipe(1 << 16) }

// PipeDialer returns a dial function for an HTTP client. The function ignores the address and connects to the pipe.
func PipeDialer(pipe *proctest.Pipe) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }
}

// HTTPClient returns a client that opens a new connection for each request. On a reused in-memory connection, the deadline of
// an earlier request could make a read fail.
func HTTPClient(pipe *proctest.Pipe) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: PipeDialer(pipe), DisableCompression: true, DisableKeepAlives: true}}
}

// Dial returns a gRPC connection to the server that listens on a pipe.
func Dial(t testing.TB, pipe *proctest.Pipe, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	options = append([]grpc.DialOption{
		grpc.WithContextDialer(GRPCDialer(pipe)),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
	}, options...)
	conn, err := grpc.NewClient("passthrough:///site", options...)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// GRPCDialer returns a dial function for a gRPC client. The function ignores the address and connects to the pipe.
func GRPCDialer(pipe *proctest.Pipe) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }
}

// Buffer is a buffer that is safe for concurrent use, so that a test can read it while a server writes to it.
type Buffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

// String returns everything that was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
