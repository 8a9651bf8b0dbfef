package catalog

import (
	"context"
	"encoding/json"
	"sync"
	"time"
)

const (
	// maxRemembered is the largest list whose records are remembered, in bytes of its body. What was
	// read of it takes a few times as much.
	maxRemembered = 1 << 20
	// rememberTime is how long the records of a credential are remembered that lists nothing.
	rememberTime = 5 * time.Minute
)

// Listed is a generation as a list has it, with its etag.
type Listed struct {
	Generation
	Etag string
}

// Listed is the generation with its etag.
func (g Generation) Listed() Listed { return Listed{Generation: g, Etag: g.Etag()} }

// List reads what [Client.Generations] does, for a caller that lists again and again: a record whose
// bytes are what they were in the last list of the credential is not decoded again.
func (c *Client) List(ctx context.Context, cred Credential) ([]Listed, error) {
	return fetch(ctx, c, cred, request{op: opGenerations}, func(a answer) ([]Listed, error) {
		all, records, err := readListed(a, c.unchanged.of(cred.Tenant, a.redactor))
		if err == nil {
			c.unchanged.keep(cred.Tenant, a, records)
		}
		return all, err
	})
}

// readListed reads a list with the help of the records of the last one, and gives those of this one.
func readListed(a answer, last map[string]Listed) ([]Listed, map[string]Listed, error) {
	records := map[string]Listed{}
	all, err := readList(a, func(item any) (Listed, bool) {
		raw, _ := item.(json.RawMessage)
		one, ok := last[string(raw)]
		if !ok {
			var g Generation
			if g, ok = a.listedGeneration(item); ok {
				one = g.Listed()
			}
		}
		one.ObserveTime = a.time
		if ok && raw != nil {
			records[string(raw)] = one
		}
		return one, ok
	})
	return all, records, err
}

// unchanged remembers the records of the last list of each credential, by their bytes.
type unchanged struct {
	mu    sync.Mutex
	lists map[Tenant]lastList
}

type lastList struct {
	redactor redactor // what was taken out of them: a held API key may be rotated
	records  map[string]Listed
	forget   *time.Timer
}

func newUnchanged() *unchanged { return &unchanged{lists: map[Tenant]lastList{}} }

// of gives the records of a credential, nil where there are none or they were read under another API key.
func (u *unchanged) of(tenant Tenant, redact redactor) map[string]Listed {
	u.mu.Lock()
	defer u.mu.Unlock()
	if last, ok := u.lists[tenant]; ok && last.redactor.same(redact) {
		return last.records
	}
	return nil
}

// keep takes the records of an answer in place of those before.
func (u *unchanged) keep(tenant Tenant, a answer, records map[string]Listed) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if last, ok := u.lists[tenant]; ok {
		last.forget.Stop()
		delete(u.lists, tenant)
	}
	if len(a.body) <= maxRemembered {
		u.lists[tenant] = lastList{redactor: a.redactor, records: records, forget: time.AfterFunc(rememberTime, func() { u.drop(tenant) })}
	}
}

func (u *unchanged) drop(tenant Tenant) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.lists, tenant)
}
