package catalog

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testKey = "easel_live_Zk3xQ9vL2mN8"
	testURL = "https://catalog.example/api/v1/api/catalog"
)

var testCredential = Forwarded(NewSecret(testKey))

// roundTrip is a transport implemented by a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answeringTransport returns a transport that returns the same response to every request.
func answeringTransport(status int, contentType, body string) roundTrip {
	return func(r *http.Request) (*http.Response, error) {
		return reply(r, status, http.Header{"Content-Type": {contentType}}, body), nil
	}
}

func reply(r *http.Request, status int, header http.Header, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Header: header, Request: r, ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

func newTestClient(t testing.TB, transport http.RoundTripper) *Client {
	t.Helper()
	c, err := New(Config{BaseURL: testURL, Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// calls contains, for each route, a function that sends a request to the route.
var calls = map[string]func(context.Context, *Client) error{
	opAccount: func(ctx context.Context, c *Client) error { _, err := c.Account(ctx, testCredential); return err },
	opModels:  func(ctx context.Context, c *Client) error { _, err := c.Models(ctx, testCredential); return err },
	opModel:   func(ctx context.Context, c *Client) error { _, err := c.Model(ctx, testCredential, "a/b"); return err },
	opQuote: func(ctx context.Context, c *Client) error {
		_, err := c.Quote(ctx, testCredential, "a/b", []byte(`{}`))
		return err
	},
	OpCreate: func(ctx context.Context, c *Client) error {
		_, _, err := c.Post(ctx, testCredential, Order{ModelID: "a/b", Inputs: []byte(`{}`), IdempotencyKey: "k"})
		return err
	},
	opGenerations: func(ctx context.Context, c *Client) error {
		_, err := c.List(ctx, testCredential, time.Time{})
		return err
	},
	opGeneration: func(ctx context.Context, c *Client) error {
		_, err := c.Generation(ctx, testCredential, "g1")
		return err
	},
	opContent: func(ctx context.Context, c *Client) error {
		content, err := c.Content(ctx, testCredential, "g1", 0, "")
		if err == nil {
			_, err = io.Copy(io.Discard, content.Body)
			content.Body.Close()
		}
		return err
	},
	opDelete: func(ctx context.Context, c *Client) error { return c.Delete(ctx, testCredential, "g1") },
}

// asError returns err as an *Error. If err is not an *Error, the test fails.
func asError(t testing.TB, err error) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want an *Error", err)
	}
	return e
}

// wire is a server that sends raw bytes over in-memory connections, which work in a synctest bubble.
type wire struct {
	mu       sync.Mutex
	requests []*http.Request
	answer   func(n int, r *http.Request, conn net.Conn) // writes the complete response to request n, counted from 0
	reused   bool                                        // whether a connection serves more than one request
	open     atomic.Int32                                // number of open connections
}

func (w *wire) client(t testing.TB, cfg Config) *Client {
	t.Helper()
	cfg.Transport, cfg.BaseURL, cfg.AllowInsecure = poolsOf(t, w.transport()), "http://catalog.example", true
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// transport returns a transport that connects to the wire.
func (w *wire) transport() *http.Transport {
	base := NewTransport()
	base.DialContext = func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go w.serve(far)
		return near, nil
	}
	return base
}

// poolsOf returns pools for a transport. Their idle connections are closed at the end of the test.
func poolsOf(t testing.TB, base *http.Transport) *TransportPools {
	t.Helper()
	pools := NewTransportPools(base)
	t.Cleanup(pools.CloseIdleConnections)
	return pools
}

func (w *wire) serve(conn net.Conn) {
	w.open.Add(1)
	defer w.open.Add(-1)
	defer conn.Close()
	buffered := bufio.NewReader(conn)
	for again := true; again; again = w.reused {
		r, err := http.ReadRequest(buffered)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.mu.Lock()
		n := len(w.requests)
		w.requests = append(w.requests, r)
		w.mu.Unlock()
		w.answer(n, r, conn)
	}
}

func (w *wire) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.requests)
}

// The returned context is done after the duration d, or at the end of the test.
func before(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
