package catalog

import (
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
