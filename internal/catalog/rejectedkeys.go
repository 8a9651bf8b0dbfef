package catalog

import (
	"maps"
	"sync"
	"time"
)

const (
	// rejectedFor is the time after the rejection of an API key during which [Client.Rejection] returns the catalog's error.
	rejectedFor = 5 * time.Second
	// sharedRejectedFor is the time after a rejection of the shared API key during which background work does not use the key.
	sharedRejectedFor = 2 * time.Minute
	// rejectedLimit is the maximum number of API keys that are remembered as rejected.
	rejectedLimit = 1 << 16
)

// rejections contains the API keys that the catalog has rejected and has not accepted since.
type rejections struct {
	mu  sync.Mutex
	all map[Tenant]rejection
}

type rejection struct {
	err    error
	at     time.Time
	shared bool
}

func newRejections() *rejections { return &rejections{all: map[Tenant]rejection{}} }

// recordOutcome stores whether the catalog accepted or rejected an API key. If rejectedLimit rejections are already stored,
// it first deletes the rejections of forwarded API keys.
func (r *rejections) recordOutcome(cred Credential, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		delete(r.all, cred.Tenant)
	} else if KindOf(err) == KindCredentialRejected {
		if len(r.all) >= rejectedLimit {
			maps.DeleteFunc(r.all, func(_ Tenant, old rejection) bool { return !old.shared })
		}
		r.all[cred.Tenant] = rejection{err, time.Now(), cred.Shared}
	}
}

func (r *rejections) find(t Tenant) rejection {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[t]
}

// Rejection returns the error with which the catalog rejected an API key during the last five seconds. If the catalog did not
// reject the key during this time, or has accepted it since, Rejection returns nil.
func (c *Client) Rejection(t Tenant) error {
	if last := c.upstream.rejections.find(t); time.Since(last.at) < rejectedFor {
		return last.err
	}
	return nil
}

// Rejected reports whether the catalog rejected the shared API key during the last two minutes and has not accepted it since.
func (c *Client) Rejected() bool {
	return time.Since(c.upstream.rejections.find(sharedTenant).at) < sharedRejectedFor
}
