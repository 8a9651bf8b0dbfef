package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

const (
	renewEvery = leaseTTL / 3
	leaseTime  = time.Second // that one request to the table may take
)

// lease says that this replica polls.
type lease struct {
	revision uint64 // of its value; 0: there is none
	until    time.Time
}

// held reports whether the lease is still ours. Its end is counted from before it was asked
// for, so it is over here before it is over there.
func (l *lease) held(now time.Time) bool { return l.revision != 0 && now.Before(l.until) }

// claim is the value of a lease.
type claim struct {
	Holder string `json:"holder"`
	Taken  uint64 `json:"taken,omitempty"` // revision with which it was taken; 0: this one
}

// contend keeps the lease, or tries to take it where nobody is heard who has it.
func (g *group) contend(ctx context.Context) {
	now := time.Now()
	if !g.lease.held(now) {
		g.drop() // it has run out
	}
	if !g.net.up() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaseTime)
	defer cancel()
	switch {
	case g.lease.held(now):
		if renewed := g.lease.until.Add(-leaseTTL); now.Sub(renewed) >= renewEvery-beatEvery/2 {
			g.renew(ctx, now)
		}
	case !g.follows(now) && !now.Before(g.barred):
		g.acquire(ctx, now)
	}
}

// acquire takes the lease where nobody has it. Where somebody has, the table tells which lease
// counts, whatever was heard of others.
func (g *group) acquire(ctx context.Context, now time.Time) {
	_, err := g.net.leases().put(ctx, g.seal.name, g.claim(0), 0)
	g.orphaned = errors.Is(err, errTaken)
	if err != nil && !errors.Is(err, errTaken) {
		return
	}
	v, holder, err := g.holder(ctx)
	if err != nil {
		return
	}
	g.fence = fence{Epoch: v.epoch, Revision: holder.Taken}
	if holder.Holder != g.me {
		return
	}
	g.orphaned = false
	g.keep(v.revision, now)
	g.heard = time.Time{}
	g.c.takings.Add(1)
	g.c.leading.Add(1)
	g.c.logger.Debug("took the lease of a credential", "credential", g.seal.name, "revision", holder.Taken)
	g.part.Restore(g.states.load(ctx, v.written, now))
}

// renew keeps the lease. Where the table has another value, it is either ours, and the answer
// was lost, or the lease is.
func (g *group) renew(ctx context.Context, now time.Time) {
	revision, err := g.net.leases().put(ctx, g.seal.name, g.claim(g.fence.Revision), g.lease.revision)
	if errors.Is(err, errTaken) {
		v, holder, getErr := g.holder(ctx)
		switch {
		case getErr == nil && holder.Holder == g.me:
			g.lease.revision = v.revision
			revision, err = g.net.leases().put(ctx, g.seal.name, g.claim(g.fence.Revision), v.revision)
		case getErr == nil, errors.Is(getErr, errNone):
			g.drop()
			g.acquire(ctx, now)
			return
		}
	}
	if err == nil {
		g.keep(revision, now)
	}
}

// keep notes that this replica has the lease from now on.
func (g *group) keep(revision uint64, now time.Time) {
	g.lease = lease{revision: revision, until: now.Add(leaseTTL)}
	g.ticks.learn(g.fence.Epoch, revision, now)
}

// holder reads who has the lease.
func (g *group) holder(ctx context.Context) (v value, c claim, err error) {
	v, err = g.net.leases().get(ctx, g.seal.name)
	if err != nil {
		return v, c, err
	}
	text, err := g.seal.open(g.seal.name, v.data)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if c.Taken == 0 {
		c.Taken = v.revision
	}
	return v, c, err
}

func (g *group) claim(taken uint64) []byte {
	text, _ := json.Marshal(claim{g.me, taken}) // plain data
	return g.seal.close(g.seal.name, text)
}

// drop forgets the lease.
func (g *group) drop() {
	if g.lease.revision != 0 {
		g.c.leading.Add(-1)
	}
	g.lease = lease{}
}

// resign gives the lease back, so that another can take it at once.
func (g *group) resign(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaseTime)
	defer cancel()
	revision := g.lease.revision
	g.drop()
	if g.net.up() {
		_ = g.net.leases().remove(ctx, g.seal.name, revision) // else it runs out
	}
	g.say(g.toAll(), message{Leads: true, Bye: true})
	g.play(time.Now())
}
