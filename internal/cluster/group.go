package cluster

import (
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

const (
	beatEvery   = time.Second             // between two signs of life
	orphanEvery = 200 * time.Millisecond  // the same, on average, while a lease is to run out that nobody renews
	silence     = 2500 * time.Millisecond // after which a leader is not relied on, or a member not counted
	roundEvery  = 10 * time.Second        // between two rounds in which all interest is told again
	askGap      = 20 * time.Millisecond   // between two messages of asks, so that many watches make few
	retry       = 5 * time.Second         // after a failure to join
	outcast     = time.Minute             // how long a leader whose key was rejected leaves the lease to others
	inbox       = 1024                    // messages that wait; more are lost
	askMemory   = 64                      // messages after which the answer to asks is not awaited any more
)

// group is this replica among those that share one credential. One goroutine runs it, and all
// below is that one's.
type group struct {
	c    *Cluster
	net  network
	cred catalog.Credential
	part *watch.Peering
	seal *seal
	me   string
	in   chan letter
	stop []func()

	seq        uint64
	fence      fence     // of the newest lease that is known
	heard      time.Time // when its holder was heard last
	lease      lease
	ticks      ticks
	orphaned   bool      // there is a lease, and its holder is not heard
	barred     time.Time // no try to take the lease before
	members    membership
	sizeBefore int // how many shared the credential before this group, where NATS is not there to tell
	states     states

	greetAt time.Time // no word to who is new before

	asked map[uint64][]watch.Interest // what was asked, by message
	round time.Time                   // when all interest is told next
	askAt time.Time                   // when asks are told next; zero: with the next beat
}

// letter is a message as it came.
type letter struct {
	subject string
	data    []byte
}

// join meets those who share a credential. Before is how many they were under its last key; 0 where
// there was none.
func (c *Cluster) join(cred catalog.Credential, part *watch.Peering, before int) (*group, error) {
	seal, err := newSeal(cred.Key(), c.salt)
	if err != nil {
		return nil, err
	}
	g := &group{
		c: c, net: c.net, cred: cred, part: part, seal: seal, me: newName(),
		in: make(chan letter, inbox), asked: map[uint64][]watch.Interest{}, members: membership{},
		sizeBefore: max(before, c.history.size(seal.name, time.Now())),
	}
	g.states.table, g.states.seal = c.net.states(), seal
	for _, subject := range []string{g.toAll(), g.toLeader()} {
		stop, err := c.net.subscribe(subject, func(data []byte) {
			select {
			case g.in <- letter{subject, data}:
			default: // lost, as any message may be
			}
		})
		if err != nil {
			g.close()
			return nil, err
		}
		g.stop = append(g.stop, stop)
	}
	return g, nil
}

func (g *group) close() {
	for _, stop := range g.stop {
		stop()
	}
}

func (g *group) toAll() string    { return "easel." + g.seal.name + ".all" }
func (g *group) toLeader() string { return "easel." + g.seal.name + ".leader" }

// run plays the part until ctx ends or the key has changed.
func (g *group) run(ctx context.Context) {
	defer g.close()
	defer g.leave(ctx)
	g.beat(ctx)
	timer := time.NewTimer(beatEvery)
	defer timer.Stop()
	next := time.Now().Add(beatEvery)
	for g.seal.key.Equal(g.cred.Key()) {
		timer.Reset(time.Until(g.soonest(next)))
		select {
		case <-ctx.Done():
			return
		case l := <-g.in:
			g.take(ctx, l)
		case <-g.part.Changed():
			g.changed(ctx, time.Now())
		case <-timer.C:
		}
		now := time.Now()
		if !g.askAt.IsZero() && !now.Before(g.askAt) {
			g.askAt = time.Time{}
			g.ask(g.part.Interests(false))
		}
		if !now.Before(next) {
			g.beat(ctx)
			next = time.Now().Add(g.pace())
		}
	}
}

// pace is the time between two beats: shorter where a lease is about to run out.
func (g *group) pace() time.Duration {
	if g.orphaned {
		return orphanEvery/2 + rand.N(orphanEvery)
	}
	return beatEvery
}

func (g *group) soonest(next time.Time) time.Time {
	if !g.askAt.IsZero() && g.askAt.Before(next) {
		return g.askAt
	}
	return next
}

// changed says or asks what is new.
func (g *group) changed(ctx context.Context, now time.Time) {
	switch {
	case g.lease.held(now):
		g.tell(ctx)
	case g.follows(now) && g.askAt.IsZero():
		g.askAt = now.Add(askGap)
	}
}

// follows reports whether somebody else leads.
func (g *group) follows(now time.Time) bool {
	return !g.lease.held(now) && !g.heard.IsZero() && now.Sub(g.heard) < silence
}

// beat does what is due every second.
func (g *group) beat(ctx context.Context) {
	g.contend(ctx)
	now := time.Now()
	g.play(now)
	g.say(g.toAll(), message{Leads: g.lease.held(now), Beat: packBeat(g.part.Status(), now)})
	switch {
	case g.lease.held(now):
		g.tell(ctx)
		if !now.Before(g.states.next) {
			g.states.save(ctx, g.part, g.fence)
		}
	case g.follows(now) && !now.Before(g.round):
		g.round = now.Add(roundEvery)
		g.ask(g.part.Interests(true))
	case g.follows(now):
		g.ask(g.part.Interests(false))
	}
}

// play sets the role of this replica.
func (g *group) play(now time.Time) {
	members := g.size(now)
	switch {
	case g.lease.held(now):
		g.part.SetRole(members.assign(watch.Leader, g.lease.until))
	case g.follows(now):
		g.part.SetRole(members.assign(watch.Follower, g.heard.Add(silence)))
	default:
		g.part.SetRole(members.assign(watch.Alone, time.Time{}))
	}
}

// count counts who shares the credential. While NATS is not there nobody is forgotten.
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

// tell says what the followers are to know.
func (g *group) tell(ctx context.Context) {
	for {
		words, err := g.part.Changes(messageWords)
		now := time.Now()
		for _, part := range packWords(words, now) {
			g.say(g.toAll(), message{Leads: true, Words: part})
		}
		if err != nil {
			g.barred = now.Add(outcast)
			g.resign(ctx)
			return
		}
		if len(words) < messageWords {
			return
		}
	}
}

// ask tells the leader what this replica's watches wait for.
func (g *group) ask(asks []watch.Interest) {
	for len(asks) > 0 {
		n := min(len(asks), messageAsks)
		seq := g.say(g.toLeader(), message{Asks: packAsks(asks[:n], time.Now())})
		g.asked[seq] = asks[:n]
		asks = asks[n:]
	}
	maps.DeleteFunc(g.asked, func(seq uint64, _ []watch.Interest) bool { return seq+askMemory <= g.seq })
}

// say seals a message and sends it.
func (g *group) say(subject string, m message) (seq uint64) {
	g.seq++
	m.From, m.Seq, m.Fence, m.Tick = g.me, g.seq, g.fence, g.ticks.newest
	if text, err := json.Marshal(m); err == nil { // plain data
		g.net.publish(subject, g.seal.close(subject, text))
	}
	return g.seq
}

// take takes in a message.
func (g *group) take(ctx context.Context, l letter) {
	now := time.Now()
	if l.subject == g.toLeader() && !g.lease.held(now) {
		return // it is not for us
	}
	var m message
	text, err := g.seal.open(l.subject, l.data)
	if err == nil {
		err = unpack(text, &m)
	}
	switch {
	case err != nil:
		g.c.refused.Add(1)
	case m.From == g.me:
	case m.Leads && g.fence.above(m.Fence), !m.Leads && m.Fence != g.fence:
		g.fenced(m, l.subject, now)
	case !g.ofNow(m, now):
		g.greet(m, now)
	default:
		g.hear(ctx, m, l.subject, now)
	}
}

// hear takes in a message of somebody who counts, if it is no repeat.
func (g *group) hear(ctx context.Context, m message, subject string, now time.Time) {
	if m.Leads && m.Fence.above(g.fence) {
		g.submit(m, now)
	}
	if !g.note(m, subject, now) {
		g.c.refused.Add(1)
		return
	}
	g.read(ctx, m, now)
}

// note notes a sign of life, if it is one.
func (g *group) note(m message, subject string, now time.Time) bool {
	if !g.members.accept(m, subject, now) {
		return false
	}
	if g.proven(m) {
		g.members[m.From].proven = true
	}
	return true
}

// ofNow reports whether a message is of now, which counts where its sender is not known: what was recorded of
// one that has left long ago is no sign of life. Where nobody leads it can't be told.
func (g *group) ofNow(m message, now time.Time) bool {
	return g.members[m.From] != nil || g.proven(m) || !g.lease.held(now) && !g.follows(now)
}

// proven reports whether a message proves that it is of now: by its tick, or by a lease that none is after.
func (g *group) proven(m message) bool {
	return g.ticks.proves(m.Tick) || m.Leads && !g.fence.above(m.Fence)
}

// greet tells who is new who leads, and with it what proves that its next message is of now.
func (g *group) greet(m message, now time.Time) {
	switch {
	case m.Tick > 0:
		g.c.refused.Add(1)
	case g.lease.held(now) && !now.Before(g.greetAt):
		g.greetAt = now.Add(askGap)
		g.say(g.toAll(), message{Leads: true})
	}
}

// fenced drops what was said under another lease. Who says it is counted all the same, and who says
// farewell is not any more: the lease of one that leaves is often taken before its farewell is here.
func (g *group) fenced(m message, subject string, now time.Time) {
	if m.Leads {
		g.c.fenced.Add(1)
	}
	switch {
	case m.Beat != nil && !g.ofNow(m, now):
		g.greet(m, now)
	case m.Beat != nil && !g.members.beforeFarewell(m):
		g.note(m, subject, now)
	case m.Bye && g.members[m.From] != nil && g.members.accept(m, subject, now):
		g.members.depart(m)
	}
}

// submit takes in that somebody took the lease after the one that is known.
func (g *group) submit(m message, now time.Time) {
	if g.lease.held(now) {
		g.c.logger.Debug("the lease of a credential has passed on", "credential", g.seal.name)
	}
	g.drop()
	g.fence = m.Fence
	clear(g.asked)
	g.round = time.Time{}
	g.askAt = now
}

// read does what a message says.
func (g *group) read(ctx context.Context, m message, now time.Time) {
	if m.Bye {
		g.members.depart(m)
		if m.Leads {
			g.heard = time.Time{}
			g.beat(ctx)
		}
		return
	}
	if m.Leads {
		if !g.follows(now) {
			g.askAt = now
		}
		g.ticks.learn(m.Fence.Epoch, m.Tick, now)
		g.heard, g.orphaned = now, false
		g.play(now)
	}
	if m.Beat != nil {
		g.part.ApplyStatus(m.Beat.unpack(now), m.Leads)
	}
	if len(m.Asks) > 0 {
		g.answer(ctx, m, now)
	}
	if m.Heard != nil && m.Heard.Who == g.me {
		if asks, ok := g.asked[m.Heard.Seq]; ok {
			delete(g.asked, m.Heard.Seq)
			g.part.Acknowledge(asks, ago(m.Heard.Seen, now))
		}
	}
	if len(m.Words) > 0 {
		g.part.ApplyStates(g.words(m, now))
	}
}

func (g *group) words(m message, now time.Time) (words []watch.State) {
	for _, text := range m.Words {
		w, err := unpackWord(text, now)
		if err != nil || w.Generation.ID == "" {
			g.c.refused.Add(1)
			continue
		}
		words = append(words, w)
	}
	return words
}

// answer takes in what a follower asks. What it is to know comes before the answer, so that it
// has it when the answer says that all was heard.
func (g *group) answer(ctx context.Context, m message, now time.Time) {
	if !g.lease.held(now) {
		return
	}
	seen := g.part.Subscribe(unpackAsks(m.Asks, now))
	g.tell(ctx)
	if g.lease.held(now) {
		g.say(g.toAll(), message{Leads: true, Heard: &heard{Who: m.From, Seq: m.Seq, Seen: age(seen, now)}})
	}
}

// leave says farewell.
func (g *group) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseTime)
	defer cancel()
	now := time.Now()
	size := g.size(now)
	g.sizeBefore = size.Live + size.Suspected
	g.c.history.remember(g.seal.name, g.sizeBefore, now)
	if g.lease.held(now) {
		g.states.save(ctx, g.part, g.fence)
		g.resign(ctx)
	} else {
		g.say(g.toAll(), message{Bye: true})
	}
	g.part.SetRole(groupSize{Live: 1}.assign(watch.Alone, time.Time{}))
}
