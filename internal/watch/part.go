package watch

import (
	"context"
	"math"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// Part is the part of this process in polling for one credential. Its methods do no I/O and
// never wait for any.
type Part struct {
	p       *poller
	changed chan struct{} // of capacity 1

	// All below is guarded by the hub's mutex.
	leave func() // ends what is played; nil: it has not begun
	gone  bool   // it is to end
	role  Role
	until time.Time // then the part is alone
	crowd Crowd
	spent int
	heard time.Time // a pause that a peer has told of ends then

	relays   [2]*subscription // what peers wait for, by goal
	all      *subscription    // covers everything, while a peer wants that
	allUntil time.Time

	coveredAll time.Time // the leader looks at the list until then
	look       time.Time // the next look of our own at what is covered
	picked     *entry    // at which; nil: at all of it, by a sweep

	recalled   map[string]Word
	forgetTime time.Time
}

func newPart(p *poller, now time.Time) *Part {
	return &Part{
		p: p, changed: make(chan struct{}, 1),
		role: Follower, until: now.Add(hold), crowd: Crowd{Live: 1}, look: now.Add(ownLook),
	}
}

// Changed gives a token when there may be something new to ask or to say.
func (t *Part) Changed() <-chan struct{} { return t.changed }

func (t *Part) nudge() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// lock takes the hub's mutex, and gives what releases it.
func (t *Part) lock() (unlock func()) {
	t.p.hub.mu.Lock()
	return t.p.hub.mu.Unlock
}

// Play sets the role until the given time, after which the part is alone.
func (t *Part) Play(role Role, until time.Time, crowd Crowd) {
	defer t.lock()()
	now := time.Now()
	if t.role == Leader && role != Leader {
		t.dismiss(now)
	}
	changed := role != t.role || crowd != t.crowd
	t.role, t.until, t.crowd = role, until, crowd
	if changed {
		t.p.nudge()
	}
}

// following reports whether somebody else polls; mu is held.
func (p *poller) following(now time.Time) bool {
	return p.part != nil && p.part.role == Follower && now.Before(p.part.until)
}

// allowance is the rate that this process may use. All that share a credential keep to the
// configured rate together, also where they can't hear each other.
func (p *poller) allowance(now time.Time) float64 {
	rate := p.hub.cfg.Rate
	if p.part == nil {
		return rate
	}
	live, all := float64(p.part.crowd.Live), float64(p.part.crowd.Live+p.part.crowd.Lost)
	switch {
	case !now.Before(p.part.until) || p.part.role == Alone:
		return rate / all
	case p.part.role == Leader:
		return rate * live / all
	}
	// What followers use the leader hears of, and yields; a quarter is out of their reach.
	return rate * live / all * (1 - reserved) / max(live-1, 1)
}

// Beat gives how this process fares. What it has spent is told once.
func (t *Part) Beat() Beat {
	defer t.lock()()
	now, p := time.Now(), t.p
	t.expire(now)
	b := Beat{Condition: p.condition, Failures: p.failures, LastError: p.lastErr, Answered: p.answered}
	if t.role != Leader {
		b.Spent = t.spent
	}
	if p.budget.paused.After(t.heard) { // what others have told of they tell themselves
		b.Pause = max(p.budget.paused.Sub(now), 0)
	}
	t.spent = 0
	return b
}

// Heed takes in how a peer fares.
func (t *Part) Heed(b Beat, leader bool) {
	defer t.lock()()
	now, p := time.Now(), t.p
	if b.Pause > 0 {
		until := now.Add(min(b.Pause, pauseCap))
		t.heard = latest(t.heard, until)
		p.budget.pause(now, until)
	}
	if t.role == Leader {
		for range min(b.Spent, int(math.Ceil(p.hub.cfg.Rate))) { // more than that nobody can owe
			p.budget.spend(now)
		}
	}
	if !leader || !p.following(now) {
		return
	}
	if b.Condition == ConditionCredentialRejected && !p.cred.Held {
		t.doubt(now)
		return
	}
	p.condition, p.failures, p.lastErr = b.Condition, b.Failures, b.LastError
	p.answered = latest(p.answered, b.Answered)
}

// doubt has one render read: a caller's own key is said to be rejected.
func (t *Part) doubt(now time.Time) {
	for _, e := range t.p.order {
		if s := e.peers(); e.wanted(now, t.p.hub.cfg.RefundWindow) && !now.Before(s.deaf) {
			s.worded, e.due = true, now
			t.p.nudge()
			return
		}
	}
}

// spared gives the time until which a leader's looks stand for one of our own; mu is held.
func (p *poller) spared(e *entry, now time.Time) (until time.Time, ok bool) {
	if !p.covered(e, now) || p.looksAt(e, now) {
		return until, false
	}
	return earlier(earlier(e.sharing.covered, p.part.look), p.part.until), true
}

// covered reports whether a leader looks at an entry; mu is held.
func (p *poller) covered(e *entry, now time.Time) bool {
	s := e.sharing
	return s != nil && !s.worded && e.hint == nil && p.following(now) && now.Before(s.covered)
}

// looksAt reports whether it is time for a look of our own at an entry that is covered, or at
// the list where that is nil; mu is held.
func (p *poller) looksAt(e *entry, now time.Time) bool {
	return !now.Before(p.part.look) && (p.part.picked == nil || p.part.picked == e)
}

// listSpared is spared for the list.
func (p *poller) listSpared(now time.Time) (until time.Time, ok bool) {
	if p.part == nil || !p.following(now) || !now.Before(p.part.coveredAll) || p.looksAt(nil, now) {
		return until, false
	}
	return earlier(earlier(p.part.coveredAll, p.part.look), p.part.until), true
}

// pick chooses at what the next look of our own is: the list, where it shows enough, or what
// was not looked at for the longest time; mu is held.
func (p *poller) pick(now time.Time) {
	if p.part == nil || now.Before(p.part.look) || !p.following(now) {
		return
	}
	p.part.picked = nil
	listable := 0
	for _, e := range p.order {
		if !p.covered(e, now) || !e.wanted(now, p.hub.cfg.RefundWindow) {
			continue
		}
		if p.list.usable(now) && !now.Before(e.alone) {
			listable++
		}
		if p.part.picked == nil || e.sharing.looked.Before(p.part.picked.sharing.looked) {
			p.part.picked = e
		}
	}
	switch {
	case listable >= sweepFrom || len(p.all) > 0:
		p.part.picked = nil
	case p.part.picked == nil:
		p.part.look = now.Add(p.ownLook()) // there is nothing to look at
	default:
		p.part.picked.due = earlier(p.part.picked.due, now)
	}
}

// ownLook is the time to the next look of our own at the same.
func (p *poller) ownLook() time.Duration {
	return spread(ownLook*time.Duration(max(p.part.crowd.Live, 2)), p.dice.draw())
}

// lookedAt notes that a look of our own has begun, at one entry or, where that is nil, at the
// list. Where each is read by itself they share what such looks may cost.
func (p *poller) lookedAt(e *entry, now time.Time) {
	if p.part == nil || p.part.picked != e {
		return
	}
	gap := p.ownLook()
	if e != nil {
		least := float64(max(p.part.crowd.Live-1, 1)) / (ownShare * p.hub.cfg.Rate)
		gap = max(gap/time.Duration(len(p.order)), time.Duration(least*float64(time.Second)))
	}
	p.part.look, p.part.picked = now.Add(gap), nil
}

// worded reports whether a peer has told of an end that nobody here has seen.
func (e *entry) worded() bool { return e.sharing != nil && e.sharing.worded }

// share plays the part of this process, until the poller is gone.
func (p *poller) share() {
	ctx, cancel := context.WithCancel(p.hub.ctx)
	defer cancel()
	p.hub.mu.Lock()
	p.part.leave = cancel
	if p.part.gone {
		cancel()
	}
	p.hub.mu.Unlock()
	p.hub.cfg.Peers.Share(ctx, p.cred, p.part)
}

// end ends the part; mu is held.
func (t *Part) end() {
	if t == nil {
		return
	}
	t.gone = true
	if t.leave != nil {
		t.leave()
	}
}

// spend counts a request of a call.
func (p *poller) spend(now time.Time) {
	p.budget.spend(now)
	p.spent()
}

// spent notes a request, so that the leader hears of it.
func (p *poller) spent() {
	if p.part != nil {
		p.part.spent++
	}
}

// looked takes in that a look of our own was answered.
func (p *poller) looked(e *entry, now time.Time) {
	s := e.sharing
	if p.part == nil || s == nil {
		return
	}
	s.looked, s.recalled = now, false
	if s.worded {
		s.worded = false
		if !e.state.State.Terminal() {
			s.deaf = now.Add(p.hub.cfg.MaxInterval)
			p.hub.stats.Refuted++
		}
	}
}

// await gives a leader time to answer before an entry is looked at here.
func (p *poller) await(e *entry, now time.Time) {
	if !p.following(now) {
		return
	}
	s := e.peers()
	if !e.fresh && !now.Before(s.covered) {
		s.covered = now.Add(grace)
	}
	p.part.nudge()
}

// terminal reports whether a word is of an end, which is only a hint.
func (w Word) terminal() bool { return w.Generation.State.Terminal() }

// wordOf is what this process says of a state.
func wordOf(u Update, listed bool) Word {
	w := Word{Generation: u.Generation, Etag: u.Etag, Listed: listed}
	if w.terminal() {
		w.Generation = catalog.Generation{ID: u.Generation.ID, State: u.Generation.State, ObserveTime: u.Generation.ObserveTime}
	}
	return w
}
