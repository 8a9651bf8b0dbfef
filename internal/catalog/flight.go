package catalog

import (
	"context"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/limiter"
)

const (
	// listAge is how old a list may be that serves one more caller.
	listAge = time.Second
	// rememberTime is how long the records of a credential's last list are remembered.
	rememberTime = 5 * time.Minute
)

// lists has one list of each credential in flight at most, and shares it with all who ask within its second. No list is
// read on the context of one caller; one that nobody waits for any more is given up.
type lists struct {
	mu  sync.Mutex
	all map[Tenant]*shelf
}

// shelf has the last list of a credential.
type shelf struct {
	flight  *flight    // the last list, in flight or in its second; nil: there is none
	changed time.Time  // a list that began before serves nobody any more
	last    remembered // of the last list that could be read
	timer   *time.Timer
}

// flight is the read of one list.
type flight struct {
	began    time.Time // when its request left, or it began to wait for its turn
	until    time.Time // how long it waits at the gate: as long as the caller that began it; zero: that has no deadline
	left     bool      // its request has a turn at the gate
	replaced bool      // by one that had a turn before
	waiting  int       // callers
	cancel   context.CancelFunc
	landed   chan struct{} // closed when list and err are there
	list     *List
	err      error
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
	turn := limiter.TurnOf(ctx)
	if err := contextError(ctx); err != nil { // a list outlives its caller, so none begins for a caller that has left
		turn.End(limiter.Answer{Outcome: limiter.Unused})
		return nil, err
	}
	for {
		f, serves, isOwn := l.join(ctx, c, cred, since)
		if isOwn {
			turn = nil // which the flight has
		}
		select {
		case <-f.landed:
		case <-ctx.Done():
		}
		again := l.leave(ctx, cred.Tenant, f)
		err := contextError(ctx)
		if err == nil && (again || !serves) {
			continue
		}
		turn.End(limiter.Answer{Outcome: limiter.Unused})
		if err != nil {
			return nil, err
		}
		return f.list, f.err
	}
}

// join waits with others for a list, or begins one. It reports whether the list serves a caller, or has to end before
// another can begin. A caller that has a turn at the gate waits for no list that has none: it might wait for that turn.
func (l *lists) join(ctx context.Context, c *Client, cred Credential, since time.Time) (f *flight, serves, isOwn bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.all[cred.Tenant]
	if s == nil {
		s = &shelf{timer: time.AfterFunc(rememberTime, func() { l.age(cred.Tenant) })}
		l.all[cred.Tenant] = s
	}
	if s.changed.After(since) {
		since = s.changed
	}
	if f = s.flight; f != nil && !f.left && !f.hasLanded() && limiter.TurnOf(ctx) != nil {
		f.replaced = true
		f.cancel()
		f = nil
	}
	if isOwn = f == nil || f.hasLanded() && f.began.Before(since); isOwn {
		f = l.begin(ctx, c, cred, s.last)
		s.flight = f
	}
	f.waiting++
	return f, !f.began.Before(since), isOwn
}

// leave ends the wait of a caller, and reports whether it has to wait for another list: also where it waits longer than the
// one that had no turn.
func (l *lists) leave(ctx context.Context, tenant Tenant, f *flight) (again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.waiting--
	deadline, _ := ctx.Deadline()
	if f.hasLanded() {
		return f.replaced || f.err != nil && !f.left && deadline.After(f.until)
	}
	if f.waiting > 0 {
		return f.replaced
	}
	f.cancel()
	if s := l.all[tenant]; s != nil && s.flight == f {
		l.drop(tenant, s)
	}
	return f.replaced
}

// begin begins to read a list, which outlives the caller.
func (l *lists) begin(ctx context.Context, c *Client, cred Credential, last remembered) *flight {
	f := &flight{began: time.Now(), landed: make(chan struct{})}
	f.until, _ = ctx.Deadline()
	ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer f.cancel()
		list, next, err := c.listForAll(ctx, f.until, cred, last, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			f.began, f.left = time.Now(), true
		})
		l.mu.Lock()
		defer l.mu.Unlock()
		f.list, f.err = list, err
		close(f.landed)
		s := l.all[cred.Tenant]
		switch {
		case s == nil || s.flight != f: // it was given up
		case err != nil:
			l.drop(cred.Tenant, s)
		default:
			s.last = next
			s.timer.Reset(time.Until(f.began.Add(listAge)))
		}
	}()
	return f
}

// age drops a list whose second is over, and later what is remembered of it.
func (l *lists) age(tenant Tenant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch s := l.all[tenant]; {
	case s == nil || s.flight != nil && !s.flight.hasLanded():
	case s.flight != nil:
		l.drop(tenant, s)
	default:
		delete(l.all, tenant)
	}
}

// drop drops a list. What is remembered of the last one stays for a while; mu is held.
func (l *lists) drop(tenant Tenant, s *shelf) {
	s.flight = nil
	if s.timer.Stop(); len(s.last.records) == 0 {
		delete(l.all, tenant)
		return
	}
	s.timer.Reset(rememberTime)
}

// changed says that lists that began before now are too old.
func (l *lists) changed(tenant Tenant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.all[tenant]; s != nil {
		s.changed = time.Now()
	}
}
