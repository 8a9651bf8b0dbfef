package sandbox_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/easel-grpc/easel/internal/sandbox"
)

// TestNoReaderSeesAGenerationGoBackwards runs readers of records and of lists concurrently with the renders.
func TestNoReaderSeesAGenerationGoBackwards(t *testing.T) {
	s, err := sandbox.Open(sandbox.Config{Seed: 5, Speed: 3000, RefundDelay: 5 * time.Second, FailureRate: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	key, err := s.CreateKey(t.Context(), sandbox.KeyConfig{BalanceCents: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	read := func(method, path, body string) string {
		r := httptest.NewRequest(method, sandbox.BasePath+path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Body.String()
	}
	var steps atomic.Int64
	var group errgroup.Group
	for range 4 {
		group.Go(func() error {
			for range 30 {
				_, id, _ := strings.Cut(read("POST", "/generations", haiku), `"id":"`)
				id, _, _ = strings.Cut(id, `"`)
				last := 0
				for last < 2 {
					for _, path := range []string{"/generations/" + id, "/generations"} {
						_, after, _ := strings.Cut(read("GET", path, ""), `"id":"`+id+`"`)
						_, after, _ = strings.Cut(after, `"status":"`)
						status, _, _ := strings.Cut(after, `"`)
						now, known := map[string]int{"queued": 0, "failed": 1, "succeeded": 2, "refunded": 2}[status]
						if !known || now < last {
							return fmt.Errorf("%s: %q after state %d", path, status, last)
						}
						steps.Add(int64(now - last))
						last = now
					}
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	if steps.Load() != 4*30*2 {
		t.Errorf("the readers saw %d steps", steps.Load())
	}
}
