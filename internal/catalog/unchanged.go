package catalog

import "sync"

const (
	// maxSingles is how many answers about single generations are remembered. maxSingle is the
	// size of the largest, in bytes.
	maxSingles = 1000
	maxSingle  = 4 << 10
)

// unchanged caches decoded records of single generations by their bytes.
type unchanged struct {
	mu      sync.Mutex
	singles map[singleKey]lastSingle
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
	return &unchanged{singles: map[singleKey]lastSingle{}}
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
