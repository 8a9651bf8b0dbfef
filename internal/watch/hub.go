package watch

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch/history"
	"github.com/easel-grpc/easel/internal/watch/schedule"
)

// Hub is the one place that polls.
type Hub struct {
	cfg         Config
	ctx         context.Context // of all polls: none runs on a caller's
	cancel      context.CancelFunc
	work        sync.WaitGroup
	history     history.Book
	dispatchers *dispatchers

	drained atomic.Bool

	mu      sync.Mutex
	closed  bool
	tenants map[catalog.Tenant]*tenant
	past    Stats // of tenants that have ended
}

// New makes a hub. It does nothing until somebody watches.
func New(cfg Config) (*Hub, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Hub{
		cfg: cfg, ctx: ctx, cancel: cancel, dispatchers: newDispatchers(), tenants: map[catalog.Tenant]*tenant{},
	}, nil
}

// Close ends all polling and waits for it. Watches that are still open fall silent.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.cancel()
	h.work.Wait()
}

// Drain ends every watch with ErrDraining, and those that begin later.
func (h *Hub) Drain() {
	h.drained.Store(true)
	h.mu.Lock()
	tenants := slices.Collect(maps.Values(h.tenants))
	h.mu.Unlock()
	for _, t := range tenants {
		t.mu.Lock()
		t.each((*watcher).drain)
		t.mu.Unlock()
	}
}

// Watch delivers the newest state of what is asked for at once and after each change, and
// heartbeats in between, and returns nil when the goal is reached. deliver is called for one event
// after the other, never for two at once, and not on the caller's goroutine. It may block, which
// holds up nobody else, but not for longer than the request allows.
//
// Watch ends with an error only where deliver gives one, when ctx ends (with its cause), when the
// watch has lasted as long as it may, when the hub is drained, or when the catalog rejects a
// forwarded key. It raises a panic of deliver.
func (h *Hub) Watch(ctx context.Context, req Request, deliver func(Event) error) error {
	d := &delivery{hub: h, ctx: ctx, deliver: deliver, dispatcher: h.dispatchers.assign(), done: make(chan struct{})}
	d.watcher = newWatcher(&req, d.ready, h.traceRef(ctx))
	t := h.lock(req.Credential)
	d.watcher.join(t, &req, time.Now())
	if h.drained.Load() { // else Drain finds it
		d.watcher.drain()
	}
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		d.watcher.leave(time.Now())
	}()
	return d.wait()
}

// Peek gives the state of a generation that is being watched, as the poller has it. It does
// not say of any that it is gone on the word of a 404 alone.
func (h *Hub) Peek(cred catalog.Credential, id string) (update Update, ok bool) {
	h.with(cred, id, func(_ *tenant, e *entry) {
		if e.fresh && len(e.watchers) > 0 && !e.denied() {
			update, ok = e.update(), true
		}
	})
	return update, ok
}

// Unseen gives the state of an order that this process placed so recently that the catalog
// may not show it yet: a 404 of it says nothing.
func (h *Hub) Unseen(cred catalog.Credential, id string) (update Update, ok bool) {
	h.with(cred, id, func(_ *tenant, e *entry) {
		if e.unseen(time.Now()) && !e.deleted {
			update, ok = e.update(), true
		}
	})
	return update, ok
}

// Observe takes in a record that a call has read, so that the watchers see it too,
// and gives it back as the hub sees it: never older than what a watcher was told. ctx is that
// of the call, for its trace alone.
func (h *Hub) Observe(ctx context.Context, cred catalog.Credential, g catalog.Generation) Update {
	found := h.traceRef(ctx)
	e := newEntry(g.ID, g.ObserveTime, h.cfg.Seed)
	e.advance(g, g.Etag())
	update := e.update()
	h.with(cred, g.ID, func(t *tenant, e *entry) {
		t.admit(e, g, found, time.Now())
		update = e.update()
	})
	return update
}

// Created notes an order that this process placed at the given time. For a short while a
// 404 of it means "not visible yet". ctx is that of the call, for its trace alone.
func (h *Hub) Created(ctx context.Context, cred catalog.Credential, g catalog.Generation, modelID string, placed time.Time) Update {
	found := h.traceRef(ctx)
	t := h.lock(cred)
	defer t.mu.Unlock()
	now := time.Now()
	e := t.ensure(g.ID, now)
	e.modelID, e.created, e.order = modelID, placed, found
	t.admit(e, g, found, now)
	t.show(e, now)
	return e.update()
}

// Deleted notes a generation that a call has deleted, and tells its watchers. ctx is that of
// the call, for its trace alone.
func (h *Hub) Deleted(ctx context.Context, cred catalog.Credential, id string) {
	found := h.traceRef(ctx)
	h.with(cred, id, func(t *tenant, e *entry) { t.deleted(e, found, time.Now()) })
}

// Called notes a request that a call has made, and how it ended. Calls do not wait for the
// budget, but polls make room for them, and slow down when a call is told to.
func (h *Hub) Called(cred catalog.Credential, err error) {
	throttled := catalog.KindOf(err) == catalog.KindRateLimited
	t := h.find(cred)
	if t == nil && throttled {
		t = h.lock(cred)
	}
	if t == nil {
		return
	}
	defer t.mu.Unlock()
	t.called(err, throttled, time.Now())
}

// with calls f with an entry, under the mutex of its tenant, where there is one.
func (h *Hub) with(cred catalog.Credential, id string, f func(*tenant, *entry)) {
	t := h.find(cred)
	if t == nil {
		return
	}
	defer t.mu.Unlock()
	if e := t.entries[id]; e != nil {
		f(t, e)
	}
}

// find gives the tenant of a credential, locked; nil where there is none.
func (h *Hub) find(cred catalog.Credential) *tenant {
	h.mu.Lock()
	t := h.tenants[cred.Tenant]
	h.mu.Unlock()
	if t == nil {
		return nil
	}
	t.mu.Lock()
	if t.gone {
		t.mu.Unlock()
		return nil
	}
	return t
}

// lock finds or starts the tenant of a credential, and gives it locked.
func (h *Hub) lock(cred catalog.Credential) *tenant {
	for {
		h.mu.Lock()
		t := h.tenants[cred.Tenant]
		if t == nil {
			t = newTenant(&h.cfg, &h.history, cred, time.Now())
			t.mu.Lock() // before anybody sees it: its poller would find nobody who waits, and end
			h.tenants[cred.Tenant] = t
			h.start(t)
			h.mu.Unlock()
			return t
		}
		h.mu.Unlock()
		t.mu.Lock()
		if !t.gone {
			return t
		}
		t.mu.Unlock()
		h.forget(t)
	}
}

// start lets a tenant poll; its mutex and mu are held.
func (h *Hub) start(t *tenant) {
	if h.closed {
		return
	}
	p := &poller{hub: h, tenant: t, random: schedule.NewSource(h.cfg.Seed, "poller")}
	h.work.Go(p.run)
	if h.cfg.Peers != nil {
		p := newPeering(t, time.Now())
		h.work.Go(func() { p.run(h.ctx) })
	}
}

// forget takes out a tenant that has ended.
func (h *Hub) forget(t *tenant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tenants[t.cred.Tenant] == t {
		delete(h.tenants, t.cred.Tenant)
		h.past.add(&t.stats)
	}
}

// traceRef gives the trace reference of a context.
func (h *Hub) traceRef(ctx context.Context) TraceRef {
	if h.cfg.Observer == nil {
		return nil
	}
	return h.cfg.Observer.TraceRef(ctx)
}

// pollBegins begins a poll for the observer.
func (h *Hub) pollBegins(ctx context.Context, poll Poll) (context.Context, *pollResult, func(Outcome)) {
	if h.cfg.Observer == nil {
		return ctx, &pollResult{}, func(Outcome) {}
	}
	ctx, found, ended := h.cfg.Observer.PollBegins(ctx, poll)
	return ctx, &pollResult{found: found}, ended
}

// delivery begins a delivery for the observer, and gives what ends it.
func (h *Hub) delivery(ctx context.Context, watching TraceRef, s step) (delivered func()) {
	if h.cfg.Observer != nil {
		delivered = h.cfg.Observer.Delivery(ctx, watching, *s.event, s.found)
	}
	if delivered == nil {
		return func() {}
	}
	return delivered
}
