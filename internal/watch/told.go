package watch

import "time"

// Asks gives what this process wants to be told of: all of it, or what no leader is known to
// look at, or has told of yet.
func (t *Part) Asks(all bool) (asks []Ask) {
	defer t.lock()()
	now, p := time.Now(), t.p
	if len(p.all) > 0 && (all || now.After(t.coveredAll)) {
		asks = append(asks, Ask{})
	}
	shown := p.shown(now)
	for _, e := range p.order {
		if !all && e.fresh && e.sharing != nil && now.Before(e.sharing.covered) {
			continue
		}
		if ask, ok := e.ask(now, p.hub.cfg.RefundWindow); ok {
			ask.Waits = e.share(shown)
			asks = append(asks, ask)
		}
	}
	return asks
}

// ask is what the watches of an entry want of a leader.
func (e *entry) ask(now time.Time, refundWindow time.Duration) (ask Ask, wanted bool) {
	ask.ID = e.id
	for _, r := range e.subs {
		if goal := r.sub.goal; !e.reached(goal, now, refundWindow) {
			wanted = true
			ask.Settled = ask.Settled || goal == Settled
		}
	}
	if e.fresh {
		ask.Etag = e.etag
	}
	if e.unseen(now) {
		ask.ModelID, ask.Created = e.modelID, e.created
	}
	return ask, wanted
}

// Cover notes that a leader has heard what was asked. What it need not tell it has looked at
// since the given time; zero: it told, or will tell, all.
func (t *Part) Cover(asks []Ask, seen time.Time) {
	defer t.lock()()
	now, p := time.Now(), t.p
	for _, ask := range asks {
		e := p.entries[ask.ID]
		switch {
		case ask.ID == "":
			t.coveredAll = now.Add(coverage)
			continue
		case e == nil:
			continue
		}
		s := e.peers()
		s.covered = now.Add(coverage)
		if !seen.IsZero() && e.fresh && ask.Etag == e.etag && !s.worded {
			e.state.ObserveTime = latest(e.state.ObserveTime, seen)
			e.renew()
			p.again(e, now)
		}
	}
	p.nudge()
}

// Tell takes in what a leader says.
func (t *Part) Tell(words []Word) {
	defer t.lock()()
	now := time.Now()
	for _, w := range words {
		t.p.told(w, now)
	}
	t.p.nudge()
}

// told takes in one word. An end is told to nobody before a look of our own has shown it.
func (p *poller) told(w Word, now time.Time) {
	e := p.entries[w.Generation.ID]
	if e == nil && w.Listed && len(p.all) > 0 && !w.terminal() {
		e = p.watchable(w.Generation.ID, now)
	}
	if e == nil {
		return
	}
	if w.Listed {
		p.show(e, now)
	}
	if !e.wanted(now, p.hub.cfg.RefundWindow) {
		return
	}
	s := e.peers()
	switch {
	case w.Generation.State == 0: // too much for a message
		s.covered, e.due = time.Time{}, now
	case w.Generation.State == e.state.State && w.terminal():
	case !e.follows(w.Generation.State):
		p.hub.stats.Stale++
	case w.terminal():
		if !now.Before(s.deaf) {
			s.worded, e.due = true, now
		}
	default:
		p.hub.stats.Told++
		s.covered = now.Add(coverage)
		p.applyAs(e, w.Generation, w.Etag, &look{})
		p.again(e, now)
	}
}

// Recall takes in what another process knew before this one polled. It serves the watches
// that are here and those that come within a minute.
func (t *Part) Recall(words []Word) {
	defer t.lock()()
	now := time.Now()
	t.recalled, t.forgetTime = map[string]Word{}, now.Add(remembers)
	for _, w := range words {
		if w.terminal() || w.Generation.State == 0 || now.Sub(w.Generation.ObserveTime) > oldest {
			continue
		}
		t.recalled[w.Generation.ID] = w
		if e := t.p.entries[w.Generation.ID]; e != nil {
			t.recall(e, now)
		}
	}
	t.p.nudge()
}

// recall gives an entry the state that it had before this process polled; mu is held.
func (t *Part) recall(e *entry, now time.Time) {
	w, ok := t.recalled[e.id]
	if !ok || e.fresh || e.state.State != 0 || now.After(t.forgetTime) {
		return
	}
	e.peers().recalled = true
	t.p.hub.stats.Recalled++
	t.p.applyAs(e, w.Generation, w.Etag, &look{})
	t.p.again(e, now)
}

// shown is how many renders the list has shown and somebody waits for; mu is held.
func (p *poller) shown(now time.Time) (n int) {
	for _, e := range p.order {
		if !e.listed.IsZero() && e.wanted(now, p.hub.cfg.RefundWindow) {
			n++
		}
	}
	return n
}

// remember is recall for a new entry; mu is held.
func (p *poller) remember(e *entry, now time.Time) {
	if p.part != nil {
		p.part.recall(e, now)
	}
}

// recalled reports whether an entry still stands as it was recalled; mu is held.
func (p *poller) recalled(e *entry, now time.Time) bool {
	return e.sharing != nil && e.sharing.recalled && now.Before(p.part.forgetTime)
}
