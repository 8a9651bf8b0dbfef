package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

var testCred = catalog.Forwarded(catalog.NewSecret("key-one"))

// upstream is an in-memory catalog whose responses a test can change at any time.
type upstream struct {
	mu          sync.Mutex
	states      map[string]catalog.State
	changes     map[string]time.Time // time of each generation's latest change of state
	fail        error                // error that every call returns, or nil
	failList    error                // error that every list call returns, or nil
	failAccount error                // error that every read of the account returns, or nil
	failOne     map[string]error     // errors that reads of single generations return, keyed by generation ID
	delay       time.Duration        // delay of every call
	listDelay   time.Duration        // additional delay of list calls
	listed      func(id string) bool // selects the generations in the list; nil selects all
	restless    bool                 // whether every list call changes a detail of the records
	lists       int
	read        map[string]int // number of reads of each generation, keyed by ID
	times       []time.Time    // time of each call
}

func newUpstream(states map[string]catalog.State) *upstream {
	return &upstream{states: states, changes: map[string]time.Time{}, failOne: map[string]error{}, read: map[string]int{}}
}

func (u *upstream) set(id string, s catalog.State) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.states[id] = s
	u.changes[id] = time.Now()
}

func (u *upstream) with(change func(*upstream)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	change(u)
}

func (u *upstream) callTimes() []time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.times)
}

func (u *upstream) calls() int { return len(u.callTimes()) }

// reads returns the minimum and the maximum number of reads per ID.
func (u *upstream) reads(ids []string) (least, most int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	least = u.read[ids[0]]
	for _, id := range ids {
		least, most = min(least, u.read[id]), max(most, u.read[id])
	}
	return least, most
}

func (u *upstream) listCalls() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.lists
}

func (u *upstream) record(id string, s catalog.State) catalog.Generation {
	g := catalog.Generation{ID: id, ModelID: "m", State: s, Status: s.String(), ObserveTime: time.Now()}
	if s == catalog.StateSucceeded {
		g.File = &catalog.File{}
	}
	return g
}

func (u *upstream) Generation(ctx context.Context, _ catalog.Credential, id string) (catalog.Version, error) {
	u.mu.Lock()
	u.read[id]++
	u.times = append(u.times, time.Now())
	delay := u.delay
	u.mu.Unlock()
	if err := pause(ctx, delay); err != nil {
		return catalog.Version{}, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	s, ok := u.states[id]
	switch {
	case u.fail != nil:
		return catalog.Version{}, u.fail
	case u.failOne[id] != nil:
		return catalog.Version{}, u.failOne[id]
	case !ok:
		return catalog.Version{}, &catalog.Error{Kind: catalog.KindNotFound, Op: "GET /generations/{id}", Status: 404, Own: true}
	}
	return u.record(id, s).Version(), nil
}

func (u *upstream) Account(ctx context.Context, _ catalog.Credential) (catalog.Account, error) {
	u.mu.Lock()
	delay := u.delay
	u.mu.Unlock()
	if err := pause(ctx, delay); err != nil {
		return catalog.Account{}, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return catalog.Account{ObserveTime: time.Now()}, cmp.Or(u.fail, u.failAccount)
}

func (u *upstream) List(ctx context.Context, _ catalog.Credential, _ time.Time) (*catalog.List, error) {
	u.mu.Lock()
	u.lists++
	u.times = append(u.times, time.Now())
	delay := u.delay + u.listDelay
	u.mu.Unlock()
	if err := pause(ctx, delay); err != nil {
		return nil, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := cmp.Or(u.fail, u.failList); err != nil {
		return nil, err
	}
	var list []catalog.Version
	for _, id := range slices.Sorted(maps.Keys(u.states)) {
		if u.listed == nil || u.listed(id) {
			g := u.record(id, u.states[id])
			if u.restless {
				g.Extra = catalog.Value(fmt.Sprintf(`{"position":%d}`, len(u.times)))
			}
			list = append(list, g.Version())
		}
	}
	return catalog.NewList(list), nil
}

func pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return &catalog.Error{Kind: catalog.KindUnavailable, Err: ctx.Err()}
	}
}

// seen collects the events that a watch delivers, and the error with which it ends.
type seen struct {
	mu sync.Mutex
	delivered
}

type delivered struct {
	updates    []Update
	at         []time.Time
	heartbeats []Heartbeat
	known      []Update
	caughtUp   []int // one element for each caught-up event: the number of initial states that were delivered before the event
	err        error
	ended      bool
}

// copyEvents returns a copy of the events so far. If the watch has ended, the copy also contains the watch's error.
func (s *seen) copyEvents() delivered {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.delivered
}

func (s *seen) states() []string {
	var out []string
	for _, u := range s.copyEvents().updates {
		out = append(out, u.State.String())
	}
	return out
}

func (s *seen) done() (bool, error) {
	now := s.copyEvents()
	return now.ended, now.err
}

func (s *seen) add(event Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case event.Update != nil:
		s.updates, s.at = append(s.updates, *event.Update), append(s.at, time.Now())
	case event.Heartbeat != nil:
		if s.heartbeats = append(s.heartbeats, *event.Heartbeat); event.Known != nil {
			s.known = append(s.known, *event.Known)
		}
	case event.CaughtUp:
		s.caughtUp = append(s.caughtUp, s.initial())
	}
	return nil
}

// initial returns the number of generations whose initial state was delivered.
func (d *delivered) initial() int {
	n := len(d.known)
	for _, u := range d.updates {
		if u.Initial {
			n++
		}
	}
	return n
}

func (s *seen) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.ended = err, true
}

// bench is a hub that polls an in-memory catalog, in simulated time.
type bench struct {
	t   *testing.T
	up  *upstream
	hub *Hub
	ctx context.Context
}

// newHub returns a hub that is closed at the end of the test.
func newHub(t *testing.T, cfg Config) *Hub {
	t.Helper()
	cfg.Seed = cmp.Or(cfg.Seed, 1)
	hub, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hub.Close)
	return hub
}

// inBubble runs a test with a hub in simulated time. Afterwards it stops everything that the test has
// started.
func inBubble(t *testing.T, states map[string]catalog.State, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		up := newUpstream(maps.Clone(states))
		hub := newHub(t, Config{Upstream: withLimiters(up)})
		t.Cleanup(synctest.Wait)
		test(&bench{t, up, hub, t.Context()})
	})
}

func (b *bench) watch(ids ...string) *seen { return b.watchWith(b.ctx, Request{IDs: ids}) }

func (b *bench) watchWith(ctx context.Context, req Request) *seen {
	if req.Credential.Tenant == "" {
		req.Credential = testCred
	}
	s := &seen{}
	go func() { s.end(b.hub.Watch(ctx, &req, s.add)) }()
	return s
}

// passTime sleeps for d and then waits until all due work has finished.
func passTime(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (b *bench) wantStates(s *seen, want ...string) {
	b.t.Helper()
	if got := s.states(); !slices.Equal(got, want) {
		b.t.Errorf("states delivered: %v, want %v", got, want)
	}
}

func (b *bench) wantEnd(s *seen, want error) {
	b.t.Helper()
	ended, err := s.done()
	if !ended || !errors.Is(err, want) {
		b.t.Errorf("ended: %v, error: %v; want an ended watch with the error %v", ended, err, want)
	}
}

const (
	queued    = catalog.StateQueued
	running   = catalog.StateRunning
	succeeded = catalog.StateSucceeded
	failed    = catalog.StateFailed
	refunded  = catalog.StateRefunded
)
