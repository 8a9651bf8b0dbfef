package server

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server/servertest"
	"github.com/easel-grpc/easel/internal/service"
)

func TestADownloadMayPauseForTwoMinutesOverRESTToo(t *testing.T) { // fault L1
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
				transport := &http.Transport{ // buffers only a few bytes before they are read
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
				time.Sleep(service.DefaultDownloadTimeout - time.Second) // just below the longest pause that the server allows
				if _, err := io.CopyN(io.Discard, answer.Body, size/2); err != nil {
					t.Fatalf("after a pause of two minutes the download failed: %v", err)
				}
				synctest.Wait()
				stuck := time.Now()
				<-ended
				if took := time.Since(stuck); took != service.DefaultDownloadTimeout {
					t.Errorf("a stuck download was freed after %v", took)
				}
				time.Sleep(5 * time.Second) // when a TLS connection closes, it tries for up to 5 s to send its close message
				synctest.Wait()
				if lines := s.Lines(t, "call"); len(lines) != 1 || lines[0]["reason"] != "READER_TOO_SLOW" {
					t.Errorf("the call is logged as %v", lines)
				}
				if n, err := io.Copy(io.Discard, answer.Body); err == nil {
					t.Errorf("the download ended without an error after %d more bytes", n)
				}
			})
		})
	}
}
