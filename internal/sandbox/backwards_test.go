package sandbox_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/easel-grpc/easel/internal/sandbox"
)

// While generations change their states, callers read single generations and lists.
func TestGenerationStateNeverRegressesForReaders(t *testing.T) {
	sh := newAccount(t, sandbox.Config{Seed: 5, Speed: 3000, RefundDelay: 5 * time.Second, FailureRate: 0.5})
	var steps atomic.Int64
	var group errgroup.Group
	for range 4 {
		group.Go(func() error {
			for range 30 {
				id := sh.create(haiku)
				last := 0
				for last < 2 {
					for _, path := range []string{"/generations/" + id, "/generations"} {
						_, after, _ := strings.Cut(string(sh.do("GET", path, "").body), `"id":"`+id+`"`)
						_, after, _ = strings.Cut(after, `"status":"`)
						status, _, _ := strings.Cut(after, `"`)
						now, known := map[string]int{"queued": 0, "failed": 1, "succeeded": 2, "refunded": 2}[status]
						if !known || now < last {
							return fmt.Errorf("%s: got the status %q, which is unknown or earlier than state %d", path, status, last)
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
		t.Errorf("the statuses advanced by %d steps, want 240", steps.Load())
	}
}
