package watch

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/limiter"
)

var (
	seeds    = flag.Uint64("seeds", 0, "Number of random runs. Zero selects a number that takes a few seconds.")
	fromSeed = flag.Uint64("from-seed", 1, "Seed of the first random run.")
)

func TestARandomRunDeliversInOrderToTheEndWithinTheBudget(t *testing.T) {
	many := *seeds
	if many == 0 {
		if many = 300; testing.Short() {
			many = 30
		}
	}
	for seed := *fromSeed; seed < *fromSeed+many && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) {
			c := newChaos(t, seed)
			c.run()
		})
		if t.Failed() {
			t.Logf("again: go test ./internal/watch -run ARandomRun -seeds 1 -from-seed %d", seed)
		}
	}
}

// chaos is a random run with two credentials. The catalogs and their watchers act at random.
type chaos struct {
	t       *testing.T
	random  *rand.Rand
	hub     *Hub
	cfg     Config
	worlds  []*world
	all     worlds
	watches []*viewer
	work    sync.WaitGroup
	created int
}

func newChaos(t *testing.T, seed uint64) *chaos {
	c := &chaos{t: t, random: randomFor(seed, "chaos"), all: worlds{}}
	creds := []catalog.Credential{
		catalog.Forwarded(catalog.NewSecret("one")),
		catalog.Shared(func() catalog.Secret { return catalog.NewSecret("two") }),
	}
	for i, name := range []string{"first", "second"} {
		w := newWorld(t, name, creds[i], randomFor(seed, name))
		for n := range 2 + c.random.IntN(10) { // both worlds use the same IDs
			w.add(fmt.Sprintf("g%02d", n), fmt.Sprintf("m%d", c.random.IntN(3)), time.Now())
		}
		c.worlds, c.all[w.cred.Tenant] = append(c.worlds, w), w
	}
	c.cfg = Config{
		Upstream: Limited(c.all), Seed: seed, Rate: []float64{1, 5, 20}[c.random.IntN(3)],
		MinInterval: []time.Duration{time.Second, 300 * time.Millisecond}[c.random.IntN(2)], RefundWindow: time.Minute,
	}
	hub, err := New(c.cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.hub = hub
	return c
}

func (c *chaos) run() {
	defer c.hub.Close()
	for range 20 + c.random.IntN(60) {
		w := c.worlds[c.random.IntN(2)]
		c.step(w)
		synctest.Wait()
		c.checkShape()
		time.Sleep(time.Duration(c.random.ExpFloat64() * float64(2*time.Second)))
		c.checkShape()
	}
	for _, w := range c.worlds {
		w.heal()
	}
	time.Sleep(6 * time.Minute)
	synctest.Wait()
	for _, s := range c.watches {
		s.checkNewest()
	}
	if c.cfg.Rate > 1 { // at a lower rate, single reads would notice a refund too late
		for _, w := range c.worlds {
			w.calm = time.Now()
		}
	}
	for range 3 { // until all generations have ended, including refunds
		for _, w := range c.worlds {
			w.goOn()
		}
		time.Sleep(20 * time.Second)
	}
	time.Sleep(8 * time.Minute)
	synctest.Wait()
	for _, s := range c.watches {
		s.checkNewest()
		s.checkOver()
	}
	c.leave()
}

// leave ends all watches, and checks that the hub keeps nothing about them.
func (c *chaos) leave() {
	for _, s := range c.watches {
		s.cancel()
	}
	c.work.Wait()
	synctest.Wait()
	calls := 0
	for _, w := range c.worlds {
		w.checkBudget(c.cfg.Rate)
		calls -= len(w.requests)
	}
	time.Sleep(10 * time.Minute)
	for _, w := range c.worlds {
		calls += len(w.requests)
	}
	if s := c.hub.Stats(); s.Pollers+s.Generations+calls != 0 {
		c.t.Errorf("ten minutes after the last watch there are %d pollers and %d generations, and were %d polls", s.Pollers, s.Generations, calls)
	}
	for _, s := range c.watches {
		s.checkDelivered()
	}
}

// step performs one action of a world or a watcher.
func (c *chaos) step(w *world) {
	switch n := c.random.IntN(20); {
	case n < 4:
		c.attach(w, w.pick(1))
	case n < 6:
		c.attach(w, w.pick(2+c.random.IntN(12)))
	case n < 7:
		c.attach(w, nil)
	case n < 8 && len(c.watches) > 0:
		c.watches[c.random.IntN(len(c.watches))].cancel()
	case n < 10:
		c.get(w)
	case n < 11:
		c.create(w)
	case n < 12:
		c.call(w)
	case n < 13:
		c.remove(w)
	case n < 16:
		w.trouble(c.random)
	default:
		w.change(c.random)
	}
}

// attach starts a watch with random options.
func (c *chaos) attach(w *world, ids []string) {
	ctx, cancel := context.WithCancel(c.t.Context())
	s := &viewer{
		t: c.t, name: fmt.Sprintf("watch %d of %v of the %s", len(c.watches), ids, w.name), world: w, window: c.cfg.RefundWindow,
		cancel: cancel, generations: map[string]*story{}, caughtUp: -1,
		req: Request{Credential: w.cred, IDs: ids, Goal: Goal(c.random.IntN(2)), Heartbeat: time.Duration(1+c.random.IntN(15)) * time.Second},
	}
	if c.random.IntN(6) == 0 {
		s.slow = 20 * time.Second
	}
	s.req.KnownEtags = c.known(w, ids)
	c.watches = append(c.watches, s)
	w.cover(ids, 1)
	c.work.Go(func() {
		defer w.cover(ids, -1)
		s.began, s.last = time.Now(), time.Now()
		s.end(c.hub.Watch(ctx, &s.req, s.take))
	})
}

// known returns some of the etags that the world's watches have received. If ids is empty, the etags may be of any
// generations.
func (c *chaos) known(w *world, ids []string) map[string]string {
	known := map[string]string{}
	for _, s := range c.watches {
		if s.world != w || c.random.IntN(3) > 0 {
			continue
		}
		s.mu.Lock()
		for id, story := range s.generations {
			if len(ids) == 0 || slices.Contains(ids, id) {
				known[id] = story.etag
			}
		}
		s.mu.Unlock()
	}
	return known
}

// get reads a generation from the hub, or from the catalog through the hub.
func (c *chaos) get(w *world) {
	id := w.pick(1)[0]
	if update, ok := c.hub.Peek(w.cred, id); ok && c.random.IntN(2) == 0 {
		w.checkSaid(update)
		return
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	c.work.Go(func() {
		defer cancel()
		permit, err := c.cfg.Upstream.Limiter(w.cred.Tenant).Acquire(ctx, limiter.Request{Class: limiter.Read})
		if err != nil {
			return
		}
		g, err := w.read(ctx, id, 20*time.Millisecond)
		permit.Release(catalog.ResultOf(err))
		c.hub.Called(w.cred, err)
		if err == nil {
			w.checkSaid(c.hub.Observe(context.Background(), w.cred, g.Version(), true))
		} else if update, ok := c.hub.NotYetVisible(w.cred, id); ok {
			w.checkSaid(update)
		}
	})
}

// create places an order. The catalog may not show its generation immediately.
func (c *chaos) create(w *world) {
	c.created++
	id := fmt.Sprintf("n%03d", c.created)
	w.mu.Lock()
	visible := time.Now().Add(time.Duration(max(0, c.random.IntN(50)-25)) * time.Second)
	w.add(id, "m0", visible)
	g := w.record(id, w.has[id], false)
	w.kept[id] = w.cred.IsShared()
	w.mu.Unlock()
	c.hub.Created(context.Background(), w.cred, g, "m0", time.Now())
	if c.random.IntN(2) == 0 {
		c.attach(w, []string{id})
	}
}

// call sends a request through the hub, which may fail with a 429.
func (c *chaos) call(w *world) {
	_, closed := c.cfg.Upstream.Limiter(w.cred.Tenant).Pause()
	throttled := c.random.IntN(3) == 0 && !closed
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	c.hub.Call(ctx, w.cred, func() error {
		if !throttled {
			return nil
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.throttle()
	})
}

// remove deletes a generation through the hub or directly in the catalog.
func (c *chaos) remove(w *world) {
	id := w.pick(1)[0]
	w.mu.Lock()
	r := w.has[id]
	if r != nil {
		r.deleted = true
		w.denied[id] = true
	}
	w.mu.Unlock()
	if r != nil && c.random.IntN(2) == 0 {
		c.hub.Deleted(context.Background(), w.cred, id)
	}
}

// checkShape checks that the hub's data structures are consistent.
func (c *chaos) checkShape() {
	c.hub.mu.Lock()
	tenants := slices.Collect(maps.Values(c.hub.tenants))
	c.hub.mu.Unlock()
	for _, one := range tenants {
		one.mu.Lock()
		c.checkTenant(one, time.Now())
		one.mu.Unlock()
	}
}

func (c *chaos) checkTenant(one *tenant, now time.Time) {
	flying, watchers := 0, map[*watcher]bool{}
	for _, e := range one.order {
		if one.generations[e.id] != e {
			c.t.Errorf("%s is out of its place", e.id)
		}
		swept := one.list.sweep != nil && slices.Contains(one.list.sweep.generations, e)
		if e.polling.inFlight && !swept {
			flying++
		}
		if swept && !e.polling.inFlight {
			c.t.Errorf("%s waits for a sweep that is not under way", e.id)
		}
		c.checkQueued(one, e, now)
		for back, w := range e.subscribers {
			watchers[w.watcher] = true
			if it := w.subscriptions[w.at]; it.e != e || int(it.subscriberAt) != back {
				c.t.Errorf("%s and a watch of it do not agree", e.id)
			}
		}
	}
	if len(one.order) != len(one.generations) || flying != one.inFlight {
		c.t.Errorf("%d generations in order of %d, %d on their way of %d", len(one.order), len(one.generations), flying, one.inFlight)
	}
	for w := range watchers {
		c.checkCounts(w)
	}
}

// checkQueued checks that a generation with a subscriber is in the queue of polls.
func (c *chaos) checkQueued(one *tenant, e *generation, now time.Time) {
	at := int(e.polling.queueIndex)
	if at >= 0 && (at >= len(one.queue.heap) || one.queue.heap[at] != e) {
		c.t.Errorf("%s has the place of another one in the queue", e.id)
	}
	if one.wanted(e, now) && !e.polling.inFlight && at < 0 {
		c.t.Errorf("%s is waited for, and is not in the queue", e.id)
	}
	if at >= 0 && (e.polling.inFlight || len(e.subscribers) == 0 && !e.kept) {
		c.t.Errorf("%s is in the queue, and nobody waits for a poll of it", e.id)
	}
}

// checkCounts compares a watch's counters with its generations.
func (c *chaos) checkCounts(s *watcher) {
	var open, first, marked int
	for at, it := range s.subscriptions {
		if it.e != nil {
			open++
		}
		if it.flags&pending != 0 {
			first++
		}
		if it.flags&dirty != 0 {
			marked++
			if !slices.Contains(s.dirty, int32(at)) {
				c.t.Error("a change waits where nobody looks")
			}
		}
	}
	if open != s.unreached || first != s.pending || marked != len(s.dirty) {
		c.t.Errorf("a watch counts %d open, %d first, %d changes; there are %d, %d, %d",
			s.unreached, s.pending, len(s.dirty), open, first, marked)
	}
}
