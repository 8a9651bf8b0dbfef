package watch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// The tests in this file start watches while generations end. Each start and each end is at one of raceTicks points
// in time, which are raceTick apart, so that many of them coincide.
const (
	raceTick  = 10 * time.Millisecond
	raceTicks = 40
	// raceLasts is the time within which all watches must end after the last of these points. It is much longer than
	// the delay of a poll. It is shorter than the heartbeat interval, because a heartbeat would hide a missed
	// wake-up.
	raceLasts = 5 * time.Second
)

// finish is the end of a generation: its time and the final state.
type finish struct {
	at    time.Time
	state catalog.State
}

// racing is a catalog whose generations end at given times. Its responses are delayed. Half of the responses
// contain the states from the start of the request, and the other half contain the states from its end.
type racing struct {
	upstream
	finishes map[string]finish // end time and final state of each generation, keyed by generation ID
	asked    atomic.Int64
	stale    *atomic.Int64 // number of records that were outdated when they arrived
}

func (u *racing) state(id string) catalog.State {
	if end := u.finishes[id]; !time.Now().Before(end.at) {
		return end.state
	}
	return catalog.StateQueued
}

// records returns the records of the generations for which selected returns true.
func (u *racing) records(ctx context.Context, selected func(id string) bool) (all []catalog.Version, err error) {
	before := map[string]catalog.State{}
	for id := range u.finishes {
		if selected(id) {
			before[id] = u.state(id)
		}
	}
	n := u.asked.Add(1)
	if err := pause(ctx, time.Duration(n/2%4)*raceTick); err != nil {
		return nil, err
	}
	for id, then := range before {
		now := u.state(id)
		if n%2 == 0 && then != now {
			u.stale.Add(1)
			now = then
		}
		all = append(all, catalog.Generation{ID: id, ModelID: "m", State: now, Status: now.String(), ObserveTime: time.Now()}.Version())
	}
	return all, nil
}

func (u *racing) Generation(ctx context.Context, _ catalog.Credential, id string) (catalog.Version, error) {
	all, err := u.records(ctx, func(other string) bool { return other == id })
	if err != nil {
		return catalog.Version{}, err
	}
	return all[0], nil
}

func (u *racing) List(ctx context.Context, _ catalog.Credential, _ time.Time) (*catalog.List, error) {
	all, err := u.records(ctx, func(string) bool { return true })
	return catalog.NewList(all), err
}

// raced counts the results of all watches that start while their generations end.
type raced struct {
	starts               [3]int       // number of watches that started before, at and after the end of their generation
	stale                atomic.Int64 // number of records that were outdated when they arrived
	hung, wrong, leavers atomic.Int64
}

// runRace starts watches while their generations end, in simulated time. Each generation has two watches. Some
// generations have a third watch, which disconnects.
func (r *raced) runRace(t *testing.T, seed uint64, generations int) {
	synctest.Test(t, func(t *testing.T) {
		random, began := rand.New(rand.NewPCG(seed, 6)), time.Now()
		tick := func() time.Time { return began.Add(time.Duration(random.IntN(raceTicks)) * raceTick) }
		up := &racing{finishes: map[string]finish{}, stale: &r.stale}
		hub := newHub(t, Config{Upstream: withLimiters(up), Seed: seed + 1, MinInterval: 5 * raceTick, MaxInterval: 20 * raceTick, Rate: 1000})
		var ids []string
		for n := range generations {
			ids = append(ids, fmt.Sprintf("g%d", n))
			up.finishes[ids[n]] = finish{tick(), []catalog.State{succeeded, failed, refunded}[random.IntN(3)]}
		}
		ctx, giveUp := context.WithTimeout(t.Context(), raceTicks*raceTick+raceLasts)
		defer giveUp()
		var all sync.WaitGroup
		for _, id := range ids {
			end := up.finishes[id]
			for range 2 {
				from := tick()
				r.starts[1+from.Compare(end.at)]++
				all.Go(func() { r.followGeneration(ctx, hub, id, from, end) })
			}
			if from, stay := tick(), time.Duration(random.IntN(8))*raceTick; random.IntN(4) == 0 {
				all.Go(func() { r.leaveEarly(ctx, hub, id, from, stay) })
			}
		}
		all.Wait()
		giveUp()
		synctest.Wait()
	})
}

// followGeneration waits until the given time, and then watches a generation until the watch ends. It checks that the last
// delivered state is the final state of the generation.
func (r *raced) followGeneration(ctx context.Context, hub *Hub, id string, from time.Time, end finish) {
	time.Sleep(time.Until(from))
	var last catalog.State
	back := false
	err := hub.Watch(ctx, &Request{Credential: testCred, IDs: []string{id}}, func(event Event) error {
		if event.Update != nil {
			back = back || last.Terminal()
			last = event.Update.State
		}
		return nil
	})
	if err != nil {
		r.hung.Add(1)
	} else if last != end.state || back {
		r.wrong.Add(1)
	}
}

// leaveEarly waits until the given time, watches a generation for the given duration, and then disconnects.
func (r *raced) leaveEarly(ctx context.Context, hub *Hub, id string, from time.Time, stay time.Duration) {
	time.Sleep(time.Until(from))
	ctx, cancel := context.WithTimeout(ctx, stay)
	defer cancel()
	_ = hub.Watch(ctx, &Request{Credential: testCred, IDs: []string{id}}, func(Event) error { return nil })
	r.leavers.Add(1)
}

// With EASEL_SOAK=1, the test runs a million races, which takes minutes.
func TestWatchThatBeginsAsItsGenerationEndsGetsFinalState(t *testing.T) {
	races := 10_000
	if os.Getenv("EASEL_SOAK") != "" {
		races = 1_000_000
	}
	const generations = 50 // each generation has two watches
	var r raced
	for n := range races / (2 * generations) {
		r.runRace(t, uint64(n), generations)
	}
	if r.hung.Load() != 0 || r.wrong.Load() != 0 {
		t.Errorf("%d watches hung, and %d did not get the terminal state last", r.hung.Load(), r.wrong.Load())
	}
	if least := races / 100; min(slices.Min(r.starts[:]), int(r.stale.Load()), int(r.leavers.Load())) < least {
		t.Errorf("one of the situations under test occurred fewer than %d times", least)
	}
}
