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
	// spare is the part of the places, one in so many, that is for those who have hardly any: however
	// long all others are taken, their next request need not wait.
	spare = 16
	// hardlyAny is how many places one may have and still take a spare one.
	hardlyAny = 2
)

// errNoPlace is why a request has not left: others had all connections for as long as it could wait.
var errNoPlace = errors.New("no connection to the catalog is free")

// places are how many requests of a pool may be under way at once. One alone may take nearly all; where
// several wait, whoever has the fewest gets the next.
type places struct {
	limit int

	mu      sync.Mutex
	taken   int
	of      map[holder]int
	waiting []*waiter // in order of arrival
}

// holder is who shares the places: an API key, and behind a held one an owner.
type holder struct {
	key   [sha256.Size]byte // of what Authorization says
	owner string
}

type waiter struct {
	holder
	turn chan struct{} // closed where a place has come
}

func newPlaces(limit int) *places { return &places{limit: limit, of: map[holder]int{}} }

// take waits for a place.
func (p *places) take(ctx context.Context, h holder) error {
	p.mu.Lock()
	if p.free(h) {
		p.give(h)
		p.mu.Unlock()
		return nil
	}
	w := &waiter{h, make(chan struct{})}
	p.waiting = append(p.waiting, w)
	p.mu.Unlock()
	select {
	case <-w.turn:
		return nil
	case <-ctx.Done():
		if p.left(w) {
			return fmt.Errorf("%w: %w", errNoPlace, context.Cause(ctx))
		}
		return nil
	}
}

// left ends a wait, unless its place has come just now.
func (p *places) left(w *waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := slices.Index(p.waiting, w)
	if n < 0 {
		return false
	}
	p.waiting = slices.Delete(p.waiting, n, n+1)
	return true
}

// free reports whether there is a place for h; mu is held, here and below.
func (p *places) free(h holder) bool {
	if p.of[h] < hardlyAny {
		return p.taken < p.limit
	}
	return p.taken < p.limit-p.limit/spare
}

func (p *places) give(h holder) {
	p.taken++
	p.of[h]++
}

// put gives a place back, to whoever waits and has the fewest.
func (p *places) put(h holder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.of[h]--; p.of[h] == 0 {
		delete(p.of, h)
	}
	if len(p.waiting) == 0 {
		return
	}
	next := slices.MinFunc(p.waiting, func(a, b *waiter) int { return p.of[a.holder] - p.of[b.holder] })
	if p.free(next.holder) {
		p.waiting = slices.DeleteFunc(p.waiting, func(w *waiter) bool { return w == next })
		p.give(next.holder)
		close(next.turn)
	}
}

type ownerKey struct{}

// withOwner notes in the context of a request whose it is, behind a held API key.
func withOwner(ctx context.Context, owner string) context.Context {
	if owner == "" {
		return ctx
	}
	return context.WithValue(ctx, ownerKey{}, owner)
}

// holderOf is whose a request is.
func holderOf(ctx context.Context, authorization string) holder {
	owner, _ := ctx.Value(ownerKey{}).(string)
	return holder{sha256.Sum256([]byte(authorization)), owner}
}
