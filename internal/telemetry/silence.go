package telemetry

import (
	"maps"
	"sync"
	"time"
)

// silence is which keys the catalog does not answer, as calls meet it. The zero value is ready.
type silence struct {
	mu   sync.Mutex
	keys map[string]outage // by fingerprint, at most mostFailures
}

// outage is when requests have failed that were answered neither before nor since.
type outage struct{ first, last time.Time }

// over reports whether nobody has asked for so long that it says nothing any more.
func (o outage) over(now time.Time) bool { return now.Sub(o.last) > failureInterval }

// failed notes a request that was not answered.
func (s *silence) failed(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.clean(now)
	o, known := s.keys[key]
	switch {
	case known:
		s.keys[key] = outage{o.first, now}
	case len(s.keys) < mostFailures:
		if s.keys == nil {
			s.keys = map[string]outage{}
		}
		s.keys[key] = outage{now, now}
	}
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

// clean forgets what is over; mu is held.
func (s *silence) clean(now time.Time) {
	maps.DeleteFunc(s.keys, func(_ string, o outage) bool { return o.over(now) })
}
