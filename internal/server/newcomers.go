package server

import (
	"context"
	"sync"
	"time"
)

const (
	// newcomersPart is which part of each limit is for API keys that the catalog has never
	// accepted: anybody can make up any number of them.
	newcomersPart = 8
	// A newcomer waits for a place until the catalog has had time to accept its API key: after a
	// start every key is one.
	newcomerPatience, newcomerCheck = 2 * time.Second, 25 * time.Millisecond
	// newcomersWaiting is how many wait at most.
	newcomersWaiting = 1000
)

// newcomers bounds what is open under API keys that the catalog has never accepted, all together.
// A key that it has accepted since takes no place here any more.
type newcomers struct {
	limit    int
	accepted func(key string) bool
	refused  refusals

	mu      sync.Mutex
	open    map[string]int // by key; none is 0
	total   int
	waiting int
	swept   time.Time // when the keys were last looked at
}

func newNewcomers(limit int, accepted func(string) bool) *newcomers {
	return &newcomers{limit: max(1, limit), accepted: accepted, open: map[string]int{}}
}

// take waits for a place, or for the catalog to accept the key, and gives what ends the place. That
// must be called once.
func (n *newcomers) take(ctx context.Context, key string) (leave func(), err error) {
	if n.try(key) || n.wait(ctx, key) {
		return func() { n.leave(key) }, nil
	}
	return nil, overload("too much is asked under API keys that the catalog has not accepted yet", n.refused.delay())
}

// try takes a place where there is one, or none is needed any more.
func (n *newcomers) try(key string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.total >= n.limit {
		n.sweep()
	}
	if n.total >= n.limit {
		return n.accepted(key)
	}
	n.open[key]++
	n.total++
	return true
}

// sweep gives back the places of the keys that were accepted since. It looks at as many keys as
// there are places, so it is not done for each call.
func (n *newcomers) sweep() {
	if time.Since(n.swept) < newcomerCheck {
		return
	}
	n.swept = time.Now()
	for key, places := range n.open {
		if n.accepted(key) {
			n.total -= places
			delete(n.open, key)
		}
	}
}

// wait tries until a place was taken.
func (n *newcomers) wait(ctx context.Context, key string) (taken bool) {
	if !n.queue() {
		return false
	}
	defer n.unqueue()
	ctx, cancel := context.WithTimeout(ctx, newcomerPatience)
	defer cancel()
	again := time.NewTicker(newcomerCheck)
	defer again.Stop()
	for !taken {
		select {
		case <-again.C:
			taken = n.try(key)
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func (n *newcomers) queue() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waiting >= newcomersWaiting {
		return false
	}
	n.waiting++
	return true
}

func (n *newcomers) unqueue() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting--
}

// leave ends a place, unless the key was accepted since.
func (n *newcomers) leave(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open[key] == 0 {
		return
	}
	n.total--
	if n.open[key]--; n.open[key] == 0 {
		delete(n.open, key)
	}
}
