// Package limiter decides which request goes to the catalog next, for each API key.
//
// A request waits in the queue of its owner and class. The next permit goes to the owner with the smallest share by weight,
// and within an owner to orders before reads before polls. A 429 pauses the limiter for as long as the catalog asks; then one
// request goes first, and the others follow when it has passed. The daily cap closes the limiter for orders. A request that
// cannot have a permit before its deadline fails as soon as that is known.
package limiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"
)

// Class is the class of a request: the lowest comes first.
type Class uint8

// The classes.
const (
	Order   Class = iota // a paid order
	Read                 // a read, which a person may wait for
	Poll                 // what nobody waits for at this moment
	Classes              // the number of classes
)

// String names the class in metrics.
func (c Class) String() string { return [...]string{"order", "read", "poll"}[c] }

// Config is what a gate gives. The zero value gives everybody a turn at once, until the other side refuses one.
type Config struct {
	// Places is how many turns a class and those behind it may hold at once. 0 means any number. One place in sixteen is
	// for owners that hold fewer than two: their next request need not wait, however long the others hold theirs.
	Places [Classes]int
	// OwnerPlaces is how many turns one owner may hold at once. 0 means any number.
	OwnerPlaces int
	// PollRate is how many polls begin in a second. 0 means any number.
	PollRate float64
}

// Request is a wish for a turn.
type Request struct {
	Owner  string
	Weight float64 // of the owner; 0 means what it was before, at first 1
	Class  Class
	// Came is when the request came first: one that was sent back keeps its place in line. Zero means now.
	Came time.Time
	// Patience is how long the request waits at most. Zero means as long as its context lasts.
	Patience time.Duration
}

// Refused is the error of a request that gets no turn in time. Nothing has left.
type Refused struct {
	After     time.Duration // when it is worth another try, by the gate's own estimate; 0 is not known
	Throttled bool          // the other side has asked for fewer requests: else there are too many of our own
	Capped    bool          // the daily cap is reached
}

// Error says why, and for how long.
func (e *Refused) Error() string {
	switch {
	case e.Capped:
		return "the daily cap of the API key is reached"
	case e.Throttled:
		return fmt.Sprintf("the catalog asks for fewer requests: a turn comes in %v", e.After.Round(time.Millisecond))
	}
	return fmt.Sprintf("too many wait: a turn comes in %v", e.After.Round(time.Millisecond))
}

const (
	reservedPart = 16  // one place in so many is reserved
	fewPlaces    = 2   // for owners that hold fewer
	owners       = 256 // that may be remembered beside those that wait or hold a turn
	mostSaved    = 8   // turns that an owner may save up that asks for less than its part: it goes first when it comes
	holdWeight   = 8   // one turn in so many is what the time of a turn is known by
)

// Limiter grants permits. Its methods may be called concurrently.
type Limiter struct {
	cfg Config

	mu      sync.Mutex
	owners  map[string]*owner
	waiting int
	held    [Classes]int
	hold    time.Duration // how long a turn is held, on average
	share   float64       // of the owner that went last, before its turn
	paces   [Classes]pace // of polls and reads together that of reads
	polls   bucket
	pause   pause
	cap     dailyCap
	repeats repeats
	timer   *time.Timer // until the next turn, where that is a matter of time
}

// owner is who shares the turns, as long as it waits, holds one, or has had more than its part.
type owner struct {
	name   string
	weight float64
	share  float64 // turns by weight
	held   int
	lines  [Classes][]*waiter // in the order in which they came first
}

// waiter is a request in line.
type waiter struct {
	Request
	owner    *owner
	deadline time.Time     // zero: none
	decided  chan struct{} // closed when there is a turn or an error; nil where there was one at once
	turn     *Permit
	given    Permit // what turn points to
	err      error
}

// New makes a gate.
func New(cfg Config) *Limiter {
	g := &Limiter{cfg: cfg, owners: map[string]*owner{}, repeats: repeats{tokens: mostRepeats}}
	g.polls.fill(cfg.PollRate, time.Now())
	return g
}

// Enter waits for a turn, which must be ended. It gives a [*Refused] where none comes before the deadline of ctx, as soon
// as that is known, and the cause of ctx where that is cancelled.
func (g *Limiter) Enter(ctx context.Context, r Request) (*Permit, error) {
	if err := ctx.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, context.Cause(ctx)
	}
	w := &waiter{Request: r}
	w.deadline, _ = ctx.Deadline()
	if limit := time.Now().Add(r.Patience); r.Patience > 0 && (w.deadline.IsZero() || limit.Before(w.deadline)) {
		w.deadline = limit
	}
	g.join(w)
	if w.decided == nil {
		return w.turn, w.err
	}
	if !w.deadline.IsZero() { // only who has to wait pays for a timer
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, w.deadline)
		defer cancel()
	}
	select {
	case <-w.decided:
		return w.turn, w.err
	case <-ctx.Done():
		return nil, g.abandon(ctx, w)
	}
}

// Try gives a turn, which must be ended, or a [*Refused] at once.
func (g *Limiter) Try(r Request) (*Permit, error) {
	w := &waiter{Request: r, deadline: time.Now()}
	if g.join(w); w.decided != nil {
		return nil, g.abandon(context.Background(), w)
	}
	return w.turn, w.err
}

// join puts a request in line, and gives the turns that there are.
func (g *Limiter) join(w *waiter) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.Came.IsZero() {
		w.Came = now
	}
	o := g.owner(w.Request)
	w.owner = o
	line := o.lines[w.Class]
	at, _ := slices.BinarySearchFunc(line, w.Came, func(one *waiter, came time.Time) int { return cmp.Or(one.Came.Compare(came), -1) })
	o.lines[w.Class] = slices.Insert(line, at, w)
	g.waiting++
	if !g.cap.closes(w.Class, now) {
		g.give(now)
	}
	g.turnAway(w, now)
	g.forget()
	if !w.isDecided() {
		w.decided = make(chan struct{})
	}
}

// owner is the owner of a request. One that is new begins as if it had just had a turn, so that any number of them keeps
// nobody from going; one that comes back has saved up a few turns at most.
func (g *Limiter) owner(r Request) *owner {
	o := g.owners[r.Owner]
	if o == nil {
		o = &owner{name: r.Owner, weight: cmp.Or(r.Weight, 1)}
		o.share = g.share + 1/o.weight
		g.owners[r.Owner] = o
	}
	o.weight = cmp.Or(r.Weight, o.weight)
	if !o.waits() {
		o.share = max(o.share, g.leastShare(o))
	}
	return o
}

// leastShare is the share of an owner that has saved up as many turns as it may.
func (g *Limiter) leastShare(o *owner) float64 { return g.share - mostSaved/o.weight }

func (o *owner) waits() bool {
	return slices.ContainsFunc(o.lines[:], func(line []*waiter) bool { return len(line) > 0 })
}

// turnAway refuses a waiter whose turn does not come before its deadline.
func (g *Limiter) turnAway(w *waiter, now time.Time) {
	if w.isDecided() {
		return
	}
	if g.cap.closes(w.Class, now) {
		g.decide(w, nil, &Refused{Capped: true})
		return
	}
	if after := g.estimate(w, now); !w.deadline.IsZero() && now.Add(after).After(w.deadline) {
		g.decide(w, nil, g.refused(w.Class, after, now))
	}
}

func (w *waiter) isDecided() bool { return w.turn != nil || w.err != nil }

// refused is the error of whoever has no turn for so long.
func (g *Limiter) refused(c Class, after time.Duration, now time.Time) *Refused {
	return &Refused{After: after, Throttled: g.pause.closed || g.paces[paceOf(c)].limits(now)}
}

// decide ends a wait.
func (g *Limiter) decide(w *waiter, turn *Permit, err error) {
	line := w.owner.lines[w.Class]
	n := slices.Index(line, w)
	w.owner.lines[w.Class] = slices.Delete(line, n, n+1)
	g.waiting--
	w.turn, w.err = turn, err
	if w.decided != nil {
		close(w.decided)
	}
}

// abandon ends the wait of a request whose time is over, and gives its error.
func (g *Limiter) abandon(ctx context.Context, w *waiter) error {
	now := time.Now()
	g.mu.Lock()
	if !w.isDecided() {
		g.decide(w, nil, g.refused(w.Class, g.estimate(w, now), now))
		g.forget()
	}
	g.mu.Unlock()
	if w.turn != nil { // it came too late
		w.turn.End(Answer{Outcome: Unused})
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return cause
	}
	if w.err != nil {
		return w.err
	}
	return &Refused{}
}

// give gives all turns that there are now, and sees to the next.
func (g *Limiter) give(now time.Time) {
	for g.waiting > 0 {
		next, again := g.next(now)
		if next == nil {
			g.giveAt(again, now)
			return
		}
		turn := g.begin(next, now)
		g.decide(next, turn, nil)
		if g.cap.isReached() && turn.class == Order {
			g.review(now) // the others wait for what this one finds
		}
	}
	g.giveAt(time.Time{}, now)
}

// giveAt gives turns at a time. Zero means when a turn ends.
func (g *Limiter) giveAt(at, now time.Time) {
	if g.timer != nil {
		g.timer.Stop()
		g.timer = nil
	}
	if !at.IsZero() {
		g.timer = time.AfterFunc(at.Sub(now), func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.give(time.Now())
		})
	}
}

// next is who goes now. Where that is nobody, again is when that changes with time; zero: with another's end.
func (g *Limiter) next(now time.Time) (next *waiter, again time.Time) {
	var opens [Classes]time.Time
	var looked, shut [Classes]bool
	for _, o := range g.owners {
		for c, line := range o.lines {
			if len(line) > 0 && !looked[c] {
				opens[c], shut[c] = g.opens(Class(c), now)
				looked[c] = true
			}
			if len(line) == 0 || shut[c] || !g.hasPlace(o, Class(c)) {
				continue
			}
			switch at := opens[c]; {
			case at.After(now):
				if again.IsZero() || at.Before(again) {
					again = at
				}
				continue
			case next == nil || g.isBefore(line[0], next):
				next = line[0]
			}
			break
		}
	}
	return next, again
}

// opens is when the gate opens for a class; shut: when another turn ends.
func (g *Limiter) opens(c Class, now time.Time) (at time.Time, shut bool) {
	if at, shut = g.pause.opens(now); shut || at.After(now) {
		return at, shut
	}
	if !g.pause.closed { // else one goes first, at any pace
		at = g.paces[paceOf(c)].opens(now)
	}
	if c == Poll {
		at = later(at, g.polls.opens(g.cfg.PollRate, now))
	}
	return at, false
}

// hasPlace reports whether there is a place for an owner.
func (g *Limiter) hasPlace(o *owner, c Class) bool {
	held := 0
	for behind := int(Classes) - 1; behind >= 0; behind-- {
		held += g.held[behind]
		free := g.cfg.Places[behind]
		if o.held >= fewPlaces {
			free -= free / reservedPart
		}
		if behind <= int(c) && g.cfg.Places[behind] > 0 && held >= free {
			return false
		}
	}
	return g.cfg.OwnerPlaces == 0 || o.held < g.cfg.OwnerPlaces
}

func (g *Limiter) inUse() (all int) {
	for _, n := range g.held {
		all += n
	}
	return all
}

// isBefore reports whether one waiter goes before another: of the owner that holds less where places are scarce, and has
// had less.
func (g *Limiter) isBefore(a, b *waiter) bool {
	if x, y := float64(a.owner.held)/a.owner.weight, float64(b.owner.held)/b.owner.weight; g.cfg.Places[Order] > 0 && x != y {
		return x < y
	}
	if a.owner.share != b.owner.share {
		return a.owner.share < b.owner.share
	}
	return a.Came.Before(b.Came) || a.Came.Equal(b.Came) && a.owner.name < b.owner.name
}

// begin begins the turn of a waiter.
func (g *Limiter) begin(w *waiter, now time.Time) *Permit {
	t := &w.given
	*t = Permit{gate: g, owner: w.owner, class: w.Class, began: now, Came: w.Came}
	t.first = g.pause.begin(t)
	t.pauses = g.pause.count
	t.looks = g.cap.begin(w.Class, now)
	g.paces[paceOf(w.Class)].take(now)
	if w.Class == Poll {
		g.polls.take(g.cfg.PollRate, now)
	}
	g.held[w.Class]++
	w.owner.held++
	g.share = max(g.share, w.owner.share)
	w.owner.share += 1 / w.owner.weight
	return t
}

// forget forgets owners that neither wait nor hold a turn, once there are many: first those that have had no more than
// their part.
func (g *Limiter) forget() {
	for _, had := range []float64{g.share, math.Inf(1)} {
		if len(g.owners) <= g.waiting+g.inUse()+owners {
			return
		}
		maps.DeleteFunc(g.owners, func(_ string, o *owner) bool { return o.held == 0 && !o.waits() && o.share <= had })
	}
}
