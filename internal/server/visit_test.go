package server

import (
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/easel-grpc/easel/internal/server/servertest"
)

// unreadStreams opens a connection over HTTP/2 that takes nothing of any answer, and makes so many requests on it. It counts
// the streams that the server ends without an answer.
func unreadStreams(t *testing.T, s *site, config *tls.Config, many int, method, path string) (conn io.Closer, reset map[uint32]bool) {
	t.Helper()
	raw, err := s.HTTPPipe.DialContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	config.NextProtos = []string{"h2"}
	secure := tls.Client(raw, config)
	var headers bytes.Buffer
	encoder := hpack.NewEncoder(&headers)
	framer := http2.NewFramer(secure, secure)
	if _, err = io.WriteString(secure, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
		t.Fatal(err)
	}
	reset = map[uint32]bool{}
	go func() {
		for {
			frame, err := framer.ReadFrame()
			if err != nil {
				return
			}
			if frame, ended := frame.(*http2.RSTStreamFrame); ended {
				reset[frame.StreamID] = true
			}
		}
	}()
	for n := range many {
		headers.Reset()
		for _, field := range [][2]string{{":method", method}, {":scheme", "https"}, {":authority", "localhost"}, {":path", path}} {
			if err := encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
				t.Fatal(err)
			}
		}
		err := framer.WriteHeaders(http2.HeadersFrameParam{
			StreamID: uint32(2*n + 1), BlockFragment: headers.Bytes(), EndHeaders: true, EndStream: method == http.MethodGet,
		})
		if err == nil && method != http.MethodGet && n < 16 {
			err = framer.WriteData(uint32(2*n+1), false, make([]byte, 1<<10))
		}
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
	}
	return secure, reset
}

func TestAnswersOverHTTPThatNobodyReadsAreCountedByTheirAddress(t *testing.T) { // D3
	for name, test := range map[string]struct {
		method, path    string
		pages, refusals int
	}{
		"a page":                 {http.MethodGet, "/openapi.json", addressCalls, addressRefusals},
		"no credential":          {http.MethodGet, "/v1/account", 0, addressRefusals},
		"no route":               {http.MethodGet, "/nothing", 0, addressRefusals},
		"a body that is refused": {http.MethodPost, "/v1/generations", 0, addressRefusals},
	} {
		t.Run(name, func(t *testing.T) {
			files := newTLSFiles(t, "server")
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, servertest.NewStudio(), func(c *Config) { c.TLS = files.TLS })
				const each = 1000
				ended := make([]map[uint32]bool, 2)
				for n := range ended {
					conn, reset := unreadStreams(t, s, files.clientConfig(t, nil), each, test.method, test.path)
					defer conn.Close()
					ended[n] = reset
				}
				if s.door.pages.inUse() != test.pages || s.door.refusals.inUse() != test.refusals {
					t.Errorf("%d pages and %d refusals wait, want %d and %d", s.door.pages.inUse(), s.door.refusals.inUse(), test.pages, test.refusals)
				}
				all, want := len(ended[0])+len(ended[1]), 2*each-test.pages-test.refusals
				if all != want {
					t.Errorf("%d streams are ended at once, want %d", all, want)
				}
				client := &http.Client{Transport: &http.Transport{DialContext: servertest.PipeDialer(s.HTTPPipe), TLSClientConfig: files.clientConfig(t, nil), ForceAttemptHTTP2: true}}
				defer client.CloseIdleConnections()
				good := servertest.Request(t, http.MethodGet, "/v1/generations/g", "")
				good.URL.Scheme = "https"
				if answer, body := servertest.Do(t, client, good); answer.StatusCode != http.StatusOK || answer.ProtoMajor != 2 {
					t.Errorf("a call meanwhile is answered %s %s: %s", answer.Proto, answer.Status, body)
				}
				time.Sleep(writeTimeout + time.Second)
				synctest.Wait()
				if s.door.pages.inUse()+s.door.refusals.inUse() != 0 {
					t.Errorf("after %v %d pages and %d refusals wait", writeTimeout, s.door.pages.inUse(), s.door.refusals.inUse())
				}
			})
		})
	}
}
