package watch

import "time"

// Hear takes in what a follower asks, and gives the time of the oldest look at what the
// follower need not be told, as it knows it already.
func (t *Part) Hear(asks []Ask) (seen time.Time) {
	defer t.lock()()
	now := time.Now()
	for _, ask := range asks {
		if ask.ID == "" {
			t.hearAll(now)
		} else if at := t.hear(ask, now); !at.IsZero() {
			seen = earliest(seen, at)
		}
	}
	return seen
}

func (t *Part) hear(ask Ask, now time.Time) (seen time.Time) {
	e := t.p.watchable(ask.ID, now)
	if e.created.IsZero() && !ask.Created.IsZero() {
		e.created = ask.Created
		e.modelID = ask.ModelID
	}
	goal := Terminal
	if ask.Settled {
		goal = Settled
	}
	s, relay := e.peers(), t.relay(goal)
	s.until[goal], s.waits = now.Add(coverage), max(ask.Waits, 1)
	if s.at[goal] < 0 {
		s.at[goal] = t.p.attach(relay, e, now)
	}
	it := &relay.items[s.at[goal]]
	it.told, it.flags = ask.Etag, it.flags&^known
	if ask.Etag != "" {
		it.flags |= known
	}
	switch {
	case e.fresh && e.etag == ask.Etag:
		return e.state.ObserveTime
	case it.flags&dirty == 0:
		relay.mark(s.at[goal])
	}
	return seen
}

// relay gives the watch that stands for what peers wait for.
func (t *Part) relay(goal Goal) *subscription {
	if t.relays[goal] == nil {
		s := t.subscription(goal)
		s.relays, s.listed, s.everything = true, true, false // it covers what it is asked for
		t.relays[goal] = s
	}
	return t.relays[goal]
}

func (t *Part) subscription(goal Goal) *subscription {
	return &subscription{
		hub: t.p.hub, poller: t.p, signal: t.changed, goal: goal, everything: true,
	}
}

// hearAll covers all that the list carries, because a peer has a watch of everything.
func (t *Part) hearAll(now time.Time) {
	t.allUntil = now.Add(coverage)
	if t.all == nil {
		t.all = t.subscription(Settled)
		t.p.all = append(t.p.all, t.all)
		t.p.stir()
		t.p.wakeBy(now)
	}
}

// expire drops what nobody has asked for again; mu is held.
func (t *Part) expire(now time.Time) {
	if t.role != Leader {
		return
	}
	for _, e := range t.p.order {
		if s := e.sharing; s != nil {
			for goal, at := range s.at {
				if at >= 0 && now.After(s.until[goal]) {
					t.p.detach(t.relays[goal], at, now)
				}
			}
		}
	}
	if t.all != nil && now.After(t.allUntil) {
		t.p.uncover(t.all, now)
		t.all = nil
	}
}

// dismiss drops all that peers have asked for; mu is held.
func (t *Part) dismiss(now time.Time) {
	for _, e := range t.p.order {
		if s := e.sharing; s != nil {
			for goal, at := range s.at {
				if at >= 0 {
					t.p.detach(t.relays[goal], at, now)
				}
			}
		}
	}
	if t.all != nil {
		t.p.uncover(t.all, now)
		t.all = nil
	}
	t.relays = [2]*subscription{}
}

// Words gives what there is to tell the followers, at most n of them. It fails where the
// catalog no longer takes the credential.
func (t *Part) Words(n int) (words []Word, err error) {
	open, all := t.open()
	for _, s := range open {
		for len(words) < n {
			step := s.next(time.Now())
			if step.err != nil {
				return words, step.err
			}
			if step.event == nil {
				break
			}
			if u := step.event.Update; u != nil {
				words = append(words, wordOf(*u, s == all))
			}
		}
	}
	return words, nil
}

// open are the watches that stand for the followers', and which of them is of everything.
func (t *Part) open() (open []*subscription, all *subscription) {
	defer t.lock()()
	for _, s := range []*subscription{t.relays[Terminal], t.relays[Settled], t.all} {
		if s != nil {
			open = append(open, s)
		}
	}
	return open, t.all
}

// States gives what is known of all that somebody waits for, or did a moment ago, for a process
// that comes after this one.
func (t *Part) States() (words []Word) {
	defer t.lock()()
	for _, e := range t.p.order {
		if e.fresh && !e.state.State.Terminal() {
			words = append(words, wordOf(e.update(), !e.listed.IsZero()))
		}
	}
	return words
}
