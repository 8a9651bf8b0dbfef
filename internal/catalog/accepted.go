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
	mu       sync.Mutex
	tenants  map[Tenant]time.Time // when it was accepted last
	rejected map[Tenant]bool      // held API keys that the catalog has rejected last
}

func newAccepted() *accepted {
	return &accepted{tenants: map[Tenant]time.Time{}, rejected: map[Tenant]bool{}}
}

// at is when the API key of a tenant was accepted last, zero where that is not known.
func (a *accepted) at(t Tenant) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tenants[t]
}

// record learns from the end of a request. Every 2xx proves the API key, as the catalog always requires one. Where there
// are too many tenants, it forgets any other.
func (a *accepted) record(cred Credential, err error) {
	if err != nil && KindOf(err) != KindCredentialRejected {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.tenants, cred.Tenant)
	if err != nil {
		if cred.Held {
			a.rejected[cred.Tenant] = true
		}
		return
	}
	for other := range a.tenants {
		if len(a.tenants) < acceptedLimit {
			break
		}
		delete(a.tenants, other)
	}
	a.tenants[cred.Tenant] = time.Now()
	delete(a.rejected, cred.Tenant)
}

// AcceptedWithin reports whether the catalog has accepted the API key of a tenant within a time: it has answered a request
// under the API key, and rejected none since.
func (c *Client) AcceptedWithin(t Tenant, within time.Duration) bool {
	return time.Since(c.upstream.accepted.at(t)) < within
}

// Rejected reports whether the catalog has rejected a held API key, and accepted it at no request since.
func (c *Client) Rejected(t Tenant) bool {
	a := c.upstream.accepted
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.rejected[t]
}
