package limiter

import "time"

// Outcome is what has become of a turn.
type Outcome uint8

// The outcomes.
const (
	Passed    Outcome = iota // it was served
	Answered                 // it was refused for a reason of its own
	Failed                   // there was no answer, or one that says that the other side is broken
	Throttled                // the other side asks for fewer requests
	Paused                   // the other side asks to be left alone for a while
	Capped                   // the daily cap is reached
	Abandoned                // whoever asked has not waited for the answer
	Unused                   // nothing has left
)

// Answer is the end of a turn.
type Answer struct {
	Outcome
	// RetryAfter is how long the other side asks to wait, of [Throttled] and [Paused]. 0 means that it does not say.
	RetryAfter time.Duration
}

// Permit is the right to make one request.
type Permit struct {
	Came time.Time // when its request came first

	gate   *Limiter
	owner  *owner
	class  Class
	began  time.Time
	first  bool // after a pause
	looks  bool // whether the daily cap is over
	pauses int  // when it began
	ended  bool
}

// End ends the turn with what has become of it. It may be called again, and of no turn, to no effect.
func (t *Permit) End(a Answer) {
	if t == nil {
		return
	}
	g, now := t.gate, time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.ended {
		return
	}
	t.ended = true
	g.held[t.class]--
	t.owner.held--
	g.hold += (now.Sub(t.began) - g.hold) / holdWeight
	g.repeats.note(a.Outcome)
	if a.Outcome == Unused && t.class == Poll {
		g.polls.tokens++ // the next filling bounds them
	}
	switch a.Outcome {
	case Unused:
		g.paces[paceOf(t.class)].bucket.tokens++ // as those of polls
		fallthrough
	case Throttled, Paused:
		t.owner.share = max(g.leastShare(t.owner), t.owner.share-1/t.owner.weight) // it has had nothing
	default:
		g.paces[paceOf(t.class)].passed(1, now)
	}
	g.learn(t, a, now)
	g.give(now)
	g.forget()
}

// Holds reports whether there is a turn that may still be used: it has not ended, and no pause has begun since it was given.
func (t *Permit) Holds() bool {
	if t == nil {
		return false
	}
	t.gate.mu.Lock()
	defer t.gate.mu.Unlock()
	return !t.ended && t.pauses == t.gate.pause.count
}

// GoesFirst reports whether the turn is the one that goes first after a pause: all others wait for its end.
func (t *Permit) GoesFirst() bool { return t != nil && t.first }

// learn takes in what the other side has said.
func (g *Limiter) learn(t *Permit, a Answer, now time.Time) {
	switch a.Outcome {
	case Throttled, Paused:
		late := t.pauses != g.pause.count // it began before the last pause
		refused := Classes                // the class whose pace was too fast
		if a.Outcome == Throttled && !late && !t.first {
			refused = paceOf(t.class)
			g.slow(refused, now)
		}
		g.close(a, late, refused, now)
	case Capped:
		g.cap.reached(now)
	case Passed:
		if t.class == Order && g.cap.isReached() {
			g.cap = dailyCap{}
		}
	}
	if t.looks && (a.Outcome == Unused || a.Outcome == Throttled || a.Outcome == Paused) {
		g.cap.looks = now // it has seen nothing
	}
	if g.pause.ended(t, a.Outcome, now) {
		g.paces[Order].open(now)
		g.paces[Read].open(now)
	}
	if a.Outcome == Throttled || a.Outcome == Paused || a.Outcome == Capped {
		g.review(now)
	}
}

// close closes the gate for everybody.
func (g *Limiter) close(a Answer, late bool, refused Class, now time.Time) {
	if !late {
		g.paces[Order].pause(refused == Order, now)
		g.paces[Read].pause(refused == Read, now)
	}
	g.pause.begins(a.RetryAfter, late, now)
	g.pause.why = a.Outcome
}

// slow makes a pace slower, which has been too fast.
func (g *Limiter) slow(c Class, now time.Time) {
	busy := false
	for _, o := range g.owners {
		busy = busy || len(o.lines[c]) > 0
	}
	g.paces[c].slow(busy, now)
}

// review refuses all whose turn does not come in time any more.
func (g *Limiter) review(now time.Time) {
	for _, o := range g.owners {
		for _, line := range o.lines {
			for _, w := range append([]*waiter(nil), line...) {
				g.turnAway(w, now)
			}
		}
	}
}

// SetPollRate sets how many polls begin in a second.
func (g *Limiter) SetPollRate(rate float64) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.polls.fill(g.cfg.PollRate, now)
	g.cfg.PollRate = rate
	g.give(now)
}

// MayRepeat reports whether a request that has failed may be repeated: while most fail, a repeat makes it worse.
func (g *Limiter) MayRepeat() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.repeats.tokens > mostRepeats/2
}

const (
	mostRepeats = 10.0 // failures in a row; half of them may be repeated
	repeatsBack = 0.1  // of one for a request that was served
)

// repeats holds repeats back while most requests fail, as gRPC does. An outage costs a handful of repeats, and a catalog
// that fails now and then one for ten requests at most.
type repeats struct{ tokens float64 }

func (r *repeats) note(o Outcome) {
	switch o {
	case Passed:
		r.tokens = min(mostRepeats, r.tokens+repeatsBack)
	case Failed:
		r.tokens = max(0, r.tokens-1)
	}
}
