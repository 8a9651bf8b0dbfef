package limiter

import (
	"maps"
	"sync"
	"time"
)

const (
	keptLimiters = 64          // a set removes idle limiters only if it contains at least this number of limiters
	keptTime     = time.Minute // time without use after which an idle limiter may be removed
)

// Set contains one limiter for each API key in use. It is safe for concurrent use.
type Set struct {
	mu       sync.Mutex
	limiters map[string]*Limiter
	pruneAt  int // number of limiters at which [Set.Of] next removes idle limiters
}

// NewSet returns an empty set.
func NewSet() *Set { return &Set{limiters: map[string]*Limiter{}, pruneAt: keptLimiters} }

// Of returns the limiter for an API key, and creates it if necessary. Call Of again for each request, because the set
// may replace a limiter that has been idle for a minute.
func (s *Set) Of(key string) *Limiter {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.limiters[key]
	if l == nil {
		s.removeIdle(now)
		l = New(MaxInFlight)
		l.limit = firstInFlight
		s.limiters[key] = l
	}
	l.used = now
	return l
}

// removeIdle removes idle limiters if the set has at least pruneAt limiters. The caller must hold mu.
func (s *Set) removeIdle(now time.Time) {
	if len(s.limiters) < s.pruneAt {
		return
	}
	maps.DeleteFunc(s.limiters, func(_ string, l *Limiter) bool { return now.Sub(l.used) >= keptTime && l.State().isIdle(now) })
	s.pruneAt = max(keptLimiters, 2*len(s.limiters))
}

// States returns the state of each limiter, keyed by the argument of [Set.Of].
func (s *Set) States() map[string]State {
	s.mu.Lock()
	limiters := maps.Clone(s.limiters)
	s.mu.Unlock()
	states := make(map[string]State, len(limiters))
	for key, l := range limiters {
		states[key] = l.State()
	}
	return states
}
