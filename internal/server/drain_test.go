package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server/servertest"
)

func TestShutdownEndsOpenStreamsAfterDrainTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		studio := servertest.NewStudio()
		studio.Watch = func(_ *easelv1.WatchGenerationRequest, stream servertest.WatchStream) error {
			_ = stream.Send(servertest.UpdateEvent("g", "e1"))
			<-stream.Context().Done() // keeps the watch open during the drain, until the server cancels it
			return stream.Context().Err()
		}
		s := serve(t, studio, func(c *Config) { c.DrainTimeout = 3 * time.Second })
		stream, err := s.Generations().WatchGeneration(servertest.WithKey(t.Context()), &easelv1.WatchGenerationRequest{GenerationId: "g"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		answer, err := s.HTTP.Do(servertest.Request(t, http.MethodGet, "/v1/generations/g:watch", ""))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		began := time.Now()
		if err := s.Stop(); err != nil {
			t.Errorf("Serve returned %v", err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("the server stopped after %v, want 3 s", took)
		}
		if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("the stream ended with %v, want Unavailable", err)
		}
		// The server closes the connection in two steps, so the client may lose the error at the end of the stream. If
		// the client receives the complete body, the body must contain the error.
		if body, err := io.ReadAll(answer.Body); err == nil && !strings.Contains(string(body), `{"error":`) {
			t.Errorf("the event stream ended without an error: %s", body)
		}
	})
}

func TestShutdownLetsCallsInProgressFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		studio := servertest.NewStudio()
		began := make(chan struct{}, 2)
		studio.Get = func(context.Context, *easelv1.GetGenerationRequest) (*easelv1.GetGenerationResponse, error) {
			began <- struct{}{}
			time.Sleep(5 * time.Second)
			return &easelv1.GetGenerationResponse{}, nil
		}
		s := serve(t, studio)
		results := make(chan error, 2)
		go func() {
			_, err := s.Generations().GetGeneration(servertest.WithKey(t.Context()), &easelv1.GetGenerationRequest{GenerationId: "g"})
			results <- err
		}()
		go func() {
			answer, err := s.HTTP.Do(servertest.Request(t, http.MethodGet, "/v1/generations/g", ""))
			if err == nil && answer.StatusCode != http.StatusOK {
				err = errors.New(answer.Status)
			}
			if err == nil {
				err = answer.Body.Close()
			}
			results <- err
		}()
		<-began
		<-began
		if err := s.Stop(); err != nil {
			t.Errorf("Serve returned %v", err)
		}
		for range 2 {
			if err := <-results; err != nil {
				t.Errorf("a call in progress ended with %v", err)
			}
		}
	})
}

func TestHealthReportsServingAndDraining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		studio := servertest.NewStudio()
		studio.Get = func(context.Context, *easelv1.GetGenerationRequest) (*easelv1.GetGenerationResponse, error) {
			time.Sleep(5 * time.Second)
			return &easelv1.GetGenerationResponse{}, nil
		}
		s := serve(t, studio)
		health := grpc_health_v1.NewHealthClient(s.GRPC)
		watch, err := health.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "easel.v1.GenerationService"})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // waits until the server has started
		for _, service := range []string{"", "easel.v1.AccountService", "easel.v1.ModelService", "easel.v1.GenerationService"} {
			answer, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
			if err != nil || answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
				t.Errorf("the health of %q is %v, %v", service, answer.GetStatus(), err)
			}
		}
		wantAdmin(t, s, "/readyz", http.StatusOK)
		go func() { _, _ = s.HTTP.Do(servertest.Request(t, http.MethodGet, "/v1/generations/g", "")) }() // this open call delays the shutdown
		synctest.Wait()
		go s.Stop()
		synctest.Wait()
		wantAdmin(t, s, "/healthz", http.StatusOK)
		wantAdmin(t, s, "/readyz", http.StatusServiceUnavailable)
		var last grpc_health_v1.HealthCheckResponse_ServingStatus
		for {
			answer, err := watch.Recv()
			if err != nil {
				break // the server has ended the health watch, instead of waiting for it
			}
			last = answer.GetStatus()
		}
		if last != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
			t.Errorf("the last status of the health watch is %v", last)
		}
	})
}

func wantAdmin(t *testing.T, s *site, path string, code int) {
	t.Helper()
	r := servertest.Request(t, http.MethodGet, path, "", "Authorization: ")
	r.Host = "localhost"
	if answer, body := servertest.Do(t, s.Admin, r); answer.StatusCode != code {
		t.Errorf("%s returned %s: %s", path, answer.Status, body)
	}
}

// brokenListener is a listener whose Accept always fails.
type brokenListener struct{ net.Listener }

func (brokenListener) Accept() (net.Conn, error) { return nil, errors.New("taken away") }

func TestFailedListenerStopsServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := New(newTestConfig(servertest.NewStudio(), func(c *Config) {
			c.Listeners = Listeners{GRPC: servertest.Pipe(), HTTP: brokenListener{servertest.Pipe()}, Admin: servertest.Pipe()}
		}))
		if err == nil {
			err = server.Listen()
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Serve(t.Context()); err == nil || !strings.Contains(err.Error(), "serve http: taken away") {
			t.Errorf("Serve returned %v", err)
		}
	})
}

func TestServeReturnsIfContextIsAlreadyCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := New(newTestConfig(servertest.NewStudio(), inPipes))
		if err == nil {
			err = server.Listen()
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := server.Serve(ctx); err != nil {
			t.Errorf("Serve returned %v", err)
		}
	})
}

func TestStreamOfUnreachableClientEndsWithin45Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		studio := servertest.NewStudio()
		ended := make(chan struct{})
		studio.Watch = func(_ *easelv1.WatchGenerationRequest, stream servertest.WatchStream) error {
			defer close(ended)
			_ = stream.Send(servertest.UpdateEvent("g", "e1"))
			<-stream.Context().Done()
			return stream.Context().Err()
		}
		s := serve(t, studio)
		var mute muteConn
		conn := servertest.Dial(t, s.GRPCPipe, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			var err error
			mute.Conn, err = s.GRPCPipe.DialContext(ctx)
			return &mute, err
		}))
		defer conn.Close()
		stream, err := easelv1.NewGenerationServiceClient(conn).WatchGeneration(servertest.WithKey(t.Context()), &easelv1.WatchGenerationRequest{GenerationId: "g"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		mute.muted.Store(true)
		began := time.Now()
		<-ended
		if took := time.Since(began); took > 45*time.Second {
			t.Errorf("a dead client was held for %v", took)
		}
	})
}

// muteConn is a client connection. Once muted is set, it silently drops all written bytes, as if the client's host had
// vanished.
type muteConn struct {
	net.Conn
	muted atomic.Bool
}

func (c *muteConn) Write(p []byte) (int, error) {
	if c.muted.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}
