package orders_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/sandbox"
	"github.com/easel-grpc/easel/internal/watch"
)

// The first replica writes the end of a generation to the ledger. The second replica polls the generation only every ten
// seconds, so it must learn of the end from the ledger.
func TestWatchReceivesFinalStateFromAnotherReplica(t *testing.T) {
	for after := range 5 {
		inStackOf(t, sandbox.Config{Speed: 1e-6}, 1000, func(s *stack) {
			first, second := s.replica(), s.replica()
			g := mustPlace(s, first, "k", "a harbour")
			ctx, stop := context.WithCancel(s.Context())
			var reading sync.WaitGroup
			reading.Go(func() { second.orders.ReadChanges(ctx) })
			ends := make(chan struct{})
			reading.Go(func() {
				request := watch.Request{Credential: second.held("studio"), IDs: []string{g.ID}, Ordered: map[string]bool{g.ID: true}}
				_ = second.orders.Hub.Watch(ctx, &request, func(e watch.Event) error {
					if e.Update != nil && e.Update.State == catalog.StateFailed {
						close(ends)
					}
					return nil
				})
			})
			time.Sleep(time.Hour + time.Duration(after)*2*time.Second)
			s.box.Inject(sandbox.Fault{Route: "GET /generations/{id}", Status: http.StatusOK, Body: fmt.Sprintf(`{"id": %q, "status": "failed", "cost": 0.07}`, g.ID)})
			first.recordVersions(first.held("studio"), endedVersion(g, catalog.StateFailed, 7))
			began := time.Now()
			if <-ends; time.Since(began) > 1500*time.Millisecond {
				s.Errorf("the terminal state was delivered after %v, want at most 1.5 s", time.Since(began))
			}
			stop()
			reading.Wait()
		})
	}
}
