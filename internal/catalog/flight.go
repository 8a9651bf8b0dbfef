package catalog

import (
	"context"
	"sync"
	"time"
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
	began   time.Time
	waiting int // callers
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

// readLast reads a list with the help of the last one.
type readLast func(context.Context, remembered) (*List, remembered, error)

// get gives a list that began at a time or later, and within the last second. An older one in flight is waited for.
func (l *lists) get(ctx context.Context, tenant Tenant, since time.Time, read readLast) (*List, error) {
	now := time.Now()
	if oldest := now.Add(-listAge); since.Before(oldest) {
		since = oldest
	} else if since.After(now) {
		since = now
	}
	for {
		f, serves := l.join(ctx, tenant, since, read)
		select {
		case <-f.landed:
		case <-ctx.Done():
		}
		l.leave(tenant, f)
		if err := contextError(ctx); err != nil {
			return nil, err
		}
		if serves {
			return f.list, f.err
		}
	}
}

// join waits with others for a list, or begins one. It reports whether the list serves a caller, or has to end before
// another can begin.
func (l *lists) join(ctx context.Context, tenant Tenant, since time.Time, read readLast) (f *flight, serves bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.all[tenant]
	if s == nil {
		s = &shelf{timer: time.AfterFunc(rememberTime, func() { l.age(tenant) })}
		l.all[tenant] = s
	}
	if s.changed.After(since) {
		since = s.changed
	}
	if s.flight == nil || s.flight.hasLanded() && s.flight.began.Before(since) {
		s.flight = l.begin(context.WithoutCancel(ctx), tenant, s.last, read)
	}
	s.flight.waiting++
	return s.flight, !s.flight.began.Before(since)
}

// leave ends the wait of a caller.
func (l *lists) leave(tenant Tenant, f *flight) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.waiting--; f.waiting > 0 || f.hasLanded() {
		return
	}
	f.cancel()
	if s := l.all[tenant]; s != nil && s.flight == f {
		l.drop(tenant, s)
	}
}

// begin begins to read a list.
func (l *lists) begin(ctx context.Context, tenant Tenant, last remembered, read readLast) *flight {
	f := &flight{began: time.Now(), landed: make(chan struct{})}
	ctx, f.cancel = context.WithCancel(ctx)
	go func() {
		defer f.cancel()
		list, next, err := read(ctx, last)
		l.mu.Lock()
		defer l.mu.Unlock()
		f.list, f.err = list, err
		close(f.landed)
		s := l.all[tenant]
		switch {
		case s == nil || s.flight != f: // it was given up
		case err != nil:
			l.drop(tenant, s)
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
