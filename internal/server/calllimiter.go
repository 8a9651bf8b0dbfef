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
	priorityRead                  // a read of one record, which a person may wait for
	priorityList                  // a list, which costs most and is missed least
	priorities
)

const (
	// callWait is how long a call waits to be admitted. It is short: a call that waits holds memory, and
	// a caller that hears "later" soon can do better.
	callWait = 250 * time.Millisecond
	// Lists may be three quarters of the calls, reads and lists together all but a sixteenth: calls that
	// the catalog never answers must not keep every order out.
	listShare, readShare = 3. / 4, 15. / 16
	// Beyond all limits one call in spareShare is for callers with fewer than fewCalls under way:
	// whatever one caller's calls wait for, the next call of another caller begins.
	spareShare, fewCalls = 16, 2
)

// callLimiter limits how many calls are under way at once. The catalog is the scarce part: the client
// reaches it over a bounded number of connections, and there a call waits for a connection without regard
// to its priority, until its time is over and the work for it was in vain. So the queue is here, where it
// is short and orders come first. One caller may have all calls; where several callers wait, the one with
// the fewest calls comes next.
type callLimiter struct {
	limit   [priorities]int // how many calls of a priority and of less important ones may run
	refused refusals

	mu       sync.Mutex
	running  [priorities]int
	byCaller map[string]int        // running; none is 0
	waiting  [priorities][]*waiter // in order of arrival
}

// waiter is a call that waits to be admitted.
type waiter struct {
	caller   string
	admitted chan struct{} // closed when it is
}

func newCallLimiter(all int) *callLimiter {
	l := &callLimiter{byCaller: map[string]int{}}
	l.limit[priorityOrder] = all
	l.limit[priorityRead] = max(1, int(float64(all)*readShare))
	l.limit[priorityList] = max(1, int(float64(all)*listShare))
	return l
}

// acquire waits until a caller's call may begin. release ends the call, and must be called once.
func (l *callLimiter) acquire(ctx context.Context, p priority, caller string) (release func(), err error) {
	w, ok := l.join(p, caller)
	if !ok || w != nil && !l.wait(ctx, p, w) {
		return nil, overload("more is asked of this server than it can serve", l.refused.delay())
	}
	return func() { l.release(p, caller) }, nil
}

// join gives nil where the call may begin at once, else its waiter. It is not ok where too many calls
// wait already.
func (l *callLimiter) join(p priority, caller string) (w *waiter, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free(p, caller) { // then no call waits that comes before
		l.begin(p, caller)
		return nil, true
	}
	if len(l.waiting[p]) >= l.limit[p] && !l.mayWait(p, caller) {
		return nil, false
	}
	w = &waiter{caller, make(chan struct{})}
	l.waiting[p] = append(l.waiting[p], w)
	return w, true
}

// mayWait reports whether a caller has so few waiting calls that one more may wait where the queue is
// full for all others. mu is held, here and below.
func (l *callLimiter) mayWait(p priority, caller string) bool {
	mine := 0
	for _, w := range l.waiting[p] {
		if w.caller == caller {
			mine++
		}
	}
	return mine < fewCalls && len(l.waiting[p]) < l.limit[p]+l.limit[p]/spareShare
}

// free reports whether a call of a priority may begin: calls of this priority and of each more important
// one must have some of their share left.
func (l *callLimiter) free(p priority, caller string) bool {
	below := 0
	for q := priorities - 1; q >= 0; q-- {
		below += l.running[q]
		limit := l.limit[q]
		if l.byCaller[caller] < fewCalls {
			limit += limit / spareShare
		}
		if q <= p && below >= limit {
			return false
		}
	}
	return true
}

func (l *callLimiter) begin(p priority, caller string) {
	l.running[p]++
	l.byCaller[caller]++
}

// wait reports whether the call was admitted in time.
func (l *callLimiter) wait(ctx context.Context, p priority, w *waiter) bool {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	select {
	case <-w.admitted:
		return true
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := slices.Index(l.waiting[p], w)
	if n < 0 {
		return true // it was admitted just now, and counts
	}
	l.waiting[p] = slices.Delete(l.waiting[p], n, n+1)
	return false
}

// release ends a call, and admits those that may begin now.
func (l *callLimiter) release(p priority, caller string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running[p]--
	if l.byCaller[caller]--; l.byCaller[caller] == 0 {
		delete(l.byCaller, caller)
	}
	for next := range priorities {
		for l.admitNext(next) {
			continue
		}
	}
}

// admitNext admits the waiting call of a priority whose caller has the fewest calls, if one may begin.
func (l *callLimiter) admitNext(p priority) bool {
	if len(l.waiting[p]) == 0 {
		return false
	}
	w := slices.MinFunc(l.waiting[p], func(a, b *waiter) int { return l.byCaller[a.caller] - l.byCaller[b.caller] })
	if !l.free(p, w.caller) {
		return false
	}
	l.waiting[p] = slices.DeleteFunc(l.waiting[p], func(other *waiter) bool { return other == w })
	l.begin(p, w.caller)
	close(w.admitted)
	return true
}

// inUse is how many calls are under way.
func (l *callLimiter) inUse() (running int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.running {
		running += n
	}
	return running
}
