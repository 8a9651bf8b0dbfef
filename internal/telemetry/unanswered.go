package telemetry

import (
	"maps"
	"sync"
	"time"
)

// unansweredKeys holds the API keys whose calls the catalog does not answer.
type unansweredKeys struct {
	mu   sync.Mutex
	keys map[string]outage // by fingerprint, at most maxFailures
}

// outage is the time of the first and the last unanswered request since the last answer.
type outage struct{ first, last time.Time }

// failed notes a request without an answer.
func (s *unansweredKeys) failed(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.forgetOld(now)
	o, known := s.keys[key]
	if !known && len(s.keys) == maxFailures {
		return
	}
	if !known {
		o.first = now
	}
	o.last = now
	s.keys[key] = o
}

// answered notes a request with an answer.
func (s *unansweredKeys) answered(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys, key)
}

// now gives the duration of each outage.
func (s *unansweredKeys) now() map[string]time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.forgetOld(now)
	lasting := map[string]time.Duration{}
	for key, o := range s.keys {
		lasting[key] = now.Sub(o.first)
	}
	return lasting
}

// forgetOld forgets outages without a request for so long that they say nothing any more; mu is held.
func (s *unansweredKeys) forgetOld(now time.Time) {
	maps.DeleteFunc(s.keys, func(_ string, o outage) bool { return now.Sub(o.last) > failureInterval })
}
