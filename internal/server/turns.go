package server

import (
	"context"
	"slices"
	"sync"
	"time"
)

// priority orders the calls that compete for the catalog: the lowest comes first.
type priority int

const (
	priorityOrder priority = iota // a paid order
	priorityRead                  // what is asked of one record, and what a person waits for
	priorityList                  // what costs most and is missed least
	priorities
)

const (
	// turnPatience is how long a call waits for its turn. It is short: a call that
	// waits holds memory, and a caller that hears "later" soon can do better.
	turnPatience = 250 * time.Millisecond
	// Lists take at most three quarters of the turns, reads and lists together all but
	// a sixteenth: what the catalog never answers must not keep every order out.
	listShare, readShare = 3. / 4, 15. / 16
	// Beyond all limits one turn in spareShare is for callers who have fewer than hardlyAny: whatever one
	// caller's calls wait for, another's next one begins.
	spareShare, hardlyAny = 16, 2
)

// turns bound how many calls are under way at once. What is scarce is the catalog: it
// is reached over a bounded number of connections, and a call for which none is free
// waits in the client with no regard to what it is, until its time is over and the work
// for it was in vain. So the queue is here, where it is short and orders come first. One caller may
// take all; where several wait, the next turn is for whoever has the fewest.
type turns struct {
	limit   [priorities]int // how many calls of a priority and of less important ones may run
	refused refusals

	mu      sync.Mutex
	running [priorities]int
	of      map[string]int        // running, by caller; none is 0
	waiting [priorities][]*waiter // in order of arrival
}

// waiter is a call that waits for its turn.
type waiter struct {
	caller string
	turn   chan struct{} // closed where it has come
}

func newTurns(all int) *turns {
	t := &turns{of: map[string]int{}}
	t.limit[priorityOrder] = all
	t.limit[priorityRead] = max(1, int(float64(all)*readShare))
	t.limit[priorityList] = max(1, int(float64(all)*listShare))
	return t
}

// take waits for the turn of a caller's call, and gives what ends it. That must be called once.
func (t *turns) take(ctx context.Context, p priority, caller string) (leave func(), err error) {
	w, ok := t.join(p, caller)
	if !ok || w != nil && !t.wait(ctx, p, w) {
		return nil, overload("more is asked of this server than it can serve", t.refused.delay())
	}
	return func() { t.leave(p, caller) }, nil
}

// join gives nil where the call may begin at once, else what waits for it; it is not ok
// where too many wait already.
func (t *turns) join(p priority, caller string) (w *waiter, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.free(p, caller) { // then nobody waits who comes first
		t.begin(p, caller)
		return nil, true
	}
	if len(t.waiting[p]) >= t.limit[p] && !t.mayWait(p, caller) {
		return nil, false
	}
	w = &waiter{caller, make(chan struct{})}
	t.waiting[p] = append(t.waiting[p], w)
	return w, true
}

// mayWait reports whether a caller has so few that wait that one more may where all others are too many;
// mu is held, here and below.
func (t *turns) mayWait(p priority, caller string) bool {
	mine := 0
	for _, w := range t.waiting[p] {
		if w.caller == caller {
			mine++
		}
	}
	return mine < hardlyAny && len(t.waiting[p]) < t.limit[p]+t.limit[p]/spareShare
}

// free reports whether a call of a priority may begin: calls of this priority and of each more important
// one must have some of their share left.
func (t *turns) free(p priority, caller string) bool {
	below := 0
	for q := priorities - 1; q >= 0; q-- {
		below += t.running[q]
		limit := t.limit[q]
		if t.of[caller] < hardlyAny {
			limit += limit / spareShare
		}
		if q <= p && below >= limit {
			return false
		}
	}
	return true
}

func (t *turns) begin(p priority, caller string) {
	t.running[p]++
	t.of[caller]++
}

// wait reports whether the turn came in time.
func (t *turns) wait(ctx context.Context, p priority, w *waiter) bool {
	ctx, cancel := context.WithTimeout(ctx, turnPatience)
	defer cancel()
	select {
	case <-w.turn:
		return true
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n := slices.Index(t.waiting[p], w)
	if n < 0 {
		return true // it came just now, and counts
	}
	t.waiting[p] = slices.Delete(t.waiting[p], n, n+1)
	return false
}

// leave ends a turn and hands it on.
func (t *turns) leave(p priority, caller string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running[p]--
	if t.of[caller]--; t.of[caller] == 0 {
		delete(t.of, caller)
	}
	for next := range priorities {
		for t.handOn(next) {
			continue
		}
	}
}

// handOn gives a turn to the call of a priority that waits and whose caller has the fewest, if one may begin.
func (t *turns) handOn(p priority) bool {
	if len(t.waiting[p]) == 0 {
		return false
	}
	w := slices.MinFunc(t.waiting[p], func(a, b *waiter) int { return t.of[a.caller] - t.of[b.caller] })
	if !t.free(p, w.caller) {
		return false
	}
	t.waiting[p] = slices.DeleteFunc(t.waiting[p], func(other *waiter) bool { return other == w })
	t.begin(p, w.caller)
	close(w.turn)
	return true
}

// taken is how many calls are under way.
func (t *turns) taken() (running int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.running {
		running += n
	}
	return running
}
