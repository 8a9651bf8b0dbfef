package catalog

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
)

const (
	// reservedPart is the part of the slots, one in so many, that is reserved for sharers with few slots:
	// their next request need not wait, however long the others hold theirs.
	reservedPart = 16
	// fewSlots is how many slots a sharer has at most when it takes a reserved one.
	fewSlots = 2
)

// errNoConnection is the error of a request that was not sent: other requests had all connections for as
// long as it could wait.
var errNoConnection = errors.New("no connection to the catalog is free")

// limiter limits the requests of a pool that are in flight at once. One sharer may take nearly all slots;
// where several wait, the one with the fewest gets the next.
type limiter struct {
	limit int

	mu      sync.Mutex
	inUse   int
	byShare map[sharer]int
	waiting []*waiter // in order of arrival
}

// sharer is who shares the slots: an API key, and behind a held one an owner.
type sharer struct {
	key   [sha256.Size]byte // digest of the Authorization header
	owner string
}

type waiter struct {
	sharer
	granted chan struct{} // closed when it has a slot
}

func newLimiter(limit int) *limiter { return &limiter{limit: limit, byShare: map[sharer]int{}} }

// acquire waits for a slot.
func (l *limiter) acquire(ctx context.Context, s sharer) error {
	l.mu.Lock()
	if l.available(s) {
		l.grant(s)
		l.mu.Unlock()
		return nil
	}
	w := &waiter{s, make(chan struct{})}
	l.waiting = append(l.waiting, w)
	l.mu.Unlock()
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
		if l.cancelWait(w) {
			return fmt.Errorf("%w: %w", errNoConnection, context.Cause(ctx))
		}
		return nil
	}
}

// cancelWait ends a wait, unless its slot has come just now.
func (l *limiter) cancelWait(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := slices.Index(l.waiting, w)
	if n < 0 {
		return false
	}
	l.waiting = slices.Delete(l.waiting, n, n+1)
	return true
}

// available reports whether there is a slot for s; mu is held, here and in grant.
func (l *limiter) available(s sharer) bool {
	if l.byShare[s] < fewSlots {
		return l.inUse < l.limit
	}
	return l.inUse < l.limit-l.limit/reservedPart
}

func (l *limiter) grant(s sharer) {
	l.inUse++
	l.byShare[s]++
}

// release gives a slot back, to the waiting sharer with the fewest.
func (l *limiter) release(s sharer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inUse--
	if l.byShare[s]--; l.byShare[s] == 0 {
		delete(l.byShare, s)
	}
	if len(l.waiting) == 0 {
		return
	}
	next := slices.MinFunc(l.waiting, func(a, b *waiter) int { return l.byShare[a.sharer] - l.byShare[b.sharer] })
	if l.available(next.sharer) {
		l.waiting = slices.DeleteFunc(l.waiting, func(w *waiter) bool { return w == next })
		l.grant(next.sharer)
		close(next.granted)
	}
}

type ownerKey struct{}

// withOwner puts the owner of a request under a held API key into its context.
func withOwner(ctx context.Context, owner string) context.Context {
	if owner == "" {
		return ctx
	}
	return context.WithValue(ctx, ownerKey{}, owner)
}

// sharerOf is the sharer of a request.
func sharerOf(ctx context.Context, authorization string) sharer {
	owner, _ := ctx.Value(ownerKey{}).(string)
	return sharer{sha256.Sum256([]byte(authorization)), owner}
}
