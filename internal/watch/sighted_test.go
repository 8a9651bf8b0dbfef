package watch

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

func TestEachNewStateIsSightedOffEveryLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &shelf{states: map[string]catalog.State{"a": catalog.StateQueued}}
		var hub *Hub
		var all []string
		hub, err := New(Config{Upstream: Limited(up), Seed: 1, Sighted: func(s Sighting) {
			hub.Peek(s.Credential, s.ID) // it takes the locks
			all = append(all, fmt.Sprint(s.ID, " ", s.State, map[bool]string{true: " by a 404"}[s.NotFound]))
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer hub.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = hub.Watch(ctx, &Request{Credential: testCred, IDs: []string{"a"}, Goal: Settled}, ignore)
		}()
		time.Sleep(10 * time.Second)
		up.set("a", catalog.StateFailed)
		time.Sleep(20 * time.Second)
		hub.Created(ctx, testCred, catalog.Generation{ID: "b", State: catalog.StateQueued}, "m", time.Now()) // as every order is
		hub.Created(ctx, testCred, catalog.Generation{ID: "c", State: catalog.StateFailed}, "m", time.Now())
		hub.Observe(ctx, testCred, catalog.Generation{ID: "d", State: catalog.StateRunning}.Version()) // it has no watch
		hub.Deleted(ctx, testCred, "d")
		cancel()
		<-done
		_ = hub.Watch(t.Context(), &Request{Credential: testCred, IDs: []string{"nobody knows"}}, ignore) // a single 404 is not conclusive
		if want := []string{"a queued", "a failed", "c failed", "d running", "d deleted"}; !slices.Equal(all, want) {
			t.Errorf("sighted were %q", all)
		}
	})
}
