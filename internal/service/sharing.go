package service

import (
	"context"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

// sharing reads what many watch. Each key has one reader, while somebody watches it and as long as what it has read is as
// good as new: callers that come and go cost no more than one that stays.
type sharing[K comparable, T any] struct {
	same     func(a, b T) bool
	least    time.Duration       // from the end of a read to the next: a read may wait on its way
	most     time.Duration       // between the beginnings of two reads, less up to a fifth, so that replicas fall out of step
	notifier *ledger.Notifier[K] // ask for a read; nil: nobody does
	below    func(time.Duration) time.Duration

	ctx  context.Context //nolint:containedctx // of all reads: none runs on a caller's context
	stop context.CancelFunc
	work sync.WaitGroup

	mu  sync.Mutex
	all map[K]*shared[T]
}

// unreadFor is how long what nobody watches is kept where nothing was read: callers can invent API keys without end.
const unreadFor = time.Second

func newSharing[K comparable, T any](same func(a, b T) bool, least, most time.Duration, notifier *ledger.Notifier[K], below func(time.Duration) time.Duration) *sharing[K, T] {
	ctx, stop := context.WithCancel(context.Background()) //nolint:gosec // close calls it
	return &sharing[K, T]{same: same, least: least, most: most, notifier: notifier, below: below, ctx: ctx, stop: stop, all: map[K]*shared[T]{}}
}

// close ends all reads, and waits for them.
func (s *sharing[K, T]) close() {
	s.stop()
	s.work.Wait()
}

// shared is what the watchers of one key have in common. The mutex of its sharing guards it.
type shared[T any] struct {
	read     func(context.Context) (T, error)
	watchers map[chan struct{}]bool
	replan   chan struct{} // of capacity 1
	newest   reading[T]
	began    time.Time // when the last read began
	soonest  time.Time // of the read after the last that ended
	dueAt    time.Time // of the next read
}

// reading is the newest that was read, and how the reads go.
type reading[T any] struct {
	value    T
	known    bool      // there is a value
	at       time.Time // when it was read
	since    time.Time // when that read began
	failures int       // reads in a row
	err      error     // of the last read
	next     time.Time // when the next read is due
}

// watching is one of the watchers of a key.
type watching[T any] struct {
	changed <-chan struct{} // there is something new
	newest  func() reading[T]
	leave   func()
}

// join begins to watch a key. What it reads is the same for all of its watchers.
func (s *sharing[K, T]) join(key K, read func(context.Context) (T, error)) watching[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.all[key]
	if one == nil {
		one = &shared[T]{read: read, watchers: map[chan struct{}]bool{}, replan: make(chan struct{}, 1)}
		s.all[key] = one
		s.work.Go(func() { s.run(key, one) })
	}
	if len(one.watchers) == 0 && !time.Now().Before(one.soonest) { // a read is on its way
		one.newest = reading[T]{}
	}
	changed := make(chan struct{}, 1)
	one.watchers[changed] = true
	s.hasten(one)
	return watching[T]{changed, func() reading[T] { return s.look(one) }, func() { s.leave(one, changed) }}
}

func (s *sharing[K, T]) look(one *shared[T]) reading[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	newest := one.newest
	newest.next = one.dueAt
	return newest
}

func (s *sharing[K, T]) leave(one *shared[T], changed chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(one.watchers, changed)
	notify(one.replan)
}

// hasten has the key read as soon as it may be; mu is held.
func (s *sharing[K, T]) hasten(one *shared[T]) {
	if one.soonest.Before(one.dueAt) {
		one.dueAt = one.soonest
	}
	notify(one.replan)
}

// run reads a key until nobody watches it for long enough.
func (s *sharing[K, T]) run(key K, one *shared[T]) {
	var rings <-chan struct{}
	if s.notifier != nil {
		heard, stop := s.notifier.Subscribe(key)
		defer stop()
		rings = heard
	}
	for s.rest(key, one, rings) {
		s.begin(one)
		value, err := one.read(s.ctx)
		s.took(one, value, err)
	}
}

// rest waits until a read is due. It reports false where none will be.
func (s *sharing[K, T]) rest(key K, one *shared[T], rings <-chan struct{}) bool {
	for {
		until, over := s.plan(key, one, time.Now())
		wait := time.Until(until)
		if over || wait <= 0 {
			return !over
		}
		select {
		case <-time.After(wait):
		case <-one.replan:
		case <-rings:
			s.mu.Lock()
			s.hasten(one)
			s.mu.Unlock()
		case <-s.ctx.Done():
			return false
		}
	}
}

// plan says when the key is to be read, or to be forgotten, which it does.
func (s *sharing[K, T]) plan(key K, one *shared[T], now time.Time) (until time.Time, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(one.watchers) > 0 {
		return one.dueAt, false
	}
	until = one.began.Add(unreadFor)
	if one.newest.known {
		until = one.soonest
	}
	if over = !now.Before(until); over {
		delete(s.all, key)
	}
	return until, over
}

func (s *sharing[K, T]) begin(one *shared[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.began = time.Now()
	one.dueAt = one.began.Add(max(s.least, s.most-s.below(s.most/5)))
}

// took takes in what was read, or that nothing could be.
func (s *sharing[K, T]) took(one *shared[T], value T, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	newest := &one.newest
	newest.err = err
	one.soonest = time.Now().Add(s.least)
	if one.dueAt.Before(one.soonest) { // somebody has asked for it in the meantime
		one.dueAt = one.soonest
	}
	if err != nil {
		one.tell()
		newest.failures++
		if pause := time.Now().Add(min(s.least<<min(newest.failures-1, 10), s.most)); pause.Before(one.dueAt) {
			one.dueAt = pause
		}
		return
	}
	same := newest.known && s.same(newest.value, value)
	*newest = reading[T]{value: value, known: true, at: time.Now(), since: one.began}
	if !same {
		one.tell()
	}
}

// tell wakes the watchers.
func (one *shared[T]) tell() {
	for changed := range one.watchers {
		notify(changed)
	}
}

// notify fills a channel of capacity 1.
func notify(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
