package catalog

import (
	"sync"
	"time"
)

const (
	// maxRemembered is the largest list whose records are remembered, in bytes of its body. Its decoded
	// records take a few times as much.
	maxRemembered = 1 << 20
	// rememberTime is how long the records of a credential's last list are remembered.
	rememberTime = 5 * time.Minute
	// maxSingles is how many answers about single generations are remembered. maxSingle is the
	// size of the largest, in bytes.
	maxSingles = 1000
	maxSingle  = 4 << 10
)

// unchanged caches decoded records by their bytes: those of the last list of each credential, and those
// of single generations.
type unchanged struct {
	mu      sync.Mutex
	lists   map[Tenant]lastList
	singles map[singleKey]lastSingle
}

type lastList struct {
	redactor redactor // that the records were read with: a held API key may be rotated
	records  map[string]Version
	forget   *time.Timer
}

type singleKey struct {
	tenant Tenant
	id     string
}

type lastSingle struct {
	redactor redactor
	body     string
	version  Version
}

func newUnchanged() *unchanged {
	return &unchanged{lists: map[Tenant]lastList{}, singles: map[singleKey]lastSingle{}}
}

// list gives the records of a credential's last list; nil where there are none, or they were read under
// another API key.
func (u *unchanged) list(tenant Tenant, redact redactor) map[string]Version {
	u.mu.Lock()
	defer u.mu.Unlock()
	if last, ok := u.lists[tenant]; ok && last.redactor.same(redact) {
		return last.records
	}
	return nil
}

// keepList keeps the records of an answer in place of those before.
func (u *unchanged) keepList(tenant Tenant, a answer, records map[string]Version) {
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

// single gives the decoded record of the last answer about a generation, where this answer has the same
// bytes under the same API key.
func (u *unchanged) single(tenant Tenant, id string, a answer) (Version, bool) {
	u.mu.Lock()
	last, ok := u.singles[singleKey{tenant, id}]
	u.mu.Unlock()
	if !ok || last.body != string(a.body) || !last.redactor.same(a.redactor) {
		return Version{}, false
	}
	last.version.ObserveTime = a.time
	return last.version, true
}

// keepSingle keeps the decoded record of an answer about a generation. Where there are too many, it drops
// any others.
func (u *unchanged) keepSingle(tenant Tenant, id string, a answer, v Version) {
	key := singleKey{tenant, id}
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.singles, key)
	if len(a.body) > maxSingle {
		return
	}
	for other := range u.singles {
		if len(u.singles) < maxSingles {
			break
		}
		delete(u.singles, other)
	}
	u.singles[key] = lastSingle{a.redactor, string(a.body), v}
}
