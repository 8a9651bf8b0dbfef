package sandbox

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"
)

// slowly serves a sandbox, sends it the beginning of a request, and gives what it answers and after
// how long it lets go of the connection.
func slowly(t *testing.T, handler http.Handler, request string) (answer string, after time.Duration) {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := newServer(handler)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(listener) }()
	defer func() { _ = server.Close(); <-ended }()
	conn, err := listener.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	began := time.Now()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(conn)
	return string(text), time.Since(began)
}

func TestASandboxLetsGoOfWhoIsSlowAndOfWhatIsTooLarge(t *testing.T) {
	const post = "POST " + BasePath + "/generations HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	for name, test := range map[string]struct {
		request string
		status  string // "": none
		after   time.Duration
	}{
		"headers that never end":    {"POST / HTTP/1.1\r\nHost: x\r\n", "", headerTime},
		"a body that never comes":   {post + "Content-Length: 10\r\n\r\n{", "HTTP/1.1 4", bodyTime},
		"no second request":         {"GET " + BasePath + "/me HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 401", idleTime},
		"headers that are too long": {"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 2*mostHeaders) + "\r\n\r\n", "HTTP/1.1 431", time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				box, err := Open(Config{})
				if err != nil {
					t.Fatal(err)
				}
				defer box.Close()
				key, err := box.CreateKey(t.Context(), KeyConfig{})
				if err != nil {
					t.Fatal(err)
				}
				request := strings.Replace(test.request, "Content-Length", "Authorization: Bearer "+key+"\r\nContent-Length", 1)
				answer, after := slowly(t, box, request)
				if !strings.HasPrefix(answer, test.status) || test.status == "" && answer != "" {
					t.Errorf("answered %.40q, want %q", answer, test.status)
				}
				if after > test.after+time.Second || after < test.after-time.Second {
					t.Errorf("let go after %v, want %v", after, test.after)
				}
			})
		})
	}
}

func TestAnAnswerOfTheSandboxMayTakeLongerThanABodyMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			select {
			case <-time.After(2 * bodyTime):
				_, _ = w.Write(body)
			case <-r.Context().Done():
				t.Error("the request was ended")
			}
		})
		listener := bufconn.Listen(1 << 20)
		server := newServer(slow)
		ended := make(chan struct{})
		go func() { defer close(ended); _ = server.Serve(listener) }()
		defer func() { _ = server.Close(); <-ended }()
		var conn net.Conn
		conn, err := listener.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "hello" {
			t.Errorf("answered %q, %v", text, err)
		}
	})
}
