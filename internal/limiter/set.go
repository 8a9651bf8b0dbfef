package limiter

import (
	"context"
	"sync"
	"time"
)

const (
	keptGates = 64          // that a set has before it looks for idle ones
	keptFor   = time.Minute // after its last use a gate may be forgotten, if it knows nothing
)

// Set has a gate for each API key that is in use. Its methods may be called at the same time.
type Set struct {
	cfg Config

	mu      sync.Mutex
	gates   map[string]*usedGate
	pruneAt int // number of gates from which idle ones are looked for
}

type usedGate struct {
	*Limiter
	used time.Time
}

// NewSet makes a set whose gates have one configuration.
func NewSet(cfg Config) *Set {
	return &Set{cfg: cfg, gates: map[string]*usedGate{}, pruneAt: keptGates}
}

// Of gives the gate of an API key, for one use: one that is idle for a minute may be another by the next.
func (s *Set) Of(key string) *Limiter {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.gates[key]
	if g == nil {
		s.prune(now)
		g = &usedGate{Limiter: New(s.cfg)}
		s.gates[key] = g
	}
	g.used = now
	return g.Limiter
}

// prune forgets gates that know nothing.
func (s *Set) prune(now time.Time) {
	if len(s.gates) < s.pruneAt {
		return
	}
	for key, g := range s.gates {
		if now.Sub(g.used) >= keptFor && g.IsIdle() {
			delete(s.gates, key)
		}
	}
	s.pruneAt = max(keptGates, 2*len(s.gates))
}

// States gives the state of each gate, by API key.
func (s *Set) States() map[string]State {
	s.mu.Lock()
	gates := make(map[string]*Limiter, len(s.gates))
	for key, g := range s.gates {
		gates[key] = g.Limiter
	}
	s.mu.Unlock()
	states := make(map[string]State, len(gates))
	for key, g := range gates {
		states[key] = g.State()
	}
	return states
}

type turnKey struct{}

// Context puts a turn into a context: the request that is made with it needs no other.
func (t *Permit) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, turnKey{}, t)
}

// TurnOf gives the turn that a context has; nil: it has none.
func TurnOf(ctx context.Context) *Permit {
	turn, _ := ctx.Value(turnKey{}).(*Permit)
	return turn
}
