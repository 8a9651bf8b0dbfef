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

// Hub polls the catalog for all watches, and delivers state changes to the watchers. It is safe for concurrent use.
type Hub struct {
	cfg     Config
	ctx     context.Context // context of all polls; never a caller's context
	cancel  context.CancelFunc
	work    sync.WaitGroup
	history history.Durations

	dispatchers  []dispatcher  // one dispatcher for each processor
	assigned     atomic.Uint32 // number of watches started so far; selects the dispatcher of the next watch
	drained      atomic.Bool
	watches      atomic.Int64  // number of open watches
	orderWatches atomic.Int64  // number of open watches whose request sets [Request.Orders]
	replicas     atomic.Int64  // number of replicas that share the poll rate
	began        chan struct{} // receives a value when the number of pollers rises from zero to one; capacity 1

	mu      sync.Mutex
	closed  bool
	tenants map[catalog.Tenant]*tenant
	ended   Stats // totals of the counters from tenants that were removed
}

// New returns a hub. It starts no goroutine and sends no request.
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

// Stats returns the statistics of the hub. It visits every watched generation, so call it at most once every few seconds.
func (h *Hub) Stats() Stats { return h.snapshot(false).Stats }

// Snapshot returns the state of the hub. Unlike [Hub.Stats], it also includes lists of the credentials and of the generations.
func (h *Hub) Snapshot() Snapshot {
	s := h.snapshot(true)
	s.shortenLists()
	return s
}

// snapshot returns the state of the hub. If withLists is true, the state includes the lists of credentials and generations.
func (h *Hub) snapshot(withLists bool) Snapshot {
	now := time.Now()
	h.mu.Lock()
	s, tenants := Snapshot{Time: now, Stats: h.ended}, slices.Collect(maps.Values(h.tenants))
	h.mu.Unlock()
	s.Stats.Replicas = int(h.replicas.Load())
	s.Stats.Rate = h.pollRate()
	s.Stats.Ready = max(1, s.Stats.Rate)
	for _, t := range tenants {
		t.mu.Lock()
		s.addTenant(t, withLists)
		t.mu.Unlock()
	}
	s.countTotals()
	return s
}

// Close stops all polls and waits until they have stopped. Open watches receive no further events. Finally, Close spends at
// most a second recording the states that are not in the ledger yet.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.cancel()
	h.work.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	for _, t := range h.tenantList() {
		t.mu.Lock()
		generations := slices.Clone(t.order)
		t.mu.Unlock()
		t.recordStates(ctx, generations)
	}
}

func (h *Hub) tenantList() []*tenant {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.tenants))
}

// Drain ends every open watch with ErrDraining. A watch that starts later ends at once with the same error.
func (h *Hub) Drain() {
	h.drained.Store(true)
	for _, t := range h.tenantList() {
		t.mu.Lock()
		t.endAll(ErrDraining)
		t.mu.Unlock()
	}
}

// Watch delivers the latest state of each requested generation at once, and again after each change. Between these updates, it
// delivers heartbeats. It returns nil when each generation has reached req.Goal. It never returns nil for a watch of all
// generations. deliver is called sequentially, but not on the goroutine that called Watch. Each call may block for at most
// [Request.Stall]. A blocked call does not delay other watches.
//
// Watch returns an error only in these cases:
//
//   - deliver returns an error other than [ErrSkipped].
//   - A call to deliver blocks for too long. The error is [ErrStalled].
//   - ctx is done. The error is its cause.
//   - req.Until is reached. The error is [ErrExpired].
//   - The hub is drained. The error is [ErrDraining].
//   - The catalog rejects a forwarded API key.
//
// If deliver panics, Watch panics with an error that contains the value and the stack trace. Watch does not modify req.
func (h *Hub) Watch(ctx context.Context, req *Request, deliver func(Event) error) error {
	d := &delivery{tracer: h.cfg.Tracer, ctx: ctx, deliver: deliver, done: make(chan struct{})}
	d.dispatcher = &h.dispatchers[int(h.assigned.Add(1))%len(h.dispatchers)]
	w := newWatcher(req, d.requestTurn, h.cfg.Tracer.TraceRef(ctx))
	d.watcher = w
	h.watches.Add(1)
	defer h.watches.Add(-1)
	if req.Orders != nil {
		h.orderWatches.Add(1)
		defer h.orderWatches.Add(-1)
	}
	t := h.findTenant(req.Credential, true)
	t.beginWatch(w, req, time.Now())
	if h.drained.Load() { // if Drain is called after this check, Drain itself ends this watch
		w.endWithError(ErrDraining)
	}
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.endWatch(w, time.Now())
	}()
	return d.awaitEnd()
}

// Peek returns the latest state of a watched generation. ok is false if the generation is not watched, if its known state
// may be outdated, or if its deletion was only inferred from 404s.
func (h *Hub) Peek(cred catalog.Credential, id string) (update Update, ok bool) {
	h.withGeneration(cred, id, func(_ *tenant, e *generation) {
		if e.fresh && len(e.subscribers) > 0 && !e.isPresumedDeleted() {
			update, ok = e.latestUpdate(), true
		}
	})
	return update, ok
}

// NotYetVisible returns the state of a generation that this process ordered so recently that the catalog may still respond
// with a 404. ok is false for any other generation, and for a deleted one.
func (h *Hub) NotYetVisible(cred catalog.Credential, id string) (update Update, ok bool) {
	h.withGeneration(cred, id, func(_ *tenant, e *generation) {
		if e.mayBeInvisible(time.Now()) && !e.deleted {
			update, ok = e.latestUpdate(), true
		}
	})
	return update, ok
}

// Observe applies a record that a call has read from the catalog, so that watchers receive it too. It returns the hub's latest
// state of the generation, which is never older than the last state delivered to a watcher. If isUnrecorded is true, the ledger
// does not have the state of the record yet. Observe then waits up to a second until the state is recorded. ctx is used only
// for its trace.
func (h *Hub) Observe(ctx context.Context, cred catalog.Credential, read catalog.Version, isUnrecorded bool) Update {
	update := Update{Version: read}
	h.updateGeneration(ctx, cred, read.ID, isUnrecorded, func(t *tenant, e *generation, result *pollResult, now time.Time) {
		e.recording.etag = read.Etag
		if isUnrecorded {
			e.recording.etag = ""
		}
		t.observeRecord(e, read, result, now)
		if isUnrecorded && len(result.changed) == 0 {
			e.recordSighting(result)
		}
		update = e.latestUpdate()
	})
	return update
}

// Created adds the generation of an order that this process placed at the given time. For lifecycle.VisibleAfter from that
// time, a 404 is taken to mean that the generation is not visible yet. Under a shared API key, the generation is polled even
// without a watch, until its charge is final or keepTime has passed. If the hub then has more than maxKept generations of the
// tenant, the new generation is polled only while it is watched. ctx is used only for its trace.
func (h *Hub) Created(ctx context.Context, cred catalog.Credential, g catalog.Generation, modelID string, placed time.Time) (update Update) {
	answered := g.Version()
	h.updateGeneration(ctx, cred, g.ID, true, func(t *tenant, e *generation, result *pollResult, now time.Time) {
		e.modelID, e.created, e.orderRef = modelID, placed, result.found
		e.kept = cred.IsShared() && len(t.generations) <= maxKept
		e.recording.etag = ""
		if g.State == catalog.StateQueued { // the ledger already has this state, because it records each new order as queued
			e.recording.etag = answered.Etag
		}
		t.observeRecord(e, answered, result, now)
		if e.state.State != catalog.StateQueued && len(result.changed) == 0 { // the state must be recorded now, because a poll received it before the ledger had the order
			e.recording.etag = ""
			e.recordSighting(result)
		}
		t.addListed(e, now)
		update = e.latestUpdate()
	})
	return update
}

// Deleted records that a call to Easel has deleted a generation, and delivers the deletion to the watchers. States that are not
// in the ledger yet are recorded before the deletion. ctx is used only for its trace.
func (h *Hub) Deleted(ctx context.Context, cred catalog.Credential, id string) {
	h.updateGeneration(ctx, cred, id, true, (*tenant).recordDeletion)
}

// HasWatches reports whether any watch is open.
func (h *Hub) HasWatches() bool { return h.watches.Load() > 0 }

// Ended handles terminal states and deletions that any process has recently recorded in the ledger. The keys of the map are
// generation IDs. If the hub knows only an earlier state of such a generation, it polls the generation as soon as possible, so
// that watchers receive the new state. The ledger has neither the inputs nor the text of the result, so a poll is necessary.
// Ended ignores the generations of forwarded API keys.
func (h *Hub) Ended(ended map[string]ledger.State) {
	for _, t := range h.tenantList() {
		if !t.cred.IsShared() {
			continue
		}
		t.mu.Lock()
		for _, id := range slices.Sorted(maps.Keys(ended)) { // sorted, so that runs are reproducible
			if e := t.generations[id]; e != nil && e.isBehind(ended[id]) {
				t.pollAt(e, earliest(e.polling.due, time.Now()))
			}
		}
		t.mu.Unlock()
	}
}

// WatchesOrders reports whether any open watch depends on calls to [Hub.Placed].
func (h *Hub) WatchesOrders() bool { return h.orderWatches.Load() > 0 }

// Placed passes new orders to the watches that have [Request.Orders]. The keys of the map are generation IDs. Each of these
// watches subscribes to the orders that it covers, no matter which process placed them. Passing an order again has no effect.
func (h *Hub) Placed(orders map[string]ledger.Attribution) {
	for _, t := range h.tenantList() {
		t.mu.Lock()
		t.subscribePlaced(orders, time.Now())
		t.mu.Unlock()
	}
}

// PresumedDeleted records that Easel now treats a generation as deleted, because reads have returned 404 for long enough. It
// delivers the deletion to the watchers. ctx is used only for its trace.
func (h *Hub) PresumedDeleted(ctx context.Context, cred catalog.Credential, id string) {
	h.updateGeneration(ctx, cred, id, false, func(t *tenant, e *generation, result *pollResult, now time.Time) {
		if !e.deleted && !e.isPresumedDeleted() && !e.isJustCreated(now) {
			t.notePresumedDeleted(e, result, now, true)
		}
	})
}

// Called records the error from a call's request to the catalog. Heartbeats contain this error while the limiter pauses all
// requests. Called ignores errors that request no pause. Only rate limit errors, and 503s with a Retry-After header, request a
// pause.
func (h *Hub) Called(cred catalog.Credential, err error) {
	if outcome := catalog.ResultOf(err).Outcome; outcome != limiter.Throttled && outcome != limiter.Unavailable {
		return
	}
	if t := h.findTenant(cred, false); t != nil {
		defer t.mu.Unlock()
		t.health.lastErr = err.Error()
	}
}

// withGeneration calls fn with a generation and its tenant. It holds the tenant's mutex during the call. If the hub does not
// have the generation, it does nothing.
func (h *Hub) withGeneration(cred catalog.Credential, id string, fn func(*tenant, *generation)) {
	t := h.findTenant(cred, false)
	if t == nil {
		return
	}
	defer t.mu.Unlock()
	if e := t.generations[id]; e != nil {
		fn(t, e)
	}
}

// updateGeneration calls fn for a generation while it holds the tenant's mutex. Then it records the new states and notifies the
// watchers. If the hub does not have the generation, updateGeneration creates it if mayCreate is true, and otherwise does
// nothing.
func (h *Hub) updateGeneration(ctx context.Context, cred catalog.Credential, id string, mayCreate bool, fn func(*tenant, *generation, *pollResult, time.Time)) {
	t, result, now := h.findTenant(cred, mayCreate), &pollResult{found: h.cfg.Tracer.TraceRef(ctx)}, time.Now()
	if t == nil {
		return
	}
	e := t.generations[id]
	if mayCreate {
		e = t.ensureGeneration(id, now)
	}
	if e != nil {
		fn(t, e, result, now)
	}
	t.mu.Unlock()
	t.finishPoll(ctx, result)
}

// findTenant returns the tenant of a credential, with its mutex locked. If there is no tenant, findTenant starts one if
// mayStart is true, and otherwise returns nil.
func (h *Hub) findTenant(cred catalog.Credential, mayStart bool) *tenant {
	for {
		h.mu.Lock()
		t := h.tenants[cred.Tenant]
		if t == nil && mayStart {
			t = h.startTenant(cred)
			h.mu.Unlock()
			return t
		}
		h.mu.Unlock()
		if t == nil {
			return nil
		}
		t.mu.Lock()
		if !t.ended {
			return t
		}
		t.mu.Unlock() // the poller removed the tenant between the lookup and this check
	}
}

// startTenant creates a tenant and starts its poller, unless the hub is closed. It returns the tenant with its mutex locked,
// because otherwise the poller could remove it before the first watcher is added. The caller must hold mu.
func (h *Hub) startTenant(cred catalog.Credential) *tenant {
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
		h.work.Go(p.runPolls)
	}
	return t
}

// forgetTenant removes a tenant that has ended. The caller must hold the tenant's mutex.
func (h *Hub) forgetTenant(t *tenant) {
	t.ended = true
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.tenants, t.cred.Tenant)
	h.ended.addCounters(&t.stats)
}
