package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

const (
	renewEvery   = leaseTTL / 3
	tableTimeout = time.Second // of one request to a table
)

// lease says that this replica polls.
type lease struct {
	revision uint64 // of its value; 0: there is none
	until    time.Time
}

// held reports whether the lease is still ours. It counts from before the request, so that it ends
// here before it ends in the table.
func (l *lease) held(now time.Time) bool { return l.revision != 0 && now.Before(l.until) }

// leaseValue is the value of a lease in the table.
type leaseValue struct {
	Holder string `json:"holder"`
	Taken  uint64 `json:"taken,omitempty"` // revision under which it was taken; 0: its own
}

// maintainLease renews the lease, or tries to take it where no leader is heard.
func (g *group) maintainLease(ctx context.Context) {
	now := time.Now()
	if !g.lease.held(now) {
		g.dropLease() // it has run out
	}
	if !g.net.up() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tableTimeout)
	defer cancel()
	switch {
	case g.lease.held(now):
		if renewed := g.lease.until.Add(-leaseTTL); now.Sub(renewed) >= renewEvery-heartbeatEvery/2 {
			g.renew(ctx, now)
		}
	case !g.follows(now) && !now.Before(g.noLeaseBefore):
		g.acquire(ctx, now)
	}
}

// acquire takes the lease if it is free. If it is not, the table tells which lease counts, whatever
// other replicas said.
func (g *group) acquire(ctx context.Context, now time.Time) {
	_, err := g.net.leases().put(ctx, g.seal.name, g.sealedLease(0), 0)
	g.leaderSilent = errors.Is(err, errConflict)
	if err != nil && !errors.Is(err, errConflict) {
		return
	}
	v, holder, err := g.readLease(ctx)
	if err != nil {
		return
	}
	g.fence = fence{Epoch: v.epoch, Revision: holder.Taken}
	if holder.Holder != g.me {
		return
	}
	g.leaderSilent = false
	g.holdLease(v.revision, now)
	g.heardAt = time.Time{}
	g.cluster.acquired.Add(1)
	g.cluster.leading.Add(1)
	g.cluster.logger.Debug("took the lease of a credential", "credential", g.seal.name, "revision", holder.Taken)
	g.peering.Restore(g.handover.load(ctx, v.written, now))
}

// renew renews the lease. Where the table has another value, either an answer to us was lost and the value
// is ours, or the lease is lost.
func (g *group) renew(ctx context.Context, now time.Time) {
	revision, err := g.net.leases().put(ctx, g.seal.name, g.sealedLease(g.fence.Revision), g.lease.revision)
	if errors.Is(err, errConflict) {
		v, holder, getErr := g.readLease(ctx)
		switch {
		case getErr == nil && holder.Holder == g.me:
			g.lease.revision = v.revision
			revision, err = g.net.leases().put(ctx, g.seal.name, g.sealedLease(g.fence.Revision), v.revision)
		case getErr == nil, errors.Is(getErr, errNotFound):
			g.dropLease()
			g.acquire(ctx, now)
			return
		}
	}
	if err == nil {
		g.holdLease(revision, now)
	}
}

// holdLease notes that this replica holds the lease from now on.
func (g *group) holdLease(revision uint64, now time.Time) {
	g.lease = lease{revision: revision, until: now.Add(leaseTTL)}
	g.clock.learn(g.fence.Epoch, revision, now)
}

// readLease reads the lease from the table.
func (g *group) readLease(ctx context.Context) (v value, c leaseValue, err error) {
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

func (g *group) sealedLease(taken uint64) []byte {
	text, _ := json.Marshal(leaseValue{g.me, taken}) // plain data
	return g.seal.close(g.seal.name, text)
}

// dropLease forgets the lease.
func (g *group) dropLease() {
	if g.lease.revision != 0 {
		g.cluster.leading.Add(-1)
	}
	g.lease = lease{}
}

// resign gives the lease back, so that another can take it at once.
func (g *group) resign(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, tableTimeout)
	defer cancel()
	revision := g.lease.revision
	g.dropLease()
	if g.net.up() {
		_ = g.net.leases().remove(ctx, g.seal.name, revision) // else it runs out
	}
	g.publish(g.toAll(), message{Leads: true, Farewell: true})
	g.setRole(time.Now())
}
