package catalog

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// listAge is the maximum age of a list that serves another caller.
const listAge = time.Second

// lists reads one list of an API key at a time, and shares it with the callers of its second.
type lists struct {
	reads singleflight.Group

	mu  sync.Mutex
	all map[Tenant]listRead // latest lists, for a second each
}

// listRead is a list, or the error in its place.
type listRead struct {
	start time.Time // time when the request was sent; zero if it was not sent
	list  *List
	err   error
}

// serves reports whether a read is the response of the catalog to a request that was sent at a time or later.
func (r listRead) serves(since time.Time) bool {
	_, responded := errors.AsType[*Error](r.err)
	return !r.start.IsZero() && !r.start.Before(since) && (r.list != nil || responded)
}

// get returns a list whose request was sent at a time or later, and within the last second. The read ends with the context of
// the caller that started it. Then another caller starts the next one.
func (l *lists) get(ctx context.Context, c *Client, cred Credential, since time.Time) (*List, error) {
	now := time.Now()
	if oldest := now.Add(-listAge); since.Before(oldest) {
		since = oldest
	} else if since.After(now) {
		since = now
	}
	for {
		if err := contextError(ctx); err != nil {
			return nil, err
		}
		isOwn := false
		reading := l.reads.DoChan(string(cred.Tenant), func() (any, error) {
			isOwn = true
			return l.read(ctx, c, cred, since), nil
		})
		select {
		case got := <-reading:
			if r, _ := got.Val.(listRead); isOwn || r.serves(since) {
				return r.list, r.err
			}
		case <-ctx.Done():
		}
	}
}

// read returns the latest list if it serves, or reads another one and stores it.
func (l *lists) read(ctx context.Context, c *Client, cred Credential, since time.Time) listRead {
	l.mu.Lock()
	latest := l.all[cred.Tenant]
	l.mu.Unlock()
	if latest.serves(since) {
		return latest
	}
	next := c.requestList(ctx, cred)
	if next.err == nil {
		l.store(cred.Tenant, next)
	}
	return next
}

// store stores a list for its second, unless a later one is stored.
func (l *lists) store(tenant Tenant, r listRead) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all[tenant].start.After(r.start) {
		return
	}
	l.all[tenant] = r
	time.AfterFunc(time.Until(r.start.Add(listAge)), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.all[tenant] == r {
			delete(l.all, tenant)
		}
	})
}

// invalidate removes lists whose requests were sent before now.
func (l *lists) invalidate(tenant Tenant) {
	l.reads.Forget(string(tenant))
	l.store(tenant, listRead{start: time.Now()})
}
