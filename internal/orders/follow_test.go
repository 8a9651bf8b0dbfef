package orders_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// watchers counts who watches which generation.
type watchers struct {
	mu  sync.Mutex
	all map[string]int
}

func (w *watchers) watch(ctx context.Context, _ catalog.Credential, id string) error {
	w.add(id, 1)
	defer w.add(id, -1)
	<-ctx.Done()
	return ctx.Err()
}

func (w *watchers) add(id string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all[id] += n
}

func (w *watchers) of(id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all[id]
}

func TestOneReplicaWatchesForThoseWhoAreTold(t *testing.T) {
	inShop(t, 1000, func(s *shop) {
		told, w := []string{"studio"}, &watchers{all: map[string]int{}}
		first, second := s.replica(), s.replica()
		for _, r := range []*replica{first, second} {
			r.orders.Told, r.orders.Watch = func() []string { w.mu.Lock(); defer w.mu.Unlock(); return slices.Clone(told) }, w.watch
		}
		mine, err := first.place("studio", "k", "a harbour")
		others, err2 := second.place("print", "k", "a harbour")
		if err != nil || err2 != nil {
			s.Fatal(err, err2)
		}
		ctx, stop := context.WithCancel(context.Background())
		var following, other sync.WaitGroup
		following.Go(func() { first.orders.Follow(ctx, first.held("")) })
		time.Sleep(5 * time.Second)
		rest, end := context.WithCancel(context.Background())
		other.Go(func() { second.orders.Follow(rest, second.held("")) })
		time.Sleep(time.Minute)
		if w.of(mine.Generation.ID) != 1 || w.of(others.Generation.ID) != 0 {
			s.Errorf("a render of those who are told has %d watchers, and another %d", w.of(mine.Generation.ID), w.of(others.Generation.ID))
		}
		stop()
		following.Wait()
		if w.of(mine.Generation.ID) != 0 {
			s.Error("it is watched at the end")
		}
		time.Sleep(30 * time.Second)
		if w.of(mine.Generation.ID) != 1 {
			s.Error("no other replica goes on")
		}
		w.mu.Lock()
		told = nil
		w.mu.Unlock()
		time.Sleep(5 * time.Second)
		if w.of(mine.Generation.ID) != 0 {
			s.Error("it is watched for somebody who is told no more")
		}
		end()
		other.Wait()
	})
}
