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
	open    map[string]*places // by key
	total   int
	waiting int
	swept   time.Time // when the keys were last looked at
}

// places are what is open under one key since it was a newcomer's. They count for as long as they
// stand in the table.
type places struct{ open int }

func newNewcomers(limit int, accepted func(string) bool) *newcomers {
	return &newcomers{limit: max(1, limit), accepted: accepted, open: map[string]*places{}}
}

// take waits for so many places, or for the catalog to accept the key, and gives what ends the places.
// That must be called once.
func (n *newcomers) take(ctx context.Context, key string, count int) (leave func(), err error) {
	p := n.try(key, count)
	if p == nil {
		p = n.wait(ctx, key, count)
	}
	if p != nil {
		return func() { n.leave(key, p, count) }, nil
	}
	return nil, overload("too much is asked under API keys that the catalog has not accepted yet", n.refused.delay())
}

// try takes places where there are enough, or none is needed any more; else it gives nil.
func (n *newcomers) try(key string, count int) *places {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.total+count > n.limit {
		n.sweep()
	}
	if n.total+count <= n.limit {
		return n.add(key, count)
	}
	if n.accepted(key) {
		return &places{}
	}
	return nil
}

// add adds places; mu is held.
func (n *newcomers) add(key string, count int) *places {
	p := n.open[key]
	if p == nil {
		p = &places{}
		n.open[key] = p
	}
	p.open += count
	n.total += count
	return p
}

// sweep gives back the places of the keys that were accepted since. It looks at as many keys as
// there are places, so it is not done for each call.
func (n *newcomers) sweep() {
	if time.Since(n.swept) < newcomerCheck {
		return
	}
	n.swept = time.Now()
	for key, p := range n.open {
		if n.accepted(key) {
			n.total -= p.open
			delete(n.open, key)
		}
	}
}

// wait tries until places were taken.
func (n *newcomers) wait(ctx context.Context, key string, count int) (taken *places) {
	if !n.queue() {
		return nil
	}
	defer n.unqueue()
	ctx, cancel := context.WithTimeout(ctx, newcomerPatience)
	defer cancel()
	again := time.NewTicker(newcomerCheck)
	defer again.Stop()
	for taken == nil {
		select {
		case <-again.C:
			taken = n.try(key, count)
		case <-ctx.Done():
			return nil
		}
	}
	return taken
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

// leave ends places. The key may have been accepted since, and may even be a newcomer's again.
func (n *newcomers) leave(key string, p *places, count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open[key] != p {
		return
	}
	n.total -= count
	if p.open -= count; p.open == 0 {
		delete(n.open, key)
	}
}
