package catalog

import "sync"

// acceptedLimit is how many API keys are remembered as accepted.
const acceptedLimit = 1 << 16

// accepted remembers the tenants whose API key the catalog has accepted lately. Invented API keys, of
// which there may be any number, never get in.
type accepted struct {
	mu      sync.RWMutex
	tenants map[Tenant]struct{}
}

func newAccepted() *accepted { return &accepted{tenants: map[Tenant]struct{}{}} }

func (a *accepted) has(t Tenant) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	_, ok := a.tenants[t]
	return ok
}

// record learns from the end of a request. Every 2xx proves the API key, as the catalog always requires one.
func (a *accepted) record(t Tenant, err error) {
	switch known := a.has(t); {
	case err == nil && !known:
		a.add(t)
	case known && KindOf(err) == KindCredentialRejected:
		a.remove(t)
	}
}

// add remembers one more tenant. Where there are too many, it forgets any other.
func (a *accepted) add(t Tenant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for other := range a.tenants {
		if len(a.tenants) < acceptedLimit {
			break
		}
		delete(a.tenants, other)
	}
	a.tenants[t] = struct{}{}
}

func (a *accepted) remove(t Tenant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.tenants, t)
}

// Accepted reports whether the catalog has accepted the API key of a tenant lately: it has answered
// a request under the API key, and rejected none since.
func (c *Client) Accepted(t Tenant) bool { return c.upstream.accepted.has(t) }
