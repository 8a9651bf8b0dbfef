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
)

// unchanged caches the decoded records of the last list of each credential by their bytes.
type unchanged struct {
	mu    sync.Mutex
	lists map[Tenant]lastList
}

type lastList struct {
	key     string // the API key that the records were read under: a held one may be rotated
	records map[string]Version
	forget  *time.Timer
}

// list gives the records of a credential's last list; nil where there are none, or they were read under
// another API key.
func (u *unchanged) list(tenant Tenant, redact redactor) map[string]Version {
	u.mu.Lock()
	defer u.mu.Unlock()
	if last, ok := u.lists[tenant]; ok && last.key == redact.key {
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
		u.lists[tenant] = lastList{key: a.redactor.key, records: records, forget: time.AfterFunc(rememberTime, func() { u.drop(tenant) })}
	}
}

func (u *unchanged) drop(tenant Tenant) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.lists, tenant)
}
