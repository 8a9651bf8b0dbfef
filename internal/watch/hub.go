package watch

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// linger is how long an entry that nobody watches is kept, unpolled: a watcher that
// reconnects finds it, and states stay in order across the gap.
const linger = 30 * time.Second

// Config says how the hub polls.
type Config struct {
	Upstream     Upstream      // required
	MinInterval  time.Duration // shortest time between two polls of a generation; 0 = 1 s
	MaxInterval  time.Duration // longest; 0 = 10 s
	Rate         float64       // polls a second and credential, at most; 0 = 5
	RefundWindow time.Duration // how long after a failure a refund may still come; 0 = 10 min
	Seed         uint64        // of the jitter; 0 = random
	Peers        Peers         // nil: this process is alone
	Logger       *slog.Logger  // nil = discard
	Observer     Observer      // nil = none
}

// withDefaults fills in what is zero, and reports all that can't be meant.
func (c Config) withDefaults() (Config, error) {
	if c.MinInterval == 0 {
		c.MinInterval = time.Second
	}
	if c.MaxInterval == 0 {
		c.MaxInterval = max(10*time.Second, c.MinInterval)
	}
	if c.Rate == 0 {
		c.Rate = 5
	}
	if c.RefundWindow == 0 {
		c.RefundWindow = 10 * time.Minute
	}
	if c.Seed == 0 {
		c.Seed = rand.Uint64()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	var faults []error
	if c.Upstream == nil {
		faults = append(faults, errors.New("watch: Upstream is missing"))
	}
	if c.MinInterval < 0 {
		faults = append(faults, errors.New("watch: MinInterval is negative"))
	}
	if c.MaxInterval < c.MinInterval {
		faults = append(faults, errors.New("watch: MaxInterval is below MinInterval"))
	}
	if !(c.Rate > 0) || math.IsInf(c.Rate, 1) {
		faults = append(faults, errors.New("watch: Rate is not a number above 0"))
	}
	if c.RefundWindow < 0 {
		faults = append(faults, errors.New("watch: RefundWindow is negative"))
	}
	return c, errors.Join(faults...)
}

// Hub is the one place that polls.
type Hub struct {
	cfg    Config
	ctx    context.Context // of all polls: none runs on a caller's
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	drained bool
	pollers map[catalog.Tenant]*poller
	stats   Stats
	history histories
}

// New makes a hub. It does nothing until somebody watches.
func New(cfg Config) (*Hub, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Hub{
		cfg: cfg, ctx: ctx, cancel: cancel,
		pollers: map[catalog.Tenant]*poller{},
		history: histories{},
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
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drained = true
	for _, p := range h.pollers {
		for _, s := range p.all {
			s.drain()
		}
		for _, e := range p.order {
			for _, r := range e.subs {
				r.sub.drain()
			}
		}
	}
}

// Watch subscribes, and calls deliver with the newest state of what is asked for at once and
// after each change, and with heartbeats in between: one event at a time. It blocks until the
// watch is over. It returns nil when the goal is reached, and otherwise what has ended the watch:
// the error of deliver, the cause of ctx, ErrExpired, ErrDraining, or the catalog's error where
// the catalog rejects a forwarded API key.
func (h *Hub) Watch(ctx context.Context, req Request, deliver func(Event) error) error {
	s := h.subscription(ctx, &req)
	s.subscribe(&req)
	defer s.close()
	return s.run(ctx, deliver)
}

// Peek gives the state of a generation that is being watched, as the poller has it. It does
// not say of any that it is gone on the word of a 404 alone.
func (h *Hub) Peek(cred catalog.Credential, id string) (Update, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.entry(cred, id)
	if e == nil || !e.fresh || len(e.subs) == 0 || e.denied() {
		return Update{}, false
	}
	return e.update(), true
}

// Observe takes in a record that a call has read, so that the watchers see it too,
// and gives it back as the hub sees it: never older than what a watcher was told. ctx is that
// of the call, for its mark alone.
func (h *Hub) Observe(ctx context.Context, cred catalog.Credential, g catalog.Generation) Update {
	mark := h.mark(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.entry(cred, g.ID)
	if e == nil {
		e = newEntry(g.ID, g.ObserveTime, h.cfg.Seed)
		e.advance(g, g.Etag())
		return e.update()
	}
	h.pollers[cred.Tenant].admit(e, g, time.Now(), mark)
	return e.update()
}

// Created notes an order that this process placed at the given time. For a short while a
// 404 of it means "not visible yet". ctx is that of the call, for its mark alone.
func (h *Hub) Created(ctx context.Context, cred catalog.Credential, g catalog.Generation, modelID string, placed time.Time) Update {
	mark := h.mark(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	now, p := time.Now(), h.poller(cred)
	e := p.watchable(g.ID, now)
	e.modelID, e.created, e.order = modelID, placed, mark
	p.admit(e, g, now, mark)
	p.show(e, now)
	return e.update()
}

// Called notes a request that a call has made, and how it ended. Calls do not wait for the
// budget, but polls make room for them, and slow down when a call is told to.
func (h *Hub) Called(cred catalog.Credential, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	throttled := catalog.KindOf(err) == catalog.KindRateLimited
	p := h.pollers[cred.Tenant]
	if p == nil && !throttled {
		return
	}
	if p == nil {
		p = h.poller(cred)
	}
	now := time.Now()
	p.spend(now)
	if throttled {
		p.throttled(err, now)
	}
}

// Unseen gives the state of an order that this process placed so recently that the catalog
// may not show it yet: a 404 of it says nothing.
func (h *Hub) Unseen(cred catalog.Credential, id string) (Update, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.entry(cred, id)
	if e == nil || !e.unseen(time.Now()) || e.deleted {
		return Update{}, false
	}
	return e.update(), true
}

// Deleted notes a generation that a call has deleted, and tells its watchers. ctx is that of
// the call, for its mark alone.
func (h *Hub) Deleted(ctx context.Context, cred catalog.Credential, id string) {
	mark := h.mark(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.entry(cred, id); e != nil {
		e.vanish(time.Now())
		e.missing, e.deleted, e.found = false, true, mark
		e.tell()
	}
}

// entry finds an entry; mu is held.
func (h *Hub) entry(cred catalog.Credential, id string) *entry {
	if p := h.pollers[cred.Tenant]; p != nil {
		return p.entries[id]
	}
	return nil
}

// poller finds or starts the poller of a credential; mu is held.
func (h *Hub) poller(cred catalog.Credential) *poller {
	p := h.pollers[cred.Tenant]
	if p == nil {
		p = newPoller(h, cred)
		h.pollers[cred.Tenant] = p
		if !h.closed {
			h.work.Go(p.run)
			if h.cfg.Peers != nil {
				p.part = newPart(p, time.Now())
				h.work.Go(p.share)
			}
		}
	}
	return p
}
