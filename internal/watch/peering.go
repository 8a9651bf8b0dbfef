package watch

import (
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// Peering is the part of this process in the shared polls of one credential. Its methods do no I/O and
// never wait for any.
type Peering struct {
	tenant *tenant

	pauseHeardUntil time.Time   // end of a pause that a peer has reported
	relays          [2]*watcher // watchers that stand for the peers', by goal
	all             *watcher    // watcher of everything, while a peer has one
	allUntil        time.Time
}

// lock locks the tenant, and gives it and the time.
func (p *Peering) lock() (*tenant, time.Time) {
	p.tenant.mu.Lock()
	return p.tenant, time.Now()
}

// Changed receives a token when there may be new interests or changes.
func (p *Peering) Changed() <-chan struct{} { return p.tenant.peers.changed }

// SetRole sets the role and its shares.
func (p *Peering) SetRole(a Assignment) {
	t, now := p.lock()
	defer t.mu.Unlock()
	was := t.peers.assignment
	if t.peers.assignment = a; was.Role == Leader && a.Role != Leader {
		p.unsubscribeAll(now)
	}
	if was.Until = a.Until; was != a {
		t.undeferAll(now)
	}
}

// Status gives the status of this process. Each call starts to count Spent anew.
func (p *Peering) Status() Status {
	t, now := p.lock()
	defer t.mu.Unlock()
	p.expire(now)
	s := Status{Condition: t.health.condition, Failures: t.health.failures, LastError: t.health.lastErr, Answered: t.health.answered}
	if t.peers.assignment.Role != Leader {
		s.Spent = t.peers.requests
	}
	if paused := t.budget.Paused(); paused.After(p.pauseHeardUntil) { // peers report their own pauses
		s.Pause = max(paused.Sub(now), 0)
	}
	t.peers.requests = 0
	return s
}

// ApplyStatus applies the status of a peer.
func (p *Peering) ApplyStatus(s Status, leader bool) {
	t, now := p.lock()
	defer t.mu.Unlock()
	if s.Pause > 0 {
		t.budget.Pause(now, now.Add(s.Pause))
		p.pauseHeardUntil = latest(p.pauseHeardUntil, earliest(now.Add(s.Pause), t.budget.Paused()))
	}
	if t.peers.assignment.Role == Leader {
		t.budget.Owe(s.Spent, now)
	}
	if !leader || !t.peers.follows(now) {
		return
	}
	if s.Condition == ConditionCredentialRejected && !t.cred.Held {
		p.verify(now)
		return
	}
	if !s.Answered.IsZero() {
		t.authenticate(now)
	}
	h := &t.health
	h.condition, h.failures, h.lastErr, h.answered = s.Condition, s.Failures, s.LastError, latest(h.answered, s.Answered)
}

// verify has one generation read, as a peer says that the catalog rejects a forwarded API key.
func (p *Peering) verify(now time.Time) {
	for _, e := range p.tenant.order {
		if s := e.peerState(); p.tenant.wanted(e, now) && !now.Before(s.ignoreEndsUntil) {
			s.unconfirmed = true
			p.tenant.pollAt(e, now)
			return
		}
	}
}

// Interests gives the generations that this process waits for: all, or only those that no leader is known
// to poll.
func (p *Peering) Interests(all bool) (list []Interest) {
	t, now := p.lock()
	defer t.mu.Unlock()
	if len(t.everything) > 0 && (all || now.After(t.peers.leaderListsUntil)) {
		list = append(list, Interest{})
	}
	listed := t.countListed(now)
	for _, e := range t.order {
		if !all && e.fresh && e.peer != nil && now.Before(e.peer.leaderPollsUntil) {
			continue
		}
		if one, wanted := p.interest(e, now); wanted {
			one.Waits = t.fewestWaits(e, listed)
			list = append(list, one)
		}
	}
	return list
}

func (p *Peering) interest(e *entry, now time.Time) (one Interest, wanted bool) {
	one.ID = e.id
	for _, c := range e.subscribers {
		if !e.reached(c.goal, now, p.tenant.cfg.RefundWindow) {
			wanted = true
			one.Settled = one.Settled || c.goal == Settled
		}
	}
	if e.fresh {
		one.Etag = e.etag
	}
	if e.notYetVisible(now) {
		one.ModelID, one.Created = e.modelID, e.created
	}
	return one, wanted
}

// Acknowledge notes that a leader has received interests. The states that it did not send are unchanged
// in polls since the given time; zero: it has sent, or will send, all states.
func (p *Peering) Acknowledge(list []Interest, seen time.Time) {
	t, now := p.lock()
	defer t.mu.Unlock()
	for _, one := range list {
		e := t.entries[one.ID]
		switch {
		case one.ID == "":
			t.peers.leaderListsUntil = now.Add(interestTTL)
			continue
		case e == nil:
			continue
		}
		s := e.peerState()
		s.leaderPollsUntil = now.Add(interestTTL)
		if !seen.IsZero() && e.fresh && one.Etag == e.etag && !s.unconfirmed {
			e.confirm(seen)
			t.scheduleNext(e, now)
		}
	}
	t.queue.wakeBy(now)
}

// ApplyStates applies states from a leader. An end is delivered to nobody before an own poll confirms it.
func (p *Peering) ApplyStates(states []State) {
	t, now := p.lock()
	defer t.mu.Unlock()
	t.authenticate(now)
	for _, s := range states {
		p.applyState(s, now)
	}
	t.queue.wakeBy(now)
}

func (p *Peering) applyState(s State, now time.Time) {
	t := p.tenant
	e := t.entries[s.Generation.ID]
	if e == nil && s.Listed && len(t.everything) > 0 && !s.terminal() {
		e = t.ensure(s.Generation.ID, now)
	}
	if e == nil {
		return
	}
	if s.Listed {
		t.addListed(e, now)
	}
	if !t.wanted(e, now) {
		return
	}
	known := e.peerState()
	switch {
	case s.Generation.State == 0: // too much for a message
		known.leaderPollsUntil = time.Time{}
		t.pollAt(e, now)
	case s.Generation.State == e.state.State && s.terminal():
	case !e.mayBecome(s.Generation.State):
		t.stats.Stale++
	case s.terminal():
		if !now.Before(known.ignoreEndsUntil) {
			known.unconfirmed = true
			t.pollAt(e, now)
		}
	default:
		t.stats.Applied++
		known.leaderPollsUntil = now.Add(interestTTL)
		t.apply(e, s.Generation, s.Etag, &pollResult{})
		t.scheduleNext(e, now)
	}
}

// States gives the active generations that somebody watches, or did a moment ago, for the next leader.
func (p *Peering) States() (states []State) {
	t, _ := p.lock()
	defer t.mu.Unlock()
	for _, e := range t.order {
		if e.fresh && !e.state.State.Terminal() {
			states = append(states, stateOf(e.update(), !e.listing.seenAt.IsZero()))
		}
	}
	return states
}

// Restore applies states that the leader before has left. They serve open watches and those that begin
// within a minute.
func (p *Peering) Restore(states []State) {
	t, now := p.lock()
	defer t.mu.Unlock()
	if len(states) > 0 {
		t.authenticate(now)
	}
	for _, s := range states {
		if s.terminal() || s.Generation.State == 0 || now.Sub(s.Generation.ObserveTime) > restoreMaxAge {
			continue
		}
		if e := t.ensure(s.Generation.ID, now); !e.fresh && e.state.State == 0 {
			e.idleSince, e.peerState().restored = now.Add(restoreLinger-linger), true
			t.stats.Restored++
			t.apply(e, s.Generation, s.Etag, &pollResult{})
			t.scheduleNext(e, now)
		}
	}
	t.queue.wakeBy(now)
}

// Subscribe takes in the interests of a follower. It gives the time of the oldest poll of those
// generations whose state the follower has already.
func (p *Peering) Subscribe(list []Interest) (seen time.Time) {
	t, now := p.lock()
	defer t.mu.Unlock()
	for _, one := range list {
		if one.ID == "" {
			p.relayAll(now)
		} else {
			seen = earliest(seen, p.subscribe(one, now))
		}
	}
	return seen
}

func (p *Peering) subscribe(one Interest, now time.Time) (seen time.Time) {
	e := p.tenant.ensure(one.ID, now)
	if e.created.IsZero() && !one.Created.IsZero() {
		e.created, e.modelID = one.Created, one.ModelID
	}
	goal := Terminal
	if one.Settled {
		goal = Settled
	}
	s, relay := e.peerState(), p.relay(goal)
	s.interestUntil[goal], s.waits = now.Add(interestTTL), max(one.Waits, 1)
	if s.relayAt[goal] == notQueued {
		s.relayAt[goal] = relay.add(e, now)
	}
	sub := &relay.subscriptions[s.relayAt[goal]]
	sub.deliveredEtag, sub.flags = one.Etag, sub.flags&^hasEtag
	if one.Etag != "" {
		sub.flags |= hasEtag
	}
	switch {
	case e.fresh && e.etag == one.Etag:
		return e.state.ObserveTime
	case sub.flags&dirty == 0:
		relay.mark(s.relayAt[goal])
	}
	return seen
}

// relay gives the watcher that stands for the peers' watchers with this goal.
func (p *Peering) relay(goal Goal) *watcher {
	if p.relays[goal] == nil {
		p.relays[goal] = &watcher{stream: stream{tenant: p.tenant, notify: p.tenant.peers.signal}, goal: goal, relay: true, initialKnown: true}
	}
	return p.relays[goal]
}

// relayAll starts a watcher of everything, because a peer has one.
func (p *Peering) relayAll(now time.Time) {
	p.allUntil = now.Add(interestTTL)
	if p.all == nil {
		p.all = &watcher{stream: stream{tenant: p.tenant, notify: p.tenant.peers.signal}, goal: Settled, relay: true, everything: true}
		p.tenant.everything = append(p.tenant.everything, p.all)
		p.tenant.queue.wakeBy(now)
	}
}

// Changes gives new states for the followers, at most n. It fails where the catalog rejects the credential.
func (p *Peering) Changes(n int) (changes []State, err error) {
	t, now := p.lock()
	defer t.mu.Unlock()
	for _, w := range []*watcher{p.relays[Terminal], p.relays[Settled], p.all} {
		for w != nil && len(changes) < n {
			step := w.step(now)
			if step.err != nil {
				return changes, step.err
			}
			if step.event == nil {
				break
			}
			if u := step.event.Update; u != nil {
				changes = append(changes, stateOf(*u, w == p.all))
			}
		}
	}
	return changes, nil
}

// expire ends interests that no peer has repeated.
func (p *Peering) expire(now time.Time) {
	if p.tenant.peers.assignment.Role != Leader {
		return
	}
	if p.all != nil && now.After(p.allUntil) {
		p.all.unsubscribe(now)
		p.all = nil
	}
	for _, e := range p.tenant.order {
		for goal, w := range p.relays {
			if s := e.peer; s != nil && s.relayAt[goal] != notQueued && now.After(s.interestUntil[goal]) {
				w.remove(s.relayAt[goal], now)
			}
		}
	}
}

// unsubscribeAll ends all interests of peers.
func (p *Peering) unsubscribeAll(now time.Time) {
	for _, w := range append(p.relays[:], p.all) {
		if w != nil {
			w.unsubscribe(now)
		}
	}
	p.relays, p.all = [2]*watcher{}, nil
}

func stateOf(u Update, listed bool) State {
	s := State{Generation: u.Generation, Etag: u.Etag, Listed: listed}
	if s.terminal() {
		s.Generation = catalog.Generation{ID: u.Generation.ID, State: u.Generation.State, ObserveTime: u.Generation.ObserveTime}
	}
	return s
}

func (s State) terminal() bool { return s.Generation.State.Terminal() }
