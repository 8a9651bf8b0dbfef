package server

import (
	"context"
	"sync"
	"time"
)

const (
	// unverifiedPart is which part of each limit is for unverified API keys, which the catalog has never
	// accepted: anybody can make up any number of them.
	unverifiedPart = 8
	// A call under an unverified API key waits until the catalog has had time to accept the API key:
	// after a start every API key is unverified.
	unverifiedWait, unverifiedCheck = 2 * time.Second, 25 * time.Millisecond
	// unverifiedWaiting is how many calls wait at most.
	unverifiedWaiting = 1000
)

// unverifiedLimiter limits what is open under unverified API keys, all together. An API key that the
// catalog has accepted since does not count any more.
type unverifiedLimiter struct {
	limit    int
	accepted func(apiKey string) bool
	refused  refusals

	mu      sync.Mutex
	open    map[string]*usage // by API key
	total   int
	waiting int
	swept   time.Time // when the API keys were last looked at
}

// usage counts what is open under one API key since it was unverified. It counts for as long as it stands in
// the table.
type usage struct{ open int }

func newUnverifiedLimiter(limit int, accepted func(string) bool) *unverifiedLimiter {
	return &unverifiedLimiter{limit: max(1, limit), accepted: accepted, open: map[string]*usage{}}
}

// acquire waits until so many more may be open, or until the catalog has accepted the API key. release
// ends them, and must be called once.
func (l *unverifiedLimiter) acquire(ctx context.Context, apiKey string, count int) (release func(), err error) {
	u := l.try(apiKey, count)
	if u == nil {
		u = l.wait(ctx, apiKey, count)
	}
	if u != nil {
		return func() { l.release(apiKey, u, count) }, nil
	}
	return nil, overload("too much is asked under API keys that the catalog has not accepted yet", l.refused.delay())
}

// try counts so many in where the limit allows it, or does not concern the API key any more; else it
// gives nil.
func (l *unverifiedLimiter) try(apiKey string, count int) *usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total+count > l.limit {
		l.sweep()
	}
	if l.total+count <= l.limit {
		return l.add(apiKey, count)
	}
	if l.accepted(apiKey) {
		return &usage{}
	}
	return nil
}

// add counts so many in; mu is held.
func (l *unverifiedLimiter) add(apiKey string, count int) *usage {
	u := l.open[apiKey]
	if u == nil {
		u = &usage{}
		l.open[apiKey] = u
	}
	u.open += count
	l.total += count
	return u
}

// sweep counts out the API keys that were accepted since. It looks at as many API keys as the limit
// allows, so it is not done for each call.
func (l *unverifiedLimiter) sweep() {
	if time.Since(l.swept) < unverifiedCheck {
		return
	}
	l.swept = time.Now()
	for apiKey, u := range l.open {
		if l.accepted(apiKey) {
			l.total -= u.open
			delete(l.open, apiKey)
		}
	}
}

// wait tries until the call was counted in.
func (l *unverifiedLimiter) wait(ctx context.Context, apiKey string, count int) (counted *usage) {
	if !l.queue() {
		return nil
	}
	defer l.unqueue()
	ctx, cancel := context.WithTimeout(ctx, unverifiedWait)
	defer cancel()
	again := time.NewTicker(unverifiedCheck)
	defer again.Stop()
	for counted == nil {
		select {
		case <-again.C:
			counted = l.try(apiKey, count)
		case <-ctx.Done():
			return nil
		}
	}
	return counted
}

func (l *unverifiedLimiter) queue() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting >= unverifiedWaiting {
		return false
	}
	l.waiting++
	return true
}

func (l *unverifiedLimiter) unqueue() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting--
}

// release counts so many out. The API key may have been accepted since, and may even be unverified
// again.
func (l *unverifiedLimiter) release(apiKey string, u *usage, count int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[apiKey] != u {
		return
	}
	l.total -= count
	if u.open -= count; u.open == 0 {
		delete(l.open, apiKey)
	}
}
