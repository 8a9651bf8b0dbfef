package server

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/rest"
	"github.com/easel-grpc/easel/internal/server/servertest"
	"github.com/easel-grpc/easel/internal/service"
)

// The tests in this file check limits on connections and requests, with values at each limit and just above it.

func TestHeadersAboveSizeLimitAreRejected(t *testing.T) {
	s := serve(t, servertest.NewStudio())
	call := func(n int) error {
		ctx := metadata.AppendToOutgoingContext(servertest.WithKey(t.Context()), "x-large", strings.Repeat("x", n))
		_, err := s.Generations().GetGeneration(ctx, &easelv1.GetGenerationRequest{GenerationId: "g"})
		return err
	}
	limit := headerBytes
	if err := call(limit - 1000); err != nil { // the other headers need less than 1,000 bytes
		t.Errorf("headers of almost %d bytes returned %v", limit, err)
	}
	if err := call(limit); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "header list size") {
		t.Errorf("headers above the limit returned %v", err) // the client's gRPC library rejects the call without sending it, because the server has announced the limit
	}
	for n, want := range map[int]int{limit - 1000: http.StatusOK, limit + 5000: http.StatusRequestHeaderFieldsTooLarge} {
		answer, _ := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, "/v1/generations/g", "", "X-Large: "+strings.Repeat("x", n)))
		if answer.StatusCode != want {
			t.Errorf("over REST, headers of %d bytes returned %s", n, answer.Status)
		}
	}
}

func TestMessagesAboveSizeLimitAreRejected(t *testing.T) {
	for _, inputs := range []int{service.DefaultMaxInputs, service.DefaultMaxInputs * 3 / 2} {
		probeMessage(t, serve(t, servertest.NewStudio(), func(c *Config) { c.Limits.MaxInputs = inputs }), inputs+256<<10)
	}
}

// probeMessage sends requests of the maximum size and requests that are one byte larger, over gRPC and over REST. It
// checks that only the larger requests are rejected as too large.
func probeMessage(t *testing.T, s *site, limit int) {
	t.Helper()
	send := func(n int, options ...grpc.CallOption) error {
		_, err := s.Generations().GetGeneration(servertest.WithKey(t.Context()), &easelv1.GetGenerationRequest{GenerationId: strings.Repeat("g", n)}, options...)
		return err
	}
	const around = 4 // size of the encoded message without the ID: the field's tag and the encoded length of the ID
	servertest.WantError(t, send(limit-around), codes.InvalidArgument, "INVALID_REQUEST")
	for _, options := range [][]grpc.CallOption{nil, {grpc.UseCompressor("gzip")}} {
		if err := send(limit-around+1, options...); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a message one byte above the limit returned %v", err)
		}
	}
	for n, want := range map[int]string{limit: "INVALID_REQUEST", limit + 1: "REQUEST_TOO_LARGE"} {
		_, body := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodPost, "/v1/generations", strings.Repeat(" ", n-1)+"1"))
		if got := service.Reason(servertest.RESTStatus(t, body)).String(); got != want {
			t.Errorf("a body of %d bytes is rejected with %s, want %s", n, got, want)
		}
	}
}

func TestIncompleteTLSHandshakeTimesOut(t *testing.T) {
	files := newTLSFiles(t, "server")
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, servertest.NewStudio(), func(c *Config) { c.TLS = files.TLS })
		for name, pipe := range map[string]*proctest.Pipe{"gRPC": s.GRPCPipe, "HTTP": s.HTTPPipe} {
			began, conn := time.Now(), dialPipe(t, pipe)
			if _, err := conn.Write([]byte{0x16, 3, 1, 2}); err != nil { // the first bytes of a TLS handshake
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, conn)
			if took := time.Since(began); took != handshakeTimeout {
				t.Errorf("%s: the server waited %v for a handshake", name, took)
			}
			conn.Close()
		}
	})
}

func dialPipe(t *testing.T, pipe *proctest.Pipe) net.Conn {
	t.Helper()
	conn, err := pipe.Dial()
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestSlowAndIdleConnectionsStayOpenUntilTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		studio := servertest.NewStudio()
		studio.Create = func(context.Context, *easelv1.CreateGenerationRequest) (*easelv1.CreateGenerationResponse, error) {
			return &easelv1.CreateGenerationResponse{}, nil
		}
		s := serve(t, studio)
		conn := dialPipe(t, s.HTTPPipe)
		defer conn.Close()
		body := `{"modelId":"m","inputs":{},"idempotencyKey":"k"}`
		fmt.Fprintf(conn, "POST /v1/generations HTTP/1.1\r\nHost: easel.test\r\nAuthorization: Bearer key\r\nContent-Length: %d\r\n\r\n%s", len(body), body[:9])
		time.Sleep(rest.RequestTimeout - time.Second)
		_, _ = io.WriteString(conn, body[9:])
		answers := bufio.NewReader(conn)
		answer, err := http.ReadResponse(answers, nil)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("a request with a slow body returned %v, %v", answer, err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		time.Sleep(idleTimeout - time.Second)
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: easel.test\r\n\r\n")
		if answer, err = http.ReadResponse(answers, nil); err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("after a pause the response is %v, %v", answer, err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		began := time.Now()
		if _, err := answers.ReadByte(); err == nil || time.Since(began) != idleTimeout {
			t.Errorf("an idle connection ended after %v with %v", time.Since(began), err)
		}
	})
}

func TestTooFrequentPingsCloseConnection(t *testing.T) {
	// The gRPC library's client sends at most one ping per 10 s, so the test writes the HTTP/2 frames itself.
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, servertest.NewStudio())
		for interval, allowed := range map[time.Duration]bool{keepaliveMinimum: true, keepaliveMinimum - time.Second: false} {
			conn := dialPipe(t, s.GRPCPipe)
			_, _ = io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00") // client preface and an empty SETTINGS frame
			said := make(chan string, 1)
			go func() {
				all, _ := io.ReadAll(conn)
				said <- string(all)
			}()
			for range 10 {
				time.Sleep(interval)
				_, _ = io.WriteString(conn, "\x00\x00\x08\x06\x00\x00\x00\x00\x00pingping")
			}
			conn.Close()
			if cut := strings.Contains(<-said, "too_many_pings"); cut == allowed {
				t.Errorf("pings every %v: the connection was cut: %v", interval, cut)
			}
		}
	})
}

func TestOldConnectionIsReplacedWhileItsStreamsContinue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		studio := servertest.NewStudio()
		studio.Watch = watchUntilLeft
		s := serve(t, studio)
		accepted := 0
		conn := servertest.Dial(t, s.GRPCPipe, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			accepted++
			return s.GRPCPipe.DialContext(ctx)
		}))
		defer conn.Close()
		client := easelv1.NewGenerationServiceClient(conn)
		stream, err := client.WatchGeneration(servertest.WithKey(t.Context()), &easelv1.WatchGenerationRequest{GenerationId: "g"})
		if err != nil {
			t.Fatal(err)
		}
		call := func() {
			t.Helper()
			if _, err := client.GetGeneration(servertest.WithKey(t.Context()), &easelv1.GetGenerationRequest{GenerationId: "g"}); err != nil {
				t.Fatal(err)
			}
		}
		age := Limits{}.connAge()
		time.Sleep(age * 85 / 100) // less than the maximum age, which the gRPC library reduces or increases by up to 10 percent
		call()
		if accepted != 1 {
			t.Errorf("before the maximum age, got %d connections, want 1", accepted)
		}
		time.Sleep(age * 30 / 100)
		call()
		if accepted != 2 || stream.Context().Err() != nil {
			t.Errorf("after the maximum age, got %d connections, and the stream error is %v", accepted, stream.Context().Err())
		}
	})
}

func TestCallAboveConnectionStreamLimitWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		studio := servertest.NewStudio()
		studio.Get = func(context.Context, *easelv1.GetGenerationRequest) (*easelv1.GetGenerationResponse, error) {
			time.Sleep(time.Second)
			return &easelv1.GetGenerationResponse{}, nil
		}
		s := serve(t, studio, func(c *Config) { c.Limits.CallerStreams = 1 })
		most := int(Limits{CallerStreams: 1}.streamsPerConn())
		began := time.Now()
		took := make(chan time.Duration, most+1)
		for range most + 1 {
			go func() {
				if _, err := s.Generations().GetGeneration(servertest.WithKey(t.Context()), &easelv1.GetGenerationRequest{GenerationId: "g"}); err != nil {
					t.Error(err)
				}
				took <- time.Since(began)
			}()
		}
		for n := range most + 1 {
			want := time.Second
			if n == most {
				want = 2 * time.Second
			}
			if got := <-took; got != want {
				t.Errorf("call %d took %v, want %v", n+1, got, want)
			}
		}
	})
}

func TestConnectionWithIncompleteBodyIsClosed(t *testing.T) {
	for _, test := range []struct {
		name, header string
		code         int
	}{
		{"valid request", "Authorization: Bearer key\r\n", http.StatusRequestTimeout},
		{"request without credentials", "", http.StatusUnauthorized},
		{"unsupported content type", "Authorization: Bearer key\r\nContent-Type: text/plain\r\n", http.StatusUnsupportedMediaType},
		{"foreign origin", "Origin: http://evil.test\r\n", http.StatusForbidden},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, servertest.NewStudio())
				conn := dialPipe(t, s.HTTPPipe)
				defer conn.Close()
				began := time.Now()
				_, err := io.WriteString(conn, "POST /v1/generations HTTP/1.1\r\nHost: easel.test\r\n"+test.header+"Content-Length: 100\r\n\r\n{\"modelId\":")
				if err != nil {
					t.Fatal(err)
				}
				all := bufio.NewReader(conn)
				answer, err := http.ReadResponse(all, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer answer.Body.Close()
				if answer.StatusCode != test.code {
					t.Errorf("the response is %s", answer.Status)
				}
				if _, err := io.Copy(io.Discard, all); err != nil { // Copy returns when the server closes the connection
					t.Fatal(err)
				}
				if took := time.Since(began); took > rest.RequestTimeout+time.Second {
					t.Errorf("the connection was held for %v", took)
				}
			})
		})
	}
}

func TestConnectionWithIncompleteHeadersIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, servertest.NewStudio())
		conn := dialPipe(t, s.HTTPPipe)
		defer conn.Close()
		began := time.Now()
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost:"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(conn); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != headerTimeout {
			t.Errorf("the connection was held for %v", took)
		}
	})
}

func TestListenersHaveALimitOfConnections(t *testing.T) {
	const limit = 3
	for name, row := range map[string]struct {
		max  int
		pipe func(*site) *proctest.Pipe
	}{
		"gRPC":  {limit, func(s *site) *proctest.Pipe { return s.GRPCPipe }},
		"HTTP":  {limit, func(s *site) *proctest.Pipe { return s.HTTPPipe }},
		"admin": {operatorConns, func(s *site) *proctest.Pipe { return s.AdminPipe }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, servertest.NewStudio(), func(c *Config) { c.Limits.Conns = limit })
				dial := func() net.Conn {
					t.Helper()
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					conn, err := row.pipe(s).DialContext(ctx)
					if err != nil {
						return nil
					}
					t.Cleanup(func() { conn.Close() })
					return conn
				}
				var first net.Conn
				for n := range row.max {
					conn := dial()
					if conn == nil {
						t.Fatalf("connection %d was not accepted", n+1)
					}
					if n == 0 {
						first = conn
					}
				}
				if dial() != nil {
					t.Error("a connection above the limit was accepted")
				}
				first.Close()
				synctest.Wait()
				if dial() == nil {
					t.Error("after a connection was closed, a new one was not accepted")
				}
			})
		})
	}
}

func TestRESTDownloadMayStallForUpToTwoMinutes(t *testing.T) {
	files := newTLSFiles(t, "server")
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const size = 1 << 20 // much larger than the buffers between server and client
				studio, ended := servertest.NewStudio(), make(chan struct{})
				studio.OpenContent = func(ctx context.Context, _ *easelv1.DownloadGenerationRequest) (*service.Content, error) {
					context.AfterFunc(ctx, func() { close(ended) })
					return &service.Content{Info: &easelv1.ContentInfo{SizeBytes: proto.Int64(size)}, Body: io.NopCloser(bytes.NewReader(make([]byte, size)))}, nil
				}
				s := serve(t, studio, func(c *Config) { c.TLS = files.TLS })
				transport := &http.Transport{ // with small buffers, so that the download stalls soon after the client stops reading
					DialContext: servertest.PipeDialer(s.HTTPPipe), TLSClientConfig: files.clientConfig(t, nil), ForceAttemptHTTP2: http2, DisableCompression: true,
					HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10, MaxReceiveBufferPerConnection: 128 << 10},
				}
				defer transport.CloseIdleConnections()
				r := servertest.Request(t, http.MethodGet, "/v1/generations/g/content", "")
				r.URL.Scheme = "https"
				answer, err := transport.RoundTrip(r)
				if err != nil || (answer.ProtoMajor == 2) != http2 {
					t.Fatal(answer, err)
				}
				defer answer.Body.Close()
				time.Sleep(service.DefaultDownloadTimeout - time.Second) // just less than the longest pause in reading that the server allows
				if _, err := io.CopyN(io.Discard, answer.Body, size/2); err != nil {
					t.Fatalf("after a pause of two minutes the download failed: %v", err)
				}
				synctest.Wait()
				stuck := time.Now()
				<-ended
				if took := time.Since(stuck); took != service.DefaultDownloadTimeout {
					t.Errorf("a stuck download was freed after %v", took)
				}
				time.Sleep(5 * time.Second) // the server may take up to 5 s to close a TLS connection, because it first tries to send a close message
				synctest.Wait()
				if lines := s.Lines(t, "call"); len(lines) != 1 || lines[0]["reason"] != "READER_TOO_SLOW" {
					t.Errorf("the call is logged as %v, want READER_TOO_SLOW", lines)
				}
				if n, err := io.Copy(io.Discard, answer.Body); err == nil {
					t.Errorf("the download ended without an error after %d more bytes", n)
				}
			})
		})
	}
}
