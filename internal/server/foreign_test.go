package server_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// crowd returns a callers file with n teams. The first team orders, and the others own nothing.
func crowd(t *testing.T, n int) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "callers")
	lines := "callers:\n"
	for i := range n {
		name := fmt.Sprint("team-", i)
		lines += fmt.Sprintf("  - {name: %s, tokens: [sha256:%x]}\n", name, sha256.Sum256([]byte(name)))
	}
	writeText(t, file, lines)
	return file
}

// delivered counts the messages of watches: updates, and the generations of each watch.
type delivered struct {
	atomic.Int64
	generations atomic.Int64
}

// everythingOf opens watches of everything, and waits for their first states.
func everythingOf(t *testing.T, c caller, n int) (updates *delivered) {
	t.Helper()
	updates = new(delivered)
	caughtUp := make(chan int32, n)
	for range n {
		ctx, leave := context.WithCancel(t.Context())
		t.Cleanup(leave)
		go func() {
			seen := map[string]bool{}
			_ = c.watchMany(ctx, &easelv1.WatchGenerationsRequest{}, func(m *easelv1.WatchGenerationsResponse) bool {
				if update := m.GetUpdate(); update != nil {
					updates.Add(1)
					if id := update.GetGeneration().GetGenerationId(); !seen[id] {
						seen[id] = true
						updates.generations.Add(1)
					}
				}
				if m.GetCaughtUp() != nil {
					caughtUp <- m.GetCaughtUp().GetGenerationCount()
				}
				return true
			})
		}()
	}
	for range n {
		select {
		case <-caughtUp:
		case <-time.After(time.Minute):
			t.Fatal("a watch does not catch up")
		}
	}
	return updates
}

func TestAListThatIsTooLargeSilencesNoTeam(t *testing.T) { // D8
	file := crowd(t, 2)
	synctest.Test(t, func(t *testing.T) {
		s := heldStackFrom(t, file, func(o *options) { o.memory, o.sandbox.Speed = true, 0.001 })
		c := grpcCaller{s, "team-1"}
		create(t, c, order(t, text, "before", "a lake"))
		large := s.sandbox.Inject(sandbox.Fault{Route: "GET /generations", Status: 200, Body: "[" + strings.Repeat(" ", 20<<20)})
		updates := everythingOf(t, c, 1)
		if updates.Load() != 1 {
			t.Errorf("%d updates before it has caught up", updates.Load())
		}
		create(t, c, order(t, text, "after", "a lake"))
		time.Sleep(time.Minute)
		if updates.Load() < 2 || large.Fired() == 0 {
			t.Errorf("%d updates, and %d lists that are too large", updates.Load(), large.Fired())
		}
	})
}
