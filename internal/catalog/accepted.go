package catalog

import (
	"sync"
	"time"
)

// acceptedLimit is how many API keys are remembered as accepted.
const acceptedLimit = 1 << 16

// accepted remembers the tenants whose API key the catalog has accepted lately. Invented API keys, of
// which there may be any number, never get in.
type accepted struct {
	mu       sync.RWMutex
	tenants  map[Tenant]time.Time // when it was noted last
	rejected map[Tenant]bool      // held API keys that the catalog has rejected last
}

// acceptedEvery is how often the time of an acceptance is noted.
const acceptedEvery = 10 * time.Second

func newAccepted() *accepted {
	return &accepted{tenants: map[Tenant]time.Time{}, rejected: map[Tenant]bool{}}
}

func (a *accepted) at(t Tenant) (at time.Time, known bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	at, known = a.tenants[t]
	return at, known
}

func (a *accepted) has(t Tenant) bool {
	_, known := a.at(t)
	return known
}

// record learns from the end of a request. Every 2xx proves the API key, as the catalog always requires one.
func (a *accepted) record(cred Credential, err error) {
	t, rejection := cred.Tenant, KindOf(err) == KindCredentialRejected
	switch at, known := a.at(t); {
	case err == nil && time.Since(at) > acceptedEvery:
		a.add(t)
	case rejection && (known || cred.Held):
		a.remove(t, cred.Held)
	}
}

// add remembers one more tenant. Where there are too many, it forgets any other.
func (a *accepted) add(t Tenant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for other := range a.tenants {
		if _, known := a.tenants[t]; known || len(a.tenants) < acceptedLimit {
			break
		}
		delete(a.tenants, other)
	}
	a.tenants[t] = time.Now()
	delete(a.rejected, t)
}

func (a *accepted) remove(t Tenant, held bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.tenants, t)
	if held {
		a.rejected[t] = true
	}
}

// Accepted reports whether the catalog has accepted the API key of a tenant lately: it has answered
// a request under the API key, and rejected none since.
func (c *Client) Accepted(t Tenant) bool {
	return c.upstream.accepted.has(t)
}

// AcceptedWithin reports whether it did so within a time, which is known to within ten seconds.
func (c *Client) AcceptedWithin(t Tenant, within time.Duration) bool {
	at, known := c.upstream.accepted.at(t)
	return known && time.Since(at) < within
}

// Rejected reports whether the catalog has rejected a held API key, and accepted it at no request since.
func (c *Client) Rejected(t Tenant) bool {
	a := c.upstream.accepted
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.rejected[t]
}
