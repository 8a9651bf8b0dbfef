package cluster

import (
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

const (
	heartbeatEvery = time.Second             // between two heartbeats
	orphanedEvery  = 200 * time.Millisecond  // the same, on average, while the lease of a silent leader runs out
	silence        = 2500 * time.Millisecond // after it a leader is not relied on, and a member not counted as live
	refreshEvery   = 10 * time.Second        // between two rounds in which a follower repeats all its interests
	interestGap    = 20 * time.Millisecond   // between two messages of interests, so that many watches make few
	joinRetry      = 5 * time.Second         // after a failure to join
	rejectedPause  = time.Minute             // how long a leader whose API key was rejected leaves the lease to others
	inboxSize      = 1024                    // messages that wait; more are lost
	ackMemory      = 64                      // messages after which an acknowledgement is not awaited any more
)

// group is this replica among those that share one credential. One goroutine runs it and owns all
// its fields.
type group struct {
	cluster *Cluster
	net     network
	cred    catalog.Credential
	peering *watch.Peering
	seal    *seal
	me      string
	inbox   chan sealedMessage
	stop    []func()

	seq           uint64
	fence         fence     // of the newest lease that is known
	heardAt       time.Time // last message of the leader
	lease         lease
	clock         logicalClock
	leaderSilent  bool      // there is a lease, and its holder is not heard
	noLeaseBefore time.Time // no try to take the lease before
	members       membership
	sizeBefore    int // number of replicas before this group was joined, while NATS is not there to count them
	handover      handover

	announceAt time.Time // no announcement to newcomers before

	unacknowledged map[uint64][]watch.Interest // interests that were sent, by message
	refreshAt      time.Time                   // when all interests are sent next
	interestsAt    time.Time                   // when new interests are sent; zero: with the next heartbeat
}

// sealedMessage is a message as it came.
type sealedMessage struct {
	subject string
	data    []byte
}

func (g *group) close() {
	for _, stop := range g.stop {
		stop()
	}
}

func (g *group) toAll() string    { return "easel." + g.seal.name + ".all" }
func (g *group) toLeader() string { return "easel." + g.seal.name + ".leader" }

// run takes part in the group until ctx ends or the API key has changed.
func (g *group) run(ctx context.Context) {
	defer g.close()
	defer g.leave(ctx)
	g.heartbeat(ctx)
	timer := time.NewTimer(heartbeatEvery)
	defer timer.Stop()
	next := time.Now().Add(heartbeatEvery)
	for g.seal.key.Equal(g.cred.APIKey()) {
		timer.Reset(time.Until(g.nextTimer(next)))
		select {
		case <-ctx.Done():
			return
		case sealed := <-g.inbox:
			g.receive(ctx, sealed)
		case <-g.peering.Changed():
			g.handleChange(ctx, time.Now())
		case <-timer.C:
		}
		now := time.Now()
		if !g.interestsAt.IsZero() && !now.Before(g.interestsAt) {
			g.interestsAt = time.Time{}
			g.sendInterests(g.peering.Interests(false))
		}
		if !now.Before(next) {
			g.heartbeat(ctx)
			next = time.Now().Add(g.heartbeatGap())
		}
	}
}

// heartbeatGap is the time to the next heartbeat: shorter where a lease is about to run out.
func (g *group) heartbeatGap() time.Duration {
	if g.leaderSilent {
		return orphanedEvery/2 + rand.N(orphanedEvery)
	}
	return heartbeatEvery
}

func (g *group) nextTimer(next time.Time) time.Time {
	if !g.interestsAt.IsZero() && g.interestsAt.Before(next) {
		return g.interestsAt
	}
	return next
}

// handleChange publishes changes as leader, or sends new interests as follower.
func (g *group) handleChange(ctx context.Context, now time.Time) {
	switch {
	case g.lease.held(now):
		g.publishChanges(ctx)
	case g.follows(now) && g.interestsAt.IsZero():
		g.interestsAt = now.Add(interestGap)
	}
}

// follows reports whether another replica leads.
func (g *group) follows(now time.Time) bool {
	return !g.lease.held(now) && !g.heardAt.IsZero() && now.Sub(g.heardAt) < silence
}

// heartbeat maintains the lease, publishes the status, and does all other regular work.
func (g *group) heartbeat(ctx context.Context) {
	g.maintainLease(ctx)
	now := time.Now()
	g.setRole(now)
	g.publish(g.toAll(), message{Leads: g.lease.held(now), Heartbeat: packHeartbeat(g.peering.Status(), now)})
	switch {
	case g.lease.held(now):
		g.publishChanges(ctx)
		if !now.Before(g.handover.next) {
			g.handover.save(ctx, g.peering, g.fence)
		}
	case g.follows(now) && !now.Before(g.refreshAt):
		g.refreshAt = now.Add(refreshEvery)
		g.sendInterests(g.peering.Interests(true))
	case g.follows(now):
		g.sendInterests(g.peering.Interests(false))
	}
}

// setRole sets the role of this replica.
func (g *group) setRole(now time.Time) {
	size := g.size(now)
	switch {
	case g.lease.held(now):
		g.peering.SetRole(size.assign(watch.Leader, g.lease.until))
	case g.follows(now):
		g.peering.SetRole(size.assign(watch.Follower, g.heardAt.Add(silence)))
	default:
		g.peering.SetRole(size.assign(watch.Alone, time.Time{}))
	}
}

// size counts the replicas that share the credential. While NATS is not there nobody is forgotten.
func (g *group) size(now time.Time) groupSize {
	if g.net.up() {
		g.sizeBefore = 0
		return g.members.size(now)
	}
	g.members.keepAll(now)
	size := g.members.size(now)
	size.Suspected = max(size.Suspected, g.sizeBefore-size.Live)
	return size
}

// publishChanges publishes new states to the followers.
func (g *group) publishChanges(ctx context.Context) {
	for {
		states, err := g.peering.Changes(maxMessageStates)
		now := time.Now()
		for _, page := range packStates(states, now) {
			g.publish(g.toAll(), message{Leads: true, States: page})
		}
		if err != nil {
			g.noLeaseBefore = now.Add(rejectedPause)
			g.resign(ctx)
			return
		}
		if len(states) < maxMessageStates {
			return
		}
	}
}

// sendInterests sends the interests of this replica's watches to the leader.
func (g *group) sendInterests(interests []watch.Interest) {
	for part := range slices.Chunk(interests, maxMessageInterests) {
		seq := g.publish(g.toLeader(), message{Interests: packInterests(part, time.Now())})
		g.unacknowledged[seq] = part
	}
	maps.DeleteFunc(g.unacknowledged, func(seq uint64, _ []watch.Interest) bool { return seq+ackMemory <= g.seq })
}

// publish seals a message and publishes it.
func (g *group) publish(subject string, m message) (seq uint64) {
	g.seq++
	m.From, m.Seq, m.Fence, m.LogicalTime = g.me, g.seq, g.fence, g.clock.newest
	if text, err := json.Marshal(m); err == nil { // plain data
		g.net.publish(subject, g.seal.close(subject, text))
	}
	return g.seq
}

// receive opens a message, and drops it or accepts it.
func (g *group) receive(ctx context.Context, sealed sealedMessage) {
	now := time.Now()
	if sealed.subject == g.toLeader() && !g.lease.held(now) {
		return // it is not for us
	}
	var m message
	text, err := g.seal.open(sealed.subject, sealed.data)
	if err == nil {
		err = unpack(text, &m)
	}
	switch {
	case err != nil:
		g.cluster.refused.Add(1)
	case m.From == g.me:
	case m.Leads && g.fence.above(m.Fence), !m.Leads && m.Fence != g.fence:
		g.dropFenced(m, sealed.subject, now)
	case !g.recent(m, now):
		g.announceLease(m, now)
	default:
		g.accept(ctx, m, sealed.subject, now)
	}
}

// accept applies a message, unless it is a repeat.
func (g *group) accept(ctx context.Context, m message, subject string, now time.Time) {
	if m.Leads && m.Fence.above(g.fence) {
		g.followLease(m, now)
	}
	if !g.recordMember(m, subject, now) {
		g.cluster.refused.Add(1)
		return
	}
	g.apply(ctx, m, now)
}

// recordMember notes a sign of life of the sender, and reports whether the message is new.
func (g *group) recordMember(m message, subject string, now time.Time) bool {
	if !g.members.accept(m, subject, now) {
		return false
	}
	if g.provesRecent(m) {
		g.members[m.From].recent = true
	}
	return true
}

// recent reports whether a message of an unknown sender may be recent: a recorded message of a replica that
// left long ago is no sign of life. While nobody leads, this can't be told.
func (g *group) recent(m message, now time.Time) bool {
	return g.members[m.From] != nil || g.provesRecent(m) || !g.lease.held(now) && !g.follows(now)
}

// provesRecent reports whether a message proves that it is recent: by its logical time, or by the newest
// lease.
func (g *group) provesRecent(m message) bool {
	return g.clock.recent(m.LogicalTime) || m.Leads && !g.fence.above(m.Fence)
}

// announceLease tells a newcomer who leads. The newcomer's next message can then prove that it is recent.
func (g *group) announceLease(m message, now time.Time) {
	switch {
	case m.LogicalTime > 0:
		g.cluster.refused.Add(1)
	case g.lease.held(now) && !now.Before(g.announceAt):
		g.announceAt = now.Add(interestGap)
		g.publish(g.toAll(), message{Leads: true})
	}
}

// dropFenced drops a message that was sent under another lease. Its sender is counted all the same, and a
// farewell counts too: the lease of a leader that leaves is often taken before its farewell is here.
func (g *group) dropFenced(m message, subject string, now time.Time) {
	if m.Leads {
		g.cluster.fenced.Add(1)
	}
	switch {
	case m.Heartbeat != nil && !g.recent(m, now):
		g.announceLease(m, now)
	case m.Heartbeat != nil && !g.members.beforeFarewell(m):
		g.recordMember(m, subject, now)
	case m.Farewell && g.members[m.From] != nil && g.members.accept(m, subject, now):
		g.members.depart(m)
	}
}

// followLease takes in that another replica took the lease after the one that is known.
func (g *group) followLease(m message, now time.Time) {
	if g.lease.held(now) {
		g.cluster.logger.Debug("the lease of a credential has passed on", "credential", g.seal.name)
	}
	g.dropLease()
	g.fence = m.Fence
	clear(g.unacknowledged)
	g.refreshAt = time.Time{}
	g.interestsAt = now
}

// apply applies a message.
func (g *group) apply(ctx context.Context, m message, now time.Time) {
	if m.Farewell {
		g.members.depart(m)
		if m.Leads {
			g.heardAt = time.Time{}
			g.heartbeat(ctx)
		}
		return
	}
	if m.Leads {
		if !g.follows(now) {
			g.interestsAt = now
		}
		g.clock.learn(m.Fence.Epoch, m.LogicalTime, now)
		g.heardAt, g.leaderSilent = now, false
		g.setRole(now)
	}
	if m.Heartbeat != nil {
		g.peering.ApplyStatus(m.Heartbeat.unpack(now), m.Leads)
	}
	if len(m.Interests) > 0 {
		g.subscribe(ctx, m, now)
	}
	if m.Ack != nil && m.Ack.To == g.me {
		if interests, ok := g.unacknowledged[m.Ack.Seq]; ok {
			delete(g.unacknowledged, m.Ack.Seq)
			g.peering.Acknowledge(interests, ago(m.Ack.Seen, now))
		}
	}
	if len(m.States) > 0 {
		g.peering.ApplyStates(g.states(m, now))
	}
}

func (g *group) states(m message, now time.Time) (states []watch.State) {
	for _, text := range m.States {
		s, err := unpackState(text, now)
		if err != nil || s.Generation.ID == "" {
			g.cluster.refused.Add(1)
			continue
		}
		states = append(states, s)
	}
	return states
}

// subscribe takes in the interests of a follower. The states come before the acknowledgement, so that
// the follower has them when it reads that its interests were heard.
func (g *group) subscribe(ctx context.Context, m message, now time.Time) {
	if !g.lease.held(now) {
		return
	}
	seen := g.peering.Subscribe(unpackInterests(m.Interests, now))
	g.publishChanges(ctx)
	if g.lease.held(now) {
		g.publish(g.toAll(), message{Leads: true, Ack: &acknowledgement{To: m.From, Seq: m.Seq, Seen: age(seen, now)}})
	}
}

// leave ends this replica's membership with a farewell.
func (g *group) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tableTimeout)
	defer cancel()
	now := time.Now()
	size := g.size(now)
	g.sizeBefore = size.Live + size.Suspected
	g.cluster.history.remember(g.seal.name, g.sizeBefore, now)
	if g.lease.held(now) {
		g.handover.save(ctx, g.peering, g.fence)
		g.resign(ctx)
	} else {
		g.publish(g.toAll(), message{Farewell: true})
	}
	g.peering.SetRole(groupSize{Live: 1}.assign(watch.Alone, time.Time{}))
}
