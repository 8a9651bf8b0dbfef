package catalog

import (
	"context"
	"sync"
	"time"
)

// listAge is the maximum age of a list that serves another caller.
const listAge = time.Second

// lists has one list of each credential in flight at most, and shares it with all who ask within its second. No list is
// read on the context of one caller; one that nobody waits for any more is given up.
type lists struct {
	mu  sync.Mutex
	all map[Tenant]*shelf
}

// shelf has the last list of a credential, in flight or in its second.
type shelf struct {
	flight  *flight
	changed time.Time // start of the oldest list that serves a caller
}

// flight is the read of one list.
type flight struct {
	began   time.Time // when its request left, or it began to wait for its permit
	until   time.Time // how long it waits for a permit: as long as the caller that began it; zero means no deadline
	left    bool      // its request has a permit
	waiting int       // callers
	cancel  context.CancelFunc
	landed  chan struct{} // closed when list and err are there
	list    *List
	err     error
}

func (f *flight) hasLanded() bool {
	select {
	case <-f.landed:
		return true
	default:
		return false
	}
}

// get gives a list that began at a time or later, and within the last second. An older one in flight is waited for.
func (l *lists) get(ctx context.Context, c *Client, cred Credential, since time.Time) (*List, error) {
	now := time.Now()
	if oldest := now.Add(-listAge); since.Before(oldest) {
		since = oldest
	} else if since.After(now) {
		since = now
	}
	if err := contextError(ctx); err != nil { // a list outlives its caller, so none begins for a caller that has left
		return nil, err
	}
	for {
		f, serves := l.join(ctx, c, cred, since)
		select {
		case <-f.landed:
		case <-ctx.Done():
		}
		again := l.leave(ctx, cred.Tenant, f)
		if err := contextError(ctx); err != nil {
			return nil, err
		}
		if serves && !again {
			return f.list, f.err
		}
	}
}

// join waits with others for a list, or begins one. It reports whether the list serves a caller, or has to end before
// another can begin.
func (l *lists) join(ctx context.Context, c *Client, cred Credential, since time.Time) (f *flight, serves bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.all[cred.Tenant]
	if s == nil {
		s = &shelf{}
		l.all[cred.Tenant] = s
	}
	if s.changed.After(since) {
		since = s.changed
	}
	if f = s.flight; f == nil || f.hasLanded() && f.began.Before(since) {
		f = l.begin(ctx, c, cred)
		s.flight = f
	}
	f.waiting++
	return f, !f.began.Before(since)
}

// leave ends the wait of a caller, and reports whether it has to wait for another list: also where it waits longer than the
// one that got no permit.
func (l *lists) leave(ctx context.Context, tenant Tenant, f *flight) (again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.waiting--
	deadline, _ := ctx.Deadline()
	if f.hasLanded() {
		return f.err != nil && !f.left && deadline.After(f.until)
	}
	if f.waiting > 0 {
		return false
	}
	f.cancel()
	l.drop(tenant, f)
	return false
}

// begin begins to read a list, which outlives the caller.
func (l *lists) begin(ctx context.Context, c *Client, cred Credential) *flight {
	f := &flight{began: time.Now(), landed: make(chan struct{})}
	f.until, _ = ctx.Deadline()
	ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer f.cancel()
		list, err := c.listForAll(ctx, f.until, cred, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			f.began, f.left = time.Now(), true
		})
		l.mu.Lock()
		defer l.mu.Unlock()
		f.list, f.err = list, err
		close(f.landed)
		if err != nil {
			l.drop(cred.Tenant, f)
			return
		}
		time.AfterFunc(time.Until(f.began.Add(listAge)), func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.drop(cred.Tenant, f)
		})
	}()
	return f
}

// drop forgets a list, unless another one has taken its place; mu is held.
func (l *lists) drop(tenant Tenant, f *flight) {
	if s := l.all[tenant]; s != nil && s.flight == f {
		delete(l.all, tenant)
	}
}

// changed says that lists that began before now are too old.
func (l *lists) changed(tenant Tenant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.all[tenant]; s != nil {
		s.changed = time.Now()
	}
}
