package server

import (
	"context"
	"slices"
	"sync"
	"time"
)

// rank is how much it matters that a call is served when not all can be.
type rank int

const (
	rankOrder rank = iota // a paid order
	rankRead              // what is asked of one record, and what a person waits for
	rankList              // what costs most and is missed least
	ranks
)

const (
	// turnPatience is how long a call waits for its turn. It is short: a call that
	// waits holds memory, and a caller that hears "later" soon can do better.
	turnPatience = 250 * time.Millisecond
	// Lists take at most three quarters of the turns, reads and lists together all but
	// a sixteenth: what the catalog never answers must not keep every order out.
	listShare, readShare = 3. / 4, 15. / 16
)

// turns bound how many calls are under way at once. What is scarce is the catalog: it
// is reached over a bounded number of connections, and a call for which none is free
// waits in the client with no regard to what it is, until its time is over and the work
// for it was in vain. So the queue is here, where it is short and orders come first.
type turns struct {
	limit   [ranks]int // how many of a rank and the ranks below it may run
	refused refusals

	mu      sync.Mutex
	running [ranks]int
	waiting [ranks][]chan struct{} // in order of arrival; closed where the turn has come
}

func newTurns(all int) *turns {
	t := &turns{}
	t.limit[rankOrder] = all
	t.limit[rankRead] = max(1, int(float64(all)*readShare))
	t.limit[rankList] = max(1, int(float64(all)*listShare))
	return t
}

// take waits for the turn of a call, and gives what ends it. That must be called once.
func (t *turns) take(ctx context.Context, r rank) (leave func(), err error) {
	turn, ok := t.join(r)
	if !ok || turn != nil && !t.wait(ctx, r, turn) {
		return nil, overload("more is asked of this server than it can serve", t.refused.delay())
	}
	return func() { t.leave(r) }, nil
}

// join gives nil where the call may begin at once, else what it waits for; it is not ok
// where too many wait already.
func (t *turns) join(r rank) (turn chan struct{}, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.free(r) { // then nobody waits who comes first
		t.running[r]++
		return nil, true
	}
	if len(t.waiting[r]) >= t.limit[r] {
		return nil, false
	}
	turn = make(chan struct{})
	t.waiting[r] = append(t.waiting[r], turn)
	return turn, true
}

// free reports whether a call of a rank may begin: whether those that matter as little as
// it does, and as little as each rank above, have not all of their share.
func (t *turns) free(r rank) bool {
	below := 0
	for q := ranks - 1; q >= 0; q-- {
		below += t.running[q]
		if q <= r && below >= t.limit[q] {
			return false
		}
	}
	return true
}

// wait reports whether the turn came in time.
func (t *turns) wait(ctx context.Context, r rank, turn chan struct{}) bool {
	ctx, cancel := context.WithTimeout(ctx, turnPatience)
	defer cancel()
	select {
	case <-turn:
		return true
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n := slices.Index(t.waiting[r], turn)
	if n < 0 {
		return true // it came just now, and counts
	}
	t.waiting[r] = slices.Delete(t.waiting[r], n, n+1)
	return false
}

// leave ends a turn and hands it on.
func (t *turns) leave(r rank) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running[r]--
	for next := range ranks {
		for len(t.waiting[next]) > 0 && t.free(next) {
			close(t.waiting[next][0])
			t.waiting[next] = slices.Delete(t.waiting[next], 0, 1)
			t.running[next]++
		}
	}
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
