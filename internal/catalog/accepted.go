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
	tenants  map[Tenant]acceptance
	rejected map[Tenant]bool // held API keys that the catalog has rejected last
}

// acceptance is that of one API key.
type acceptance struct {
	at      time.Time // last
	trusted time.Time // until then it counts as one of now
}

func newAccepted() *accepted {
	return &accepted{tenants: map[Tenant]acceptance{}, rejected: map[Tenant]bool{}}
}

// of is the acceptance of the API key of a tenant, zero where none is known.
func (a *accepted) of(t Tenant) acceptance {
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
	a.tenants[cred.Tenant] = acceptance{at: time.Now()}
	delete(a.rejected, cred.Tenant)
}

// AcceptedWithin reports whether the catalog has accepted the API key of a tenant within a time, or it is trusted: it has
// answered a request under the API key, and rejected none since.
func (c *Client) AcceptedWithin(t Tenant, within time.Duration) bool {
	accepted := c.upstream.accepted.of(t)
	return time.Since(accepted.at) < within || time.Now().Before(accepted.trusted)
}

// Trust lets the API key of a tenant that was accepted once count as accepted now, for a time, unless the catalog rejects
// it: there is no answer to be had from it.
func (c *Client) Trust(t Tenant, lasts time.Duration) {
	a := c.upstream.accepted
	a.mu.Lock()
	defer a.mu.Unlock()
	if one, known := a.tenants[t]; known {
		one.trusted = time.Now().Add(lasts)
		a.tenants[t] = one
	}
}

// Rejected reports whether the catalog has rejected a held API key, and accepted it at no request since.
func (c *Client) Rejected(t Tenant) bool {
	a := c.upstream.accepted
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.rejected[t]
}
