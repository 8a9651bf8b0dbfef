package catalog

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// listAge is the maximum age of a list that is shared with other callers.
const listAge = time.Second

// lists caches each tenant's list for a second, so that callers can share it. It sends at most one list request for each tenant
// at a time.
type lists struct {
	reads singleflight.Group

	mu  sync.Mutex
	all map[Tenant]listRead // latest list of each tenant; a list is removed one second after it was requested
}

// listRead is the result of reading the list: a list or an error.
type listRead struct {
	start time.Time // time when the list request was sent; zero if it was not sent
	list  *List
	err   error
}

// isUsable reports whether the result of a read can be returned to a caller that needs a list requested at or after
// the given time. It returns false for a canceled read, because the cancellation concerns only the caller that started the
// read.
func (r listRead) isUsable(since time.Time) bool {
	_, responded := errors.AsType[*Error](r.err)
	return !r.start.IsZero() && !r.start.Before(since) && (r.list != nil || responded)
}

// recentList returns a list that was requested at most one second ago, and at or after the given time. If the caller that
// started a read is canceled, the read is canceled too, and another waiting caller starts a new read.
func (l *lists) recentList(ctx context.Context, c *Client, cred Credential, since time.Time) (*List, error) {
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
			return l.readList(ctx, c, cred, since), nil
		})
		select {
		case got := <-reading:
			if r, _ := got.Val.(listRead); isOwn || r.isUsable(since) {
				return r.list, r.err
			}
		case <-ctx.Done():
		}
	}
}

// readList returns the stored list if it was requested at or after the given time. Otherwise it requests the list again,
// and stores it if the request succeeds.
func (l *lists) readList(ctx context.Context, c *Client, cred Credential, since time.Time) listRead {
	l.mu.Lock()
	latest := l.all[cred.Tenant]
	l.mu.Unlock()
	if latest.isUsable(since) {
		return latest
	}
	next := c.requestList(ctx, cred)
	if next.err == nil {
		l.storeList(cred.Tenant, next)
	}
	return next
}

// storeList keeps a list until one second after it was requested. It does nothing if a list that was requested later is
// already stored.
func (l *lists) storeList(tenant Tenant, r listRead) {
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

// invalidate ensures that later calls request a tenant's list again.
func (l *lists) invalidate(tenant Tenant) {
	l.reads.Forget(string(tenant))
	l.storeList(tenant, listRead{start: time.Now()})
}
