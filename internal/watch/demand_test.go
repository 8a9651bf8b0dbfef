package watch

import (
	"cmp"
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

func TestTheMostUrgentEntryComesFirstAndOfEqualsTheFirst(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var q queue
		var want []ranked
		add := func() {
			r := ranked{e: &entry{}, urgency: float64(dice.IntN(10)), at: len(want)}
			q, want = append(q, r), append(want, r)
		}
		for range dice.IntN(50) {
			add()
		}
		q.order()
		for range dice.IntN(10) {
			add()
			last := q[len(q)-1]
			q = q[:len(q)-1]
			q.push(last)
		}
		slices.SortFunc(want, func(a, b ranked) int { return cmp.Or(-cmp.Compare(a.urgency, b.urgency), a.at-b.at) })
		for i, r := range want {
			if got := q.pop(); got != r.e {
				t.Fatalf("place %d of %d is another's", i, len(want))
			}
		}
	}
}

// unlisted is a catalog without a list, whose renders never end.
type unlisted struct{}

func (unlisted) Generation(_ context.Context, _ catalog.Credential, id string) (catalog.Generation, error) {
	return catalog.Generation{ID: id, State: catalog.StateQueued, ObserveTime: time.Now()}, nil
}

func (unlisted) List(context.Context, catalog.Credential, *catalog.Recall) ([]catalog.Listed, error) {
	return nil, &catalog.Error{Kind: catalog.KindContract}
}

func TestThousandsOfEntriesAreAskedAFewTimesASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams, each, rate, seconds = 2, 1000, 400, 3
		hub, err := New(Config{Upstream: unlisted{}, Rate: rate, Seed: 1})
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
				_ = hub.Watch(ctx, Request{Credential: testCred, IDs: ids}, ignore)
			})
		}
		time.Sleep(10 * time.Second) // all have been read
		asked := map[*demand]bool{}
		before := hub.Stats().Reads
		for range seconds * 1000 {
			time.Sleep(time.Millisecond)
			hub.mu.Lock()
			asked[hub.pollers[testCred.Tenant].kept] = true
			hub.mu.Unlock()
		}
		reads := hub.Stats().Reads - before
		if len(asked) > seconds*6 || reads < rate*seconds*99/100 {
			t.Errorf("all were asked %d times in %d s, for %d reads", len(asked), seconds, reads)
		}
		cancel()
		watches.Wait()
		hub.Close()
	})
}

func TestAReadIsMadeInTimeWhateverTheListSaysOfTheOneBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, err := New(Config{Upstream: unlisted{}, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer hub.Close()
		hub.mu.Lock()
		p := newPoller(hub, testCred)
		hub.pollers[testCred.Tenant] = p
		req := Request{Credential: testCred, IDs: []string{"first", "second", "x", "y", "z"}}
		s := hub.subscription(t.Context(), &req)
		s.poller = p
		p.join(s, &req, time.Now())
		now := time.Now()
		for _, e := range p.order {
			p.apply(e, catalog.Generation{ID: e.id, State: catalog.StateQueued, ObserveTime: now}, &look{})
			e.gap, e.due = time.Second, now
		}
		for i, id := range []string{"first", "second"} { // they are read alone
			e := p.entries[id]
			e.alone, e.due = now.Add(time.Minute), now.Add(time.Duration(i+1)*100*time.Millisecond)
		}
		p.stir()
		hub.mu.Unlock()
		p.plan(now)
		var list []catalog.Listed
		for _, id := range []string{"first", "x", "y", "z"} {
			list = append(list, catalog.Generation{ID: id, State: catalog.StateQueued, ObserveTime: now}.Listed())
		}
		p.swept(list, nil, &look{})
		if _, next, _ := p.plan(now); next.Sub(now) > hub.cfg.MinInterval/4 {
			t.Errorf("it is due in 0.2 s, and the next plan is in %v", next.Sub(now))
		}
	})
}
