package watch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

func TestTheQueueGivesDueGenerationsHoweverTheyWereMoved(t *testing.T) {
	random, begin := rand.New(rand.NewPCG(1, 2)), time.Now()
	for range 200 {
		var q queue
		generations, want := make([]*generation, 50), map[*generation]bool{}
		for i := range generations {
			generations[i] = newGeneration(fmt.Sprint(i), begin, 1)
		}
		for range 300 {
			e := generations[random.IntN(len(generations))]
			if random.IntN(4) == 0 {
				q.remove(e)
				delete(want, e)
				continue
			}
			e.polling.due = begin.Add(time.Duration(random.IntN(100)) * time.Second)
			q.put(e)
			want[e] = true
			if random.IntN(10) == 0 {
				checkDue(t, &q, want, begin.Add(time.Duration(random.IntN(100))*time.Second))
			}
		}
		checkDue(t, &q, want, begin.Add(time.Hour))
	}
}

func checkDue(t *testing.T, q *queue, want map[*generation]bool, now time.Time) {
	t.Helper()
	ready, next := q.due(now, func(e *generation) bool { return want[e] })
	for e := range want {
		if due := !e.polling.due.After(now); due && !slices.Contains(ready, e) {
			t.Fatalf("%s is due, and is not ready", e.id)
		}
	}
	for i, e := range ready {
		if !want[e] || slices.Contains(ready[:i], e) {
			t.Fatalf("%s is ready, and was taken out or is ready twice", e.id)
		}
	}
	if !next.IsZero() && !next.After(now) {
		t.Fatalf("the next is due at %v, which has come", next)
	}
}

// unlisted is a catalog that has no list, and whose generations never end.
type unlisted struct{ noAccount }

func (unlisted) Generation(_ context.Context, _ catalog.Credential, id string) (catalog.Version, error) {
	return catalog.Generation{ID: id, State: catalog.StateQueued, ObserveTime: time.Now()}.Version(), nil
}

func (unlisted) List(context.Context, catalog.Credential, time.Time) (*catalog.List, error) {
	return nil, &catalog.Error{Kind: catalog.KindContract}
}

func TestThousandsOfGenerationsAreReadAsFastAsTheBudgetAllows(t *testing.T) {
	if testing.Short() {
		t.Skip("it is of scale: .ci/nightly runs it")
	}
	synctest.Test(t, func(t *testing.T) {
		const streams, each, rate, seconds = 2, 1000, 400, 3
		hub, err := New(Config{Upstream: Limited(unlisted{}), Rate: rate, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var watches sync.WaitGroup
		for s := range streams {
			ids := make([]string, each)
			for i := range ids {
				ids[i] = fmt.Sprintf("r%d-%d", s, i)
			}
			watches.Go(func() {
				_ = hub.Watch(ctx, &Request{Credential: testCred, IDs: ids}, ignore)
			})
		}
		time.Sleep(10 * time.Second) // all generations have been read
		before := hub.Stats().Reads
		time.Sleep(seconds * time.Second)
		if reads := hub.Stats().Reads - before; reads < rate*seconds*99/100 {
			t.Errorf("%d reads in %d s", reads, seconds)
		}
		cancel()
		watches.Wait()
		hub.Close()
	})
}
