package telemetry

import (
	"maps"
	"sync"
	"time"
)

// silence is which keys the catalog does not answer, as calls meet it.
type silence struct {
	mu   sync.Mutex
	keys map[string]outage // by fingerprint, at most mostFailures
}

// outage is when requests have failed that were answered neither before nor since.
type outage struct{ first, last time.Time }

// failed notes a request that was not answered.
func (s *silence) failed(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.clean(now)
	o, known := s.keys[key]
	if !known && len(s.keys) == mostFailures {
		return
	}
	if !known {
		o.first = now
	}
	o.last = now
	s.keys[key] = o
}

// answered notes one that was.
func (s *silence) answered(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys, key)
}

// now gives how long each has lasted.
func (s *silence) now() map[string]time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.clean(now)
	lasting := map[string]time.Duration{}
	for key, o := range s.keys {
		lasting[key] = now.Sub(o.first)
	}
	return lasting
}

// clean forgets what nobody has asked for so long that it says nothing any more; mu is held.
func (s *silence) clean(now time.Time) {
	maps.DeleteFunc(s.keys, func(_ string, o outage) bool { return now.Sub(o.last) > failureInterval })
}
