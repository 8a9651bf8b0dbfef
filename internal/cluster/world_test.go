package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

const (
	queued    = catalog.StateQueued
	running   = catalog.StateRunning
	succeeded = catalog.StateSucceeded
	failed    = catalog.StateFailed
	refunded  = catalog.StateRefunded
)

var tenant = catalog.Forwarded(catalog.NewSecret("a key for tests"))

// upstream is a catalog that counts who asks.
type upstream struct {
	mu     sync.Mutex
	states map[string]catalog.State
	detail map[string]int // a member of the record that changes
	asked  []request
	thin   bool  // its list has nothing
	fail   error // every answer
}

type request struct {
	at time.Time
	by *replica
	id string // "": the list
}

func (u *upstream) set(state catalog.State, ids ...string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, id := range ids {
		u.states[id] = state
	}
}

// restless changes a detail of a generation.
func (u *upstream) restless(id string, detail int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.detail == nil {
		u.detail = map[string]int{}
	}
	u.detail[id] = detail + 1
}

// record is what is read; mu is held.
func (u *upstream) record(id string) catalog.Generation {
	g := record(id, u.states[id])
	if n := u.detail[id]; n > 0 {
		g.Extra = map[string]any{"detail": json.Number(strconv.Itoa(n))}
	}
	return g
}

func record(id string, s catalog.State) catalog.Generation {
	g := catalog.Generation{ID: id, ModelID: "m", State: s, Status: s.String(), ObserveTime: time.Now()}
	switch s {
	case succeeded:
		g.File = &catalog.File{}
	case failed, refunded:
		g.FailureMessage = "no luck"
	}
	return g
}

// since counts the requests since a time, of one replica or of all.
func (u *upstream) since(at time.Time, by *replica) (n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, r := range u.asked {
		if !r.at.Before(at) && (by == nil || r.by == by) {
			n++
		}
	}
	return n
}

// replica is one process: a hub, its part in the cluster, and its watches.
type replica struct {
	w       *world
	net     *modelNet
	cluster *Cluster
	hub     *watch.Hub
	watches []*watching
	closed  bool
}

// Generation and List make the replica the upstream of its hub.
func (r *replica) Generation(ctx context.Context, _ catalog.Credential, id string) (catalog.Version, error) {
	if err := r.request(ctx, id); err != nil {
		return catalog.Version{}, err
	}
	r.w.up.mu.Lock()
	defer r.w.up.mu.Unlock()
	if _, ok := r.w.up.states[id]; !ok {
		return catalog.Version{}, &catalog.Error{Kind: catalog.KindNotFound, Op: "x"}
	}
	return r.w.up.record(id).Version(), nil
}

// Account is not watched: each replica reads it for itself.
func (r *replica) Account(context.Context, catalog.Credential) (catalog.Account, error) {
	return catalog.Account{}, &catalog.Error{Kind: catalog.KindContract, Op: "x"}
}

func (r *replica) List(ctx context.Context, _ catalog.Credential) (list []catalog.Version, err error) {
	if err := r.request(ctx, ""); err != nil {
		return nil, err
	}
	r.w.up.mu.Lock()
	defer r.w.up.mu.Unlock()
	if r.w.up.thin {
		return nil, nil
	}
	for id := range r.w.up.states {
		list = append(list, r.w.up.record(id).Version())
	}
	return list, nil
}

func (r *replica) request(ctx context.Context, id string) error {
	r.w.up.mu.Lock()
	r.w.up.asked = append(r.w.up.asked, request{time.Now(), r, id})
	err := r.w.up.fail
	r.w.up.mu.Unlock()
	pause(ctx, 20*time.Millisecond)
	return errors.Join(err, ctx.Err())
}

// world is a catalog, a fabric and the replicas between them.
type world struct {
	t        *testing.T
	up       *upstream
	fabric   *fabric
	replicas []*replica
	work     sync.WaitGroup
}

// inWorld runs a test with n replicas in a bubble.
func inWorld(t *testing.T, n int, states map[string]catalog.State, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, up: &upstream{states: states}, fabric: newFabric(7)}
		defer w.end()
		for range n {
			w.start()
		}
		test(w)
	})
}

func (w *world) end() {
	for _, r := range w.replicas {
		r.close()
	}
	w.work.Wait()
}

func (w *world) start() *replica {
	r := &replica{w: w, net: &modelNet{f: w.fabric}}
	r.cluster = &Cluster{net: r.net, salt: "s", logger: discard}
	hub, err := watch.New(watch.Config{Upstream: r, Seed: uint64(len(w.replicas) + 1), Peers: r.cluster})
	if err != nil {
		w.t.Fatal(err)
	}
	r.hub = hub
	w.replicas = append(w.replicas, r)
	return r
}

// close ends a replica as a deploy does: its watches end.
func (r *replica) close() {
	if r.closed {
		return
	}
	r.end()
	r.hub.Close()
}

// end ends the watches of a replica.
func (r *replica) end() {
	r.closed = true
	for _, s := range r.watches {
		s.cancel()
	}
}

// kill ends a replica without a farewell.
func (r *replica) kill() {
	r.w.fabric.with(func() { r.net.cut = true })
	r.end()
	r.w.work.Go(r.hub.Close)
}

// watching is a watch and its deliveries.
type watching struct {
	ids       []string
	cancel    context.CancelFunc
	mu        sync.Mutex
	delivered map[string][]catalog.State
	etags     map[string][]string
	at        map[string]time.Time // of the last
	ended     bool
	err       error
}

// watch watches through a replica.
func (r *replica) watch(goal watch.Goal, ids ...string) *watching {
	return r.watchAs(tenant, goal, ids...)
}

func (r *replica) watchAs(cred catalog.Credential, goal watch.Goal, ids ...string) *watching {
	ctx, cancel := context.WithCancel(r.w.t.Context())
	s := &watching{ids: ids, cancel: cancel, delivered: map[string][]catalog.State{}, etags: map[string][]string{}, at: map[string]time.Time{}}
	r.watches = append(r.watches, s)
	r.w.work.Go(func() {
		defer cancel()
		s.end(r.hub.Watch(ctx, watch.Request{Credential: cred, IDs: ids, Goal: goal, Heartbeat: time.Second}, s.take))
	})
	return s
}

func (s *watching) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended, s.err = true, err
}

func (s *watching) take(event watch.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := event.Update; u != nil {
		id := u.Generation.ID
		s.delivered[id] = append(s.delivered[id], u.Generation.State)
		s.etags[id] = append(s.etags[id], u.Etag)
		s.at[id] = time.Now()
	}
	return nil
}

func (s *watching) states(id string) []catalog.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.delivered[id])
}

func (s *watching) last(id string) catalog.State {
	if all := s.states(id); len(all) > 0 {
		return all[len(all)-1]
	}
	return 0
}

// check sees that nothing was delivered twice, and nothing went backwards.
func (s *watching) check(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, etags := range s.etags {
		for i := 1; i < len(etags); i++ {
			if etags[i] == etags[i-1] {
				t.Errorf("%s is delivered twice as %v", id, s.delivered[id][i])
			}
			before, next := s.delivered[id][i-1], s.delivered[id][i]
			if refund := before == failed && next == refunded; before.Terminal() && !refund || next < before {
				t.Errorf("%s goes from %v to %v", id, before, next)
			}
		}
	}
}

// leaders are the replicas that lead.
func (w *world) leaders() (all []*replica) {
	for _, r := range w.replicas {
		if !r.closed && r.cluster.Stats().Leading > 0 {
			all = append(all, r)
		}
	}
	return all
}

// theLeader gives the one that leads, and the others.
func (w *world) theLeader() (leader *replica, others []*replica) {
	w.t.Helper()
	all := w.leaders()
	if len(all) != 1 {
		w.t.Fatalf("%d replicas lead", len(all))
	}
	for _, r := range w.replicas {
		if r != all[0] && !r.closed {
			others = append(others, r)
		}
	}
	return all[0], others
}

func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func many(n int, state catalog.State) (map[string]catalog.State, []string) {
	states, ids := map[string]catalog.State{}, make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("g%04d", i)
		states[ids[i]] = state
	}
	return states, ids
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
