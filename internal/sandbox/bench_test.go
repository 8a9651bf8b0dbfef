package sandbox_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/sandbox"
)

// BenchmarkRequests is what a simulation of years pays for each request.
func BenchmarkRequests(b *testing.B) {
	for _, where := range []string{"memory", "file"} {
		path := ""
		if where == "file" {
			path = filepath.Join(b.TempDir(), "catalog.db")
		}
		s, err := sandbox.Open(sandbox.Config{Path: path, Seed: 1, Speed: 0.001})
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		key, err := s.CreateKey(b.Context(), sandbox.KeyConfig{BalanceCents: 1 << 40})
		if err != nil {
			b.Fatal(err)
		}
		send := func(method, path, body string, i int) *httptest.ResponseRecorder {
			r := httptest.NewRequest(method, sandbox.BasePath+path, strings.NewReader(body))
			r.Header.Set("Authorization", "Bearer "+key)
			r.Header.Set("Content-Type", "application/json")
			if method == http.MethodPost {
				r.Header.Set("Idempotency-Key", fmt.Sprintf("%s-%s-%d-%d", where, b.Name(), b.N, i))
			}
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if w.Code >= 400 {
				b.Fatal(w.Code, w.Body)
			}
			return w
		}
		create := func(i int) string {
			w := send("POST", "/generations", `{"modelId":"studio/haiku","inputs":{"prompt":"sea"}}`, i)
			_, id, _ := strings.Cut(w.Body.String(), `"id":"`)
			id, _, _ = strings.Cut(id, `"`)
			return id
		}
		for i := range 150 {
			create(-i - 1)
		}
		id := create(-1000)
		b.Run(where+"/create", func(b *testing.B) {
			for i := range b.N {
				create(b.N*1000 + i)
			}
		})
		b.Run(where+"/get", func(b *testing.B) {
			for i := range b.N {
				send("GET", "/generations/"+id, "", i)
			}
		})
		b.Run(where+"/list", func(b *testing.B) {
			for i := range b.N {
				send("GET", "/generations", "", i)
			}
		})
	}
}

// benchmarkRender measures a render from its order to its end, storage included.
func benchmarkRender(b *testing.B, order string) {
	s, err := sandbox.Open(sandbox.Config{Seed: 1, Speed: 1e9})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	key, err := s.CreateKey(b.Context(), sandbox.KeyConfig{BalanceCents: 1 << 40})
	if err != nil {
		b.Fatal(err)
	}
	send := func(method, path string) string {
		r := httptest.NewRequest(method, sandbox.BasePath+path, strings.NewReader(order))
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Body.String()
	}
	for b.Loop() {
		_, id, _ := strings.Cut(send("POST", "/generations"), `"id":"`)
		id, _, _ = strings.Cut(id, `"`)
		for !strings.Contains(send("GET", "/generations/"+id), "succeeded") {
			time.Sleep(time.Millisecond)
		}
		send("DELETE", "/generations/"+id)
	}
}
