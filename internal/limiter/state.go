package limiter

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// State is what a gate tells of itself.
type State struct {
	// Paused is until when the other side wants to be left alone; in the past, or zero, where it does not.
	Paused time.Time
	// Why is what has asked for the pause: [Throttled] or [Paused].
	Why Outcome
	// Probing means that the pause is over, and that the others wait until the first has passed.
	Probing bool
	// Capped means that the daily cap is reached, as far as is known, and Looks is when an order may look whether it is over.
	Capped bool
	Looks  time.Time
	// OrderPace is how many turns of orders are given in a second; 0: any number.
	OrderPace float64
	// PollRate is how many polls may be made in a second, 0 any number, and Polls how many at once.
	PollRate, Polls float64
	// Held is how many turns are under way.
	Held [Classes]int
	// Waiting is who waits, the longest first.
	Waiting []Waiting
}

// Closed reports whether all wait for the end of a pause, or for the one that goes first after it.
func (s State) Closed(now time.Time) bool { return s.Probing || s.Paused.After(now) }

// Waiting is the line of one owner and class.
type Waiting struct {
	Owner string
	Class Class
	Count int
	Since time.Time // when the first of them came
}

// State gives the state of the gate.
func (g *Limiter) State() State {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	s := State{
		Paused: g.pause.until, Why: g.pause.why, Probing: g.pause.closed && !now.Before(g.pause.until), Capped: g.cap.isReached() && !g.cap.isOver(now),
		Looks: g.cap.looks, OrderPace: g.paces[Order].rate(now), Held: g.held,
	}
	g.polls.fill(g.cfg.PollRate, now)
	s.PollRate, s.Polls = g.cfg.PollRate, g.polls.tokens
	if pace := g.paces[Read].rate(now); pace > 0 { // polls share a rate of their own in the book
		s.PollRate = min(cmp.Or(s.PollRate, pace), pace)
	}
	for _, o := range g.owners {
		for c, line := range o.lines {
			if len(line) > 0 {
				s.Waiting = append(s.Waiting, Waiting{o.name, Class(c), len(line), line[0].Came})
			}
		}
	}
	slices.SortFunc(s.Waiting, func(a, b Waiting) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Owner, b.Owner)) })
	return s
}

// Polls is how many polls may begin now, and when there may be another after them; where one in line makes it later, when
// that one has gone.
func (g *Limiter) Polls() (n int, again time.Time) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	at, shut := g.opens(Poll, now)
	switch {
	case shut:
		return 0, now.Add(firstPause)
	case at.After(now):
		return 0, at
	case g.pause.closed:
		return 1, now.Add(firstPause)
	}
	n = math.MaxInt
	if g.cfg.PollRate > 0 {
		n = int(g.polls.tokens + 1e-9)
		again = now.Add(time.Duration((float64(n+1) - g.polls.tokens) / g.cfg.PollRate * float64(time.Second)))
	}
	return n, later(again, now.Add(time.Millisecond))
}

// Estimate is how long a request would wait for its turn. 0 means that nothing makes it wait as far as is known.
func (g *Limiter) Estimate(r Request) time.Duration {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	w := &waiter{Request: r, owner: g.owners[r.Owner]}
	if w.Came.IsZero() {
		w.Came = now
	}
	if w.owner == nil {
		w.owner = &owner{name: r.Owner, weight: cmp.Or(r.Weight, 1)}
	}
	return g.estimate(w, now)
}

// IsIdle reports whether the gate knows nothing that a new one would not.
func (g *Limiter) IsIdle() bool {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	idle := g.waiting == 0 && g.inUse() == 0 && !now.Before(g.pause.until) && (!g.cap.isReached() || g.cap.isOver(now))
	return idle && !g.paces[Order].limits(now) && !g.paces[Read].limits(now)
}

// estimate is how long a waiter waits: to the end of a pause, and then for those who go before it, at the pace of its
// class or as long as a turn is held.
func (g *Limiter) estimate(w *waiter, now time.Time) (wait time.Duration) {
	before := float64(g.before(w))
	if g.pause.closed {
		wait = max(0, g.pause.until.Sub(now))
	}
	if rate := g.paces[paceOf(w.Class)].hoped(); rate > 0 {
		wait += seconds(before / rate)
	}
	if g.cfg.PollRate > 0 && w.Class == Poll {
		wait = max(wait, seconds((before+1-g.polls.tokens)/g.cfg.PollRate))
	}
	if places := g.cfg.Places[w.Class]; places > 0 && !g.hasPlace(w.owner, w.Class) {
		wait += time.Duration(float64(g.hold) * (before + 1) / float64(places))
	}
	return wait
}

func seconds(s float64) time.Duration {
	return time.Duration(max(0, min(s, 1e6)) * float64(time.Second))
}

// before is how many go before a waiter: of its own owner those in line before it, of each other as many by weight.
func (g *Limiter) before(w *waiter) (n int) {
	for c := range w.Class + 1 {
		for _, one := range w.owner.lines[c] {
			if c < w.Class || one != w && !one.Came.After(w.Came) {
				n++
			}
		}
	}
	mine := float64(n+1) / w.owner.weight
	for _, o := range g.owners {
		if o == w.owner {
			continue
		}
		theirs := 0
		for c := range w.Class + 1 {
			theirs += len(o.lines[c])
		}
		n += int(min(float64(theirs), mine*o.weight))
	}
	return n
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
