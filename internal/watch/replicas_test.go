package watch_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	sql "github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/shared"
	"github.com/easel-grpc/easel/internal/watch"
)

// group is some replicas in front of one catalog, with one book in SQLite between them.
type group struct {
	t        *testing.T
	up       *upstream
	books    []*sql.Ledger // the newest comes last
	replicas []*way
	ctx      context.Context
}

// way is a replica, and its way to the book and to the catalog. Either may be bad.
type way struct {
	*sql.Polls
	*bench
	group *group

	mu     sync.Mutex
	book   *sql.Polls               // the same as Polls, unless the book was emptied
	away   bool                     // the book
	slow   time.Duration            // the book
	deaf   bool                     // no notifications come
	dark   error                    // the catalog
	hangs  bool                     // the catalog, in reads of one
	times  []time.Time              // of requests
	claims int                      // that were asked for
	lags   map[string]catalog.State // what the catalog says in reads of one
}

var errAway = errors.New("connection refused")

func (r *way) with(change func(*way)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r)
}

// reach is the way to the book.
func (r *way) reach(ctx context.Context) (*sql.Polls, error) {
	r.mu.Lock()
	away, slow, book := r.away, r.slow, r.book
	r.mu.Unlock()
	if err := pause(ctx, slow+time.Millisecond); err != nil || away {
		return nil, errAway
	}
	return book, nil
}

func (r *way) Claim(ctx context.Context, apiKey string, ask shared.Ask) (shared.Claim, error) {
	r.with(func(r *way) { r.claims++ })
	book, err := r.reach(ctx)
	if err != nil {
		return shared.Claim{}, err
	}
	return book.Claim(ctx, apiKey, ask)
}

func (r *way) News(ctx context.Context, apiKey string, after shared.Cursor, ids []string) (shared.News, error) {
	book, err := r.reach(ctx)
	if err != nil {
		return shared.News{}, err
	}
	return book.News(ctx, apiKey, after, ids)
}

func (r *way) Exchange(ctx context.Context, apiKey, replica, report string) (shared.Others, error) {
	book, err := r.reach(ctx)
	if err != nil {
		return shared.Others{}, err
	}
	return book.Exchange(ctx, apiKey, replica, report)
}

// Write writes, and wakes the others as a notification does.
func (r *way) Write(ctx context.Context, apiKey string, found shared.Found) (shared.Written, error) {
	book, err := r.reach(ctx)
	if err != nil {
		return shared.Written{}, err
	}
	for _, c := range found.Changes { // nobody reads it without the API key
		if c.Record != nil && (*c.Record == "" || strings.ContainsAny(*c.Record, `{"`)) {
			r.group.t.Errorf("the book is given %q", *c.Record)
		}
	}
	written, err := book.Write(ctx, apiKey, found)
	if written.Last > 0 || !found.Pause.IsZero() {
		for _, other := range r.group.replicas {
			other.mu.Lock()
			if !other.deaf && !other.away {
				other.Wake(apiKey)
			}
			other.mu.Unlock()
		}
	}
	return written, err
}

func (r *way) ask() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.times = append(r.times, time.Now())
	return r.dark
}

func (r *way) Generation(ctx context.Context, cred catalog.Credential, id string) (catalog.Version, error) {
	if err := r.ask(); err != nil {
		return catalog.Version{}, err
	}
	r.mu.Lock()
	hangs, lag := r.hangs, r.lags[id]
	r.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return catalog.Version{}, &catalog.Error{Kind: catalog.KindUnavailable, Op: "x"}
	}
	read, err := r.up.Generation(ctx, cred, id)
	if lag != 0 {
		r.up.with(func(u *upstream) { read = u.record(id, lag).Version() })
	}
	return read, err
}

func (r *way) List(ctx context.Context, cred catalog.Credential, since time.Time) (*catalog.List, error) {
	if err := r.ask(); err != nil {
		return nil, err
	}
	return r.up.List(ctx, cred, since)
}

func (r *way) Account(ctx context.Context, cred catalog.Credential) (catalog.Account, error) {
	return r.up.Account(ctx, cred)
}

// requests are those of a replica since a time.
func (r *way) requests(since time.Time) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, at := range r.times {
		if !at.Before(since) {
			n++
		}
	}
	return n
}

// claimsOf is how often the book was asked about polls.
func (r *way) claimsOf() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.claims
}

// lastRequest is when a replica has made its last one.
func (r *way) lastRequest() (at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.times); n > 0 {
		at = r.times[n-1]
	}
	return at
}

// inGroup runs a test with so many replicas in simulated time.
func inGroup(t *testing.T, n int, states map[string]catalog.State, test func(g *group)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		g := &group{t: t, up: newUpstream(states), ctx: ctx}
		g.newBook()
		g.up.delay = 20 * time.Millisecond
		for range n {
			g.join()
		}
		test(g)
		cancel()
		synctest.Wait()
		for _, r := range g.replicas {
			r.hub.Close()
		}
		for _, book := range g.books {
			if err := book.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// newBook gives the replicas an empty book.
func (g *group) newBook() {
	g.t.Helper()
	book, err := sql.Open(g.t.Context(), sql.Config{URL: sql.InMemory, Catalog: "https://catalog.example"})
	if err != nil {
		g.t.Fatal(err)
	}
	g.books = append(g.books, book)
	for _, r := range g.replicas {
		r.with(func(r *way) { r.book = sql.NewPolls(sql.PollsConfig{Ledger: book}) })
	}
}

// join starts one more replica.
func (g *group) join() *way {
	g.t.Helper()
	r := &way{Polls: sql.NewPolls(sql.PollsConfig{Ledger: g.books[len(g.books)-1]}), group: g}
	r.book = r.Polls
	hub, err := watch.New(watch.Config{Upstream: r, Seed: uint64(len(g.replicas) + 1), Book: r})
	if err != nil {
		g.t.Fatal(err)
	}
	r.bench = &bench{g.t, g.up, hub, g.ctx}
	g.replicas = append(g.replicas, r)
	return r
}

// watchAll has every replica watch some generations.
func (g *group) watchAll(ids ...string) (all []*seen) {
	for _, r := range g.replicas {
		all = append(all, r.watch(ids...))
	}
	return all
}

func (g *group) requests(since time.Time) (n int) {
	for _, at := range g.up.callTimes() {
		if !at.Before(since) {
			n++
		}
	}
	return n
}

func (g *group) wantStates(all []*seen, want ...string) {
	g.t.Helper()
	for n, s := range all {
		if got := s.states(); !slices.Equal(got, want) {
			g.t.Errorf("watch %d is told %v, want %v", n, got, want)
		}
	}
}

// requestsOf counts the requests of so many replicas that watch the same in some minutes.
func requestsOf(t *testing.T, replicas int, generations int, d time.Duration) (n int) {
	t.Helper()
	ids, states := manyIDs(generations)
	inGroup(t, replicas, states, func(g *group) {
		all := g.watchAll(ids...)
		pass(time.Minute)
		began := time.Now()
		for at := range 10 {
			g.up.set(ids[at%len(ids)], running)
			pass(d / 10)
		}
		n = g.requests(began)
		for k, s := range all {
			if got := len(s.look().updates); got != generations+min(10, generations) {
				t.Errorf("watch %d is told %d states", k, got)
			}
		}
	})
	return n
}

func TestEightReplicasCostTheRequestsOfOne(t *testing.T) {
	if testing.Short() {
		t.Skip("it is of scale: .ci/nightly runs it")
	}
	for _, of := range []struct {
		name        string
		generations int
		length      time.Duration
	}{{"sweeps", 100, 10 * time.Minute}, {"single reads", 2, 6 * time.Hour}} {
		one := requestsOf(t, 1, of.generations, of.length)
		for _, replicas := range []int{2, 4, 8} {
			n := requestsOf(t, replicas, of.generations, of.length)
			t.Logf("%s: %d replicas make %d requests, and one %d: %.4f", of.name, replicas, n, one, float64(n)/float64(one))
			if float64(n) > 1.005*float64(one) || float64(n) < 0.95*float64(one) {
				t.Errorf("%s: %d replicas make %d requests, and one %d", of.name, replicas, n, one)
			}
		}
	}
}

func TestAnotherPollsSoonAfterOneIsGone(t *testing.T) {
	ids, states := manyIDs(150) // so many that a sweep is due each second at any age
	inGroup(t, 2, states, func(g *group) {
		all := g.watchAll(ids...)
		pass(10 * time.Second)
		for range 20 {
			last := g.replicas[0] // whoever has claimed a poll then
			if g.replicas[1].lastRequest().After(last.lastRequest()) {
				last = g.replicas[1]
			}
			last.with(func(r *way) { r.dark, r.away = &catalog.Error{Kind: catalog.KindUnavailable, Op: "x"}, true })
			gone := time.Now()
			pass(1500 * time.Millisecond)
			for _, r := range g.replicas {
				if r != last && r.requests(gone) == 0 {
					t.Error("the other does not poll within a second and a half")
				}
			}
			last.with(func(r *way) { r.dark, r.away = nil, false })
			pass(30*time.Second + 77*time.Millisecond)
		}
		g.up.set(ids[0], running)
		pass(5 * time.Second)
		for _, s := range all {
			if got := s.look(); len(got.updates) != len(ids)+1 {
				t.Errorf("a watch is told %d states", len(got.updates))
			}
		}
	})
}

// Whoever begins to watch while another's sweep is on its way has nothing yet that says how soon the next one is due.
func TestAnotherPollsSoonAfterOneIsGoneThatWasPollingAsTheOtherBegan(t *testing.T) {
	ids, states := manyIDs(10)
	inGroup(t, 2, states, func(g *group) {
		g.up.delay = 500 * time.Millisecond
		held := catalog.Held(func() catalog.Secret { return catalog.NewSecret("held") }) // another one is proven first, by each
		first := g.replicas[0].watchWith(g.ctx, watch.Request{Credential: held, IDs: ids})
		pass(200 * time.Millisecond)
		second := g.replicas[1].watchWith(g.ctx, watch.Request{Credential: held, IDs: ids})
		pass(400 * time.Millisecond)
		if a, b := len(first.look().updates), len(second.look().updates); a != len(ids) || b != len(ids) || g.replicas[1].requests(time.Time{}) > 0 {
			t.Fatalf("%d and %d states are told before the first is gone, %d requests by the second", a, b, g.replicas[1].requests(time.Time{}))
		}
		g.replicas[0].hub.Close()
		gone := time.Now()
		pass(1500 * time.Millisecond)
		if g.replicas[1].requests(gone) == 0 {
			t.Error("the other makes no request")
		}
	})
}
