package watch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// world is a credential's catalog in a random run, with its generations, faults, requests and responses.
type world struct {
	t      *testing.T
	name   string
	cred   catalog.Credential
	mu     sync.Mutex
	random *rand.Rand // source of the responses
	has    map[string]*render
	order  []string // IDs in the order of creation

	until map[fault]time.Time
	kind  catalog.Kind // kind of the error that a failing list returns
	lost  string       // generation that a fault of a single generation affects
	thin  bool         // whether the list omits fields of finished generations
	part  int          // the list has every part-th generation; zero means all

	calm     time.Time // time after which a missed refund is an error
	requests []time.Time
	inFlight int
	most     int                        // maximum number of requests in flight
	paused   []pause                    // pauses that were requested
	said     map[string]map[string]bool // digests of the returned states, by generation
	denied   map[string]bool            // generations that were reported as missing
	covered  map[string]int             // number of active watches by generation; "" counts the watches of everything
	kept     map[string]bool            // generations whose orders this process placed
	left     map[string]time.Time       // end time of the last watch by generation, with keys as in covered
}

type pause struct{ from, to time.Time }

// fault is a temporary misbehavior of a world.
type fault int

const (
	throttling fault = iota
	down
	rejecting
	slow
	listFails
	oneFails
	oneDenied
	behind   // reads return the records from before the last change
	restless // details of the list change all the time
	faults
)

// render is a world's generation with its history.
type render struct {
	model   string
	visible time.Time
	began   time.Time
	dated   bool
	was     []catalog.State
	at      time.Time // time of the last change
	detail  int
	deleted bool
}

func newWorld(t *testing.T, name string, cred catalog.Credential, random *rand.Rand) *world {
	return &world{
		t: t, name: name, cred: cred, random: random, has: map[string]*render{}, until: map[fault]time.Time{},
		thin: random.IntN(2) == 0, part: []int{0, 0, 2, 5}[random.IntN(4)],
		said: map[string]map[string]bool{}, denied: map[string]bool{}, covered: map[string]int{}, kept: map[string]bool{}, left: map[string]time.Time{},
	}
}

// add creates a generation that reads can find from the given time.
func (w *world) add(id, model string, visible time.Time) {
	w.has[id] = &render{
		model: model, visible: visible, began: time.Now(), at: time.Now(),
		dated: w.random.IntN(2) == 0, was: []catalog.State{catalog.StateQueued},
	}
	w.order = append(w.order, id)
	slices.Sort(w.order)
}

func (r *render) state() catalog.State { return r.was[len(r.was)-1] }

// move advances a generation to a random valid next state, if it has one.
func (r *render) move(random *rand.Rand) {
	next := map[catalog.State][]catalog.State{
		catalog.StateQueued:       {catalog.StateRunning, catalog.StateRunning, catalog.StateUnrecognized, catalog.StateFailed},
		catalog.StateRunning:      {catalog.StateSucceeded, catalog.StateSucceeded, catalog.StateFailed},
		catalog.StateUnrecognized: {catalog.StateSucceeded, catalog.StateFailed},
		catalog.StateFailed:       {catalog.StateRefunded},
	}[r.state()]
	if len(next) > 0 {
		r.was, r.at = append(r.was, next[random.IntN(len(next))]), time.Now()
	}
}

// record returns the catalog's record for a generation.
func (w *world) record(id string, r *render, listed bool) catalog.Generation {
	s := r.state()
	if w.on(behind) && len(r.was) > 1 && w.random.IntN(2) == 0 {
		s = r.was[len(r.was)-2]
	}
	g := catalog.Generation{ID: id, ModelID: r.model, State: s, Status: s.String(), ObserveTime: time.Now()}
	g.Extra = catalog.Value(fmt.Sprintf(`{"detail":%d,"of":%q}`, r.detail, w.name))
	if r.dated {
		g.CreateTime = r.began
		if s.Terminal() && s == r.state() {
			g.TerminalTime = r.at
		}
	}
	switch {
	case listed && w.on(restless):
		g.Extra = catalog.Value(fmt.Sprintf(`{"detail":%d,"of":%q,"position":%d}`, r.detail, w.name, len(w.requests)))
	case listed && w.thin:
	case s == catalog.StateSucceeded:
		g.File = &catalog.File{}
	case s == catalog.StateFailed, s == catalog.StateRefunded:
		g.FailureMessage = "no luck"
	}
	if w.said[id] == nil {
		w.said[id] = map[string]bool{}
	}
	w.said[id][g.Etag()] = true
	return g
}

func (w *world) on(f fault) bool { return time.Now().Before(w.until[f]) }

// begin records a request for a generation and returns its delay. If id is empty, the request is for the list.
func (w *world) begin(id string) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	watched := w.covered[id]+w.covered[""] > 0 || id == "" && len(w.covered)+len(w.kept) > 0 || w.kept[id]
	if now := time.Now(); !watched && !w.left[id].Equal(now) {
		w.t.Errorf("%s: %q is polled and nobody watches it", w.name, id)
	}
	w.requests = append(w.requests, time.Now())
	w.inFlight++
	w.most = max(w.most, w.inFlight)
	if w.on(slow) {
		return time.Duration(w.random.Int64N(int64(40 * time.Second)))
	}
	return time.Duration(w.random.IntN(3)) * 20 * time.Millisecond
}

// end waits for the response time, locks mu, and returns the error of the current fault.
func (w *world) end(ctx context.Context, delay time.Duration) error {
	select {
	case <-time.After(delay):
	case <-ctx.Done():
	}
	w.mu.Lock()
	w.inFlight--
	switch {
	case ctx.Err() != nil:
		return fail(catalog.KindUnavailable)
	case w.on(throttling):
		return w.throttle()
	case w.on(down):
		return fail(catalog.KindUnavailable)
	case w.on(rejecting):
		return fail(catalog.KindCredentialRejected)
	}
	return nil
}

func fail(kind catalog.Kind) error {
	return &catalog.Error{Kind: kind, Op: "x", Err: errors.New(kind.String())}
}

// throttle records the requested pause and returns a 429 error.
func (w *world) throttle() error {
	wait := time.Duration(w.random.IntN(20)) * time.Second
	w.paused = append(w.paused, pause{time.Now(), time.Now().Add(wait)})
	return &catalog.Error{Kind: catalog.KindRateLimited, Op: "x", RetryAfter: wait}
}

func (w *world) read(ctx context.Context, id string, delay time.Duration) (catalog.Generation, error) {
	err := w.end(ctx, delay)
	defer w.mu.Unlock()
	r := w.has[id]
	switch {
	case err != nil:
		return catalog.Generation{}, err
	case w.on(oneFails) && id == w.lost:
		return catalog.Generation{}, fail(catalog.KindMalformed)
	case r == nil || r.deleted || time.Now().Before(r.visible) || w.on(oneDenied) && id == w.lost:
		w.denied[id] = true
		return catalog.Generation{}, &catalog.Error{Kind: catalog.KindNotFound, Op: "GET /generations/{id}", Status: 404, Own: true}
	}
	return w.record(id, r, false), nil
}

func (w *world) list(ctx context.Context, delay time.Duration) (all []catalog.Version, err error) {
	err = w.end(ctx, delay)
	defer w.mu.Unlock()
	if err == nil && w.on(listFails) {
		err = fail(w.kind)
	}
	if err != nil {
		return nil, err
	}
	for i, id := range w.order {
		if r := w.has[id]; !r.deleted && !time.Now().Before(r.visible) && (w.part == 0 || i%w.part == 0) {
			all = append(all, w.record(id, r, true).Version())
		}
	}
	return all, nil
}

// worlds maps each tenant to its catalog.
type worlds map[catalog.Tenant]*world

func (all worlds) Generation(ctx context.Context, cred catalog.Credential, id string) (catalog.Version, error) {
	w := all[cred.Tenant]
	g, err := w.read(ctx, id, w.begin(id))
	return g.Version(), err
}

func (all worlds) List(ctx context.Context, cred catalog.Credential, _ time.Time) (*catalog.List, error) {
	w := all[cred.Tenant]
	records, err := w.list(ctx, w.begin(""))
	return catalog.NewList(records), err
}

func (worlds) Account(context.Context, catalog.Credential) (catalog.Account, error) {
	return catalog.Account{}, nil
}

// cover adds by, which is 1 or -1, to the number of watches of some generations.
func (w *world) cover(ids []string, by int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(ids) == 0 {
		ids = []string{""}
	}
	for _, id := range ids {
		if w.covered[id] += by; w.covered[id] == 0 {
			delete(w.covered, id)
			if w.left[id], w.left[""] = time.Now(), time.Now(); id == "" {
				for id := range w.has {
					w.left[id] = time.Now()
				}
			}
		}
	}
}

// checkBudget checks that the requests obey the catalog's limits and requested pauses.
func (w *world) checkBudget(rate float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.most > maxInFlight+1 {
		w.t.Errorf("%s: %d requests at once", w.name, w.most)
	}
	for _, window := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
		from := 0
		for i, at := range w.requests {
			for at.Sub(w.requests[from]) > window {
				from++
			}
			if n := float64(i - from + 1); n > rate*window.Seconds()+max(rate, 2)+1 {
				w.t.Fatalf("%s: %v requests within %v, and %v a second are allowed", w.name, n, window, rate)
			}
		}
	}
	for _, p := range w.paused {
		if n, at := sooner(w.requests, p); n > 0 {
			w.t.Errorf("%s: %d requests in a pause that was asked for, the first at %v of %v", w.name, n, at.Sub(p.from), p.to.Sub(p.from))
		}
	}
}

// sooner counts the requests during a pause, except requests at the exact start of the pause. first is the time of the
// first counted request.
func sooner(asked []time.Time, p pause) (n int, first time.Time) {
	for _, at := range asked {
		if at.After(p.from) && at.Before(p.to) {
			if n++; n == 1 {
				first = at
			}
		}
	}
	return n, first
}

// heal ends all faults.
func (w *world) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.until)
}

// goOn advances every generation by one step.
func (w *world) goOn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range w.order {
		w.has[id].move(w.random)
	}
}

// any returns up to n IDs, a few of which do not exist.
func (w *world) any(n int) (ids []string) {
	known := slices.Sorted(maps.Keys(w.has))
	for range n {
		id := known[w.random.IntN(len(known))]
		if w.random.IntN(12) == 0 {
			id = fmt.Sprintf("unknown%d", w.random.IntN(3))
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// randomFor returns the random source for the named part of a run.
func randomFor(seed uint64, name string) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(len(name))<<32+uint64(name[0])))
}
