package watch

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/limiter"
	"github.com/easel-grpc/easel/internal/watch/history"
	"github.com/easel-grpc/easel/internal/watch/schedule"
)

// Hub polls the catalog for all watches and delivers to them. Nothing else polls.
type Hub struct {
	cfg     Config
	ctx     context.Context // context of all polls; no poll uses the context of a caller
	cancel  context.CancelFunc
	work    sync.WaitGroup
	history history.Book

	dispatchers  []dispatcher  // one for each processor
	assigned     atomic.Uint32 // number of watches so far; each is assigned to the next dispatcher
	drained      atomic.Bool
	orderWatches atomic.Int64  // number of watches of orders
	replicas     atomic.Int64  // number of replicas that divide the rate of polls
	began        chan struct{} // has a value when the first poller has started; capacity 1

	mu      sync.Mutex
	closed  bool
	tenants map[catalog.Tenant]*tenant
	ended   Stats // totals of tenants that have ended
}

// New returns a hub. The hub does nothing until the first watch.
func New(cfg Config) (*Hub, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &Hub{
		cfg: cfg, ctx: ctx, cancel: cancel, dispatchers: make([]dispatcher, runtime.GOMAXPROCS(0)), tenants: map[catalog.Tenant]*tenant{},
		began: make(chan struct{}, 1),
	}
	h.replicas.Store(1)
	return h, nil
}

// Stats returns the totals of the hub. It visits every watched generation, which is cheap enough for reading metrics
// every few seconds.
func (h *Hub) Stats() Stats { return h.snapshot(false).Stats }

// Snapshot returns the state of the hub. It copies the generations that Stats only visits.
func (h *Hub) Snapshot() Snapshot {
	s := h.snapshot(true)
	s.shorten()
	return s
}

// snapshot visits all tenants. It lists the generations only if listed is true.
func (h *Hub) snapshot(listed bool) Snapshot {
	now := time.Now()
	h.mu.Lock()
	s, tenants := Snapshot{Time: now, Stats: h.ended}, slices.Collect(maps.Values(h.tenants))
	h.mu.Unlock()
	s.Stats.Replicas = int(h.replicas.Load())
	s.Stats.Rate = h.pollRate()
	s.Stats.Ready = max(1, s.Stats.Rate)
	for _, t := range tenants {
		t.mu.Lock()
		s.add(t, listed)
		t.mu.Unlock()
	}
	s.count()
	return s
}

// Close stops all polling and waits until it has stopped. Watches that are still open get no further events.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.cancel()
	h.work.Wait()
}

// Drain ends every watch with ErrDraining, including watches that start later.
func (h *Hub) Drain() {
	h.drained.Store(true)
	h.mu.Lock()
	tenants := slices.Collect(maps.Values(h.tenants))
	h.mu.Unlock()
	for _, t := range tenants {
		t.mu.Lock()
		t.endAll(ErrDraining)
		t.mu.Unlock()
	}
}

// Watch delivers the latest state of each requested generation immediately and after each change, and
// heartbeats in between. It returns nil when the goal is reached. Watch calls deliver sequentially,
// and not on the caller's goroutine. deliver may block for as long as the request allows, which does
// not delay other watches.
//
// Watch returns an error only if deliver returns one other than [ErrSkipped], a delivery stalls, ctx is done (with its
// cause), the watch reaches req.Until, the hub is drained, or the catalog rejects a forwarded API key.
// Watch repeats a panic of deliver, and does not change req.
func (h *Hub) Watch(ctx context.Context, req *Request, deliver func(Event) error) error {
	d := &delivery{observer: h.cfg.Observer, ctx: ctx, deliver: deliver, done: make(chan struct{})}
	d.dispatcher = &h.dispatchers[int(h.assigned.Add(1))%len(h.dispatchers)]
	w := newWatcher(req, d.ready, h.cfg.Observer.TraceRef(ctx))
	d.watcher = w
	if req.Orders != nil {
		h.orderWatches.Add(1)
		defer h.orderWatches.Add(-1)
	}
	t := h.find(req.Credential, true)
	t.begin(w, req, time.Now())
	if h.drained.Load() { // otherwise Drain finds it
		w.fail(ErrDraining)
	}
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.end(w, time.Now())
	}()
	return d.wait()
}

// Peek returns the latest state of a watched generation. It returns false if only a 404 shows
// that the generation is gone.
func (h *Hub) Peek(cred catalog.Credential, id string) (update Update, ok bool) {
	h.with(cred, id, func(_ *tenant, e *entry) {
		if e.fresh && len(e.subscribers) > 0 && !e.goneByNotFound() {
			update, ok = e.update(), true
		}
	})
	return update, ok
}

// NotYetVisible returns the state of an order that this process placed so recently that the catalog
// may still respond with a 404.
func (h *Hub) NotYetVisible(cred catalog.Credential, id string) (update Update, ok bool) {
	h.with(cred, id, func(_ *tenant, e *entry) {
		if e.notYetVisible(time.Now()) && !e.deleted {
			update, ok = e.update(), true
		}
	})
	return update, ok
}

// Observe applies a record that a call has read, so that the watchers get it too. It returns the hub's
// state of the generation, which is never older than the last one delivered to a watcher. ctx is the
// context of the call, used only for its trace.
func (h *Hub) Observe(ctx context.Context, cred catalog.Credential, read catalog.Version) Update {
	update := Update{Version: read}
	h.with(cred, read.ID, func(t *tenant, e *entry) {
		t.observe(e, read, h.cfg.Observer.TraceRef(ctx), time.Now())
		update = e.update()
	})
	h.sighted(Sighting{Credential: cred, Version: update.Version})
	return update
}

// sighted reports new states to [Config.Sighted].
func (h *Hub) sighted(all ...Sighting) {
	for _, s := range all {
		h.cfg.Sighted(s)
	}
}

// Created records an order that this process placed at the given time. For a short time, a
// 404 of it means "not visible yet". ctx is the context of the call, used only for its trace.
func (h *Hub) Created(ctx context.Context, cred catalog.Credential, g catalog.Generation, modelID string, placed time.Time) Update {
	found := h.cfg.Observer.TraceRef(ctx)
	answered := g.Version()
	if g.State != catalog.StateQueued { // a new order is normally queued
		defer h.sighted(Sighting{Credential: cred, Version: answered})
	}
	t := h.find(cred, true)
	defer t.mu.Unlock()
	now := time.Now()
	e := t.ensure(g.ID, now)
	e.modelID, e.created, e.orderRef = modelID, placed, found
	t.observe(e, answered, found, now)
	t.addListed(e, now)
	return e.update()
}

// Deleted records a generation that a call has deleted, and delivers the deletion to its watchers. ctx is the context of
// the call, used only for its trace.
func (h *Hub) Deleted(ctx context.Context, cred catalog.Credential, id string) {
	found := h.cfg.Observer.TraceRef(ctx)
	h.with(cred, id, func(t *tenant, e *entry) { t.deleted(e, found, time.Now()) })
	h.sighted(Sighting{Credential: cred, Version: catalog.Generation{ID: id, State: catalog.StateDeleted}.Version()})
}

// WatchesOrders reports whether a watch waits for orders of [Hub.Placed].
func (h *Hub) WatchesOrders() bool { return h.orderWatches.Load() > 0 }

// Placed subscribes watches to the orders that they cover, that this or another process has placed, and whose generations exist.
// A repeated order changes nothing.
func (h *Hub) Placed(orders map[string]ledger.Attribution) {
	h.mu.Lock()
	tenants := slices.Collect(maps.Values(h.tenants))
	h.mu.Unlock()
	for _, t := range tenants {
		t.mu.Lock()
		t.placed(orders, time.Now())
		t.mu.Unlock()
	}
}

// Gone records that a generation counts as gone, because reads of other processes have not found it for long enough. It
// delivers this to the watchers. ctx is the context of the last read, used only for its trace.
func (h *Hub) Gone(ctx context.Context, cred catalog.Credential, id string) {
	result := &pollResult{found: h.cfg.Observer.TraceRef(ctx)}
	h.with(cred, id, func(t *tenant, e *entry) {
		if now := time.Now(); !e.deleted && !e.goneByNotFound() && !e.justCreated(now) {
			t.noteGone(e, result, now, true)
		}
	})
	h.sighted(result.sighted...)
}

// Called records the error of a request for a call, for the heartbeats during the pause that the catalog has asked for.
func (h *Hub) Called(cred catalog.Credential, err error) {
	if outcome := catalog.ResultOf(err).Outcome; outcome != limiter.Throttled && outcome != limiter.Unavailable {
		return
	}
	if t := h.find(cred, false); t != nil {
		defer t.mu.Unlock()
		t.health.lastErr = err.Error()
	}
}

// with calls f with an entry, if there is one, under the mutex of its tenant.
func (h *Hub) with(cred catalog.Credential, id string, f func(*tenant, *entry)) {
	t := h.find(cred, false)
	if t == nil {
		return
	}
	defer t.mu.Unlock()
	if e := t.entries[id]; e != nil {
		f(t, e)
	}
}

// find returns the tenant of a credential, locked. If no tenant exists, it starts one if start is true, or returns nil.
func (h *Hub) find(cred catalog.Credential, start bool) *tenant {
	for {
		h.mu.Lock()
		t := h.tenants[cred.Tenant]
		if t == nil && start {
			t = h.start(cred)
			h.mu.Unlock()
			return t
		}
		h.mu.Unlock()
		if t == nil {
			return nil
		}
		t.mu.Lock()
		if !t.gone {
			return t
		}
		t.mu.Unlock() // it has just been forgotten
	}
}

// start creates a tenant and starts its poller; mu is held. It returns the tenant locked, so that the poller does not
// end before the first watcher is added.
func (h *Hub) start(cred catalog.Credential) *tenant {
	t := &tenant{agenda: newAgenda(&h.cfg, &h.history, cred, time.Now())}
	t.mu.Lock()
	if h.tenants[cred.Tenant] = t; len(h.tenants) == 1 {
		select {
		case h.began <- struct{}{}:
		default:
		}
	}
	if !h.closed {
		p := &poller{hub: h, tenant: t, random: schedule.NewSource(h.cfg.Seed, "poller")}
		h.work.Go(p.run)
	}
	return t
}

// forget removes a tenant that ends; its mutex is held.
func (h *Hub) forget(t *tenant) {
	t.gone = true
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.tenants, t.cred.Tenant)
	h.ended.add(&t.stats)
}
