package sandbox_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/sandbox"
)

// rig is a sandbox and an API key with a large balance, for benchmarks.
type rig struct {
	b   *testing.B
	s   *sandbox.Sandbox
	key string
	n   int // number of the last Idempotency-Key
}

func openRig(b *testing.B, cfg sandbox.Config) *rig {
	b.Helper()
	cfg.Seed = 1
	s, err := sandbox.Open(cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	key, err := s.CreateKey(b.Context(), sandbox.KeyConfig{BalanceCents: 1 << 40})
	if err != nil {
		b.Fatal(err)
	}
	return &rig{b: b, s: s, key: key}
}

// request returns a request. If it has a body, it has a new Idempotency-Key.
func (st *rig) request(method, path, body string) *http.Request {
	r := httptest.NewRequest(method, sandbox.BasePath+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+st.key)
	if body != "" {
		st.n++
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", fmt.Sprintf("key-%d", st.n))
	}
	return r
}

// send calls the handler. Its cost includes about 3 µs for the request and the recorder.
func (st *rig) send(method, path, body string) string {
	w := httptest.NewRecorder()
	st.s.ServeHTTP(w, st.request(method, path, body))
	if w.Code >= 400 {
		st.b.Fatal(w.Code, w.Body)
	}
	return w.Body.String()
}

func (st *rig) create(body string) (id string) {
	_, id, _ = strings.Cut(st.send("POST", "/generations", body), `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	return id
}

// BenchmarkRequests measures the cost of a request in a simulation of years.
func BenchmarkRequests(b *testing.B) {
	for _, where := range []string{"memory", "file"} {
		b.Run(where, func(b *testing.B) {
			cfg := sandbox.Config{Speed: 0.001}
			if where == "file" {
				cfg.Path = filepath.Join(b.TempDir(), "catalog.db")
			}
			benchmarkRequests(b, openRig(b, cfg))
		})
	}
}

func benchmarkRequests(b *testing.B, st *rig) {
	for range 150 {
		st.create(haiku)
	}
	id := st.create(haiku)
	for _, c := range []struct{ name, method, path, body string }{
		{"me", "GET", "/me", ""},
		{"models", "GET", "/models", ""},
		{"quote", "POST", "/quote", haiku},
		{"get", "GET", "/generations/" + id, ""},
		{"list", "GET", "/generations", ""},
		{"create", "POST", "/generations", haiku},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				st.send(c.method, c.path, c.body)
			}
		})
	}
	b.Run("list-after-create", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			st.send("POST", "/generations", haiku)
			st.send("GET", "/generations", "")
		}
	})
}

// BenchmarkOverHTTP measures the same with a net/http server, on an in-memory connection.
func BenchmarkOverHTTP(b *testing.B) {
	st := openRig(b, sandbox.Config{Speed: 0.001})
	for range 150 {
		st.create(haiku)
	}
	id := st.create(haiku)
	ours, theirs := net.Pipe()
	listener := newPipes()
	server := &http.Server{Handler: st.s}
	go server.Serve(listener)
	listener.conns <- theirs
	defer server.Close()
	reader, buffer := bufio.NewReader(ours), bytes.Buffer{}
	for _, path := range []string{"/generations/" + id, "/generations"} {
		b.Run("GET "+strings.Replace(path, id, "{id}", 1), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				fmt.Fprintf(ours, "GET %s HTTP/1.1\r\nHost: c\r\nAuthorization: Bearer %s\r\n\r\n", sandbox.BasePath+path, st.key)
				res, err := http.ReadResponse(reader, nil)
				if err != nil {
					b.Fatal(err)
				}
				buffer.Reset()
				buffer.ReadFrom(res.Body)
			}
		})
	}
}

// BenchmarkLives measures a render from its order to its end, with all work of the sandbox for it: the order, the
// picture or text, the refund.
func BenchmarkLives(b *testing.B) {
	for _, c := range []struct{ name, order string }{
		{"haiku", haiku},
		{"failed", doomed},
		{"essay", `{"modelId":"studio/essay","inputs":{"prompt":"the sea"}}`},
		{"essay-of-200", `{"modelId":"studio/essay","inputs":{"prompt":"the sea","paragraphs":200}}`},
		{"landscape", small},
		{"draft", `{"modelId":"studio/landscape","inputs":{"prompt":"a lake","size":"64x40","quality":"draft"}}`},
		{"abstract", `{"modelId":"studio/abstract","inputs":{"prompt":"a lake","size":"64x40"}}`},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkRender(b, c.order) })
	}
}

// benchmarkRender waits for the end of each render before it orders the next.
func benchmarkRender(b *testing.B, order string) {
	st := openRig(b, sandbox.Config{Speed: 1e9, RefundDelay: 1})
	b.ReportAllocs()
	for b.Loop() {
		id := st.create(order)
		for polls := 0; ; polls++ {
			if got := st.send("GET", "/generations/"+id, ""); strings.Contains(got, `"succeeded"`) || strings.Contains(got, `"refunded"`) {
				break
			}
			runtime.Gosched()
		}
	}
}

func BenchmarkOpenAndClose(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		s, err := sandbox.Open(sandbox.Config{Seed: 1})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
