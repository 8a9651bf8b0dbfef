package sandbox_test

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/sandbox"
)

func TestServerClosesSlowAndIdleConnections(t *testing.T) {
	for name, test := range map[string]struct {
		request, status string
		after           time.Duration
	}{
		"incomplete headers":    {"POST / HTTP/1.1\r\nHost: x\r\n", "", 10 * time.Second},
		"idle after a response": {"GET " + sandbox.BasePath + "/me HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 401", 2 * time.Minute},
		"oversized headers":     {"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", "HTTP/1.1 431", 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newAccount(t, sandbox.Config{})
				listener, server := proctest.NewPipe(1<<20), b.s.Server(false)
				go server.Serve(listener)
				defer server.Close()
				conn, err := listener.Dial()
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				start := time.Now()
				if _, err := io.WriteString(conn, test.request); err != nil {
					t.Fatal(err)
				}
				response, _ := io.ReadAll(conn) // ReadAll returns when the server closes the connection
				if !strings.HasPrefix(string(response), test.status) || test.status == "" && len(response) > 0 {
					t.Errorf("response %.40q, want %q", response, test.status)
				}
				if after := time.Since(start); after < test.after-time.Second || after > test.after+time.Second {
					t.Errorf("closed after %v, want %v", after, test.after)
				}
			})
		})
	}
}
