package limiter

import (
	"cmp"
	"math"
	"time"
)

const (
	slowest   = 1.0              // turns a second, at least
	fastest   = 10_000.0         // turns a second, beyond which there is no pace
	almost    = 0.99             // of what was too fast
	approach  = 10 * time.Second // from what has passed to almost what was too fast
	plateau   = 30 * time.Second // then it is tried whether the other side takes more
	tight     = 0.9              // of what was too fast has passed: the pace is well known
	wellKnown = 2 * time.Minute  // before a try of such a pace, which doubles
	longest   = 10 * time.Minute // before a try
	doubling  = 5 * time.Second  // of the pace in a try
	muchMore  = 2.0              // times the pace, which a try does not reach on what was saved up
	guessing  = 2 * time.Second  // of one that is hardly known
	mostLent  = -1.0             // tokens
	ahead     = 0.01             // of a second: a timer that is late by so much loses no token
)

// pace is how fast the other side takes requests, as it has shown by refusing one. It never says how many that are: so
// what has passed is counted, up to a refusal. From there the pace comes close to what was too fast and stays, which
// wastes little; after a while it is tried again whether the other side takes more, and ever more seldom while it does
// not.
type pace struct {
	tooBig float64 // turns a second that were refused; 0: no refusal yet, and no pace
	safe   float64 // turns a second that have passed
	fresh  bool    // the first refusal is just over: not all that have passed are counted yet
	guess  bool    // there was one refusal only
	paused time.Time
	opened time.Time     // after that
	count  int           // turns passed since the last refusal
	slowed bool          // the gate is closed since a refusal
	began  time.Time     // the last refusal
	wait   time.Duration // from there to a try; 0: plateau
	bucket bucket
	recent recent
}

// paceOf is the pace that a class has: the other side may count orders alone.
func paceOf(c Class) Class { return min(c, Read) }

// rate is the pace of now, 0 for none.
func (p *pace) rate(now time.Time) float64 {
	if p.tooBig == 0 {
		return 0
	}
	rate, since := p.tooBig*almost, max(0, now.Sub(p.opened))
	switch {
	case p.guess:
		rate *= math.Exp2(since.Seconds() / guessing.Seconds())
	case since < approach:
		rate = p.safe + (rate-p.safe)*since.Seconds()/approach.Seconds()
	case since > p.untilTry():
		rate *= math.Exp2((since - p.untilTry()).Seconds() / doubling.Seconds())
	}
	if rate >= fastest {
		return 0
	}
	return max(slowest, rate)
}

// limits reports whether there is a pace.
func (p *pace) limits(now time.Time) bool { return p.rate(now) > 0 }

func (p *pace) untilTry() time.Duration { return cmp.Or(p.wait, plateau) }

// hoped returns the pace that is expected soon. Zero means that it is unknown.
func (p *pace) hoped() float64 {
	if p.tooBig == 0 || p.guess || p.fresh {
		return 0
	}
	return max(slowest, p.tooBig)
}

// opens is when there is a token.
func (p *pace) opens(now time.Time) time.Time {
	rate := p.rate(now)
	p.bucket.most = 1 + rate*ahead
	return p.bucket.opens(rate, now)
}

func (p *pace) take(now time.Time) { p.bucket.take(p.rate(now), now) }

// passed counts turns that were not refused.
func (p *pace) passed(n int, now time.Time) {
	p.count += n
	p.recent.add(n, now)
}

// slow makes the pace slower, which was too fast; but at least half of what it was. busy means that it has held others
// back. What has passed since the gate opened is more than the other side takes for long, as it may have saved up
// something; together with the pause before it is less.
func (p *pace) slow(busy bool, now time.Time) {
	was, passed := p.rate(now), float64(p.count)
	if recent := max(slowest, p.recent.rate(now)); was == 0 || !busy && recent < was {
		p.tooBig, p.safe, p.fresh = recent, recent, true
		return
	}
	open, all := max(now.Sub(p.opened), time.Millisecond), max(now.Sub(p.began), time.Millisecond)
	known, held := p.tooBig, passed/all.Seconds()
	p.safe = max(held, was/2)
	switch tried := open > p.untilTry(); {
	case tried && !p.guess && was < muchMore*known: // what was saved up meanwhile has let it rise
		p.wait, p.tooBig = min(2*p.untilTry(), longest), max(known, min(was, held))
		p.safe = p.tooBig
	case tried || p.guess:
		p.wait, p.tooBig = 0, was
	default:
		p.wait, p.tooBig = 0, max(min(passed/open.Seconds(), was*almost), was/2)
	}
	if held > tight*p.tooBig {
		p.wait = max(p.wait, wellKnown)
	}
	p.guess, p.safe = false, min(p.safe, p.tooBig*almost)
}

// pause notes that the gate closes, for a refusal of this pace or for another reason.
func (p *pace) pause(refused bool, now time.Time) {
	p.paused = now
	if refused {
		p.slowed, p.began, p.count = true, now, 0
	}
}

// open notes that it opens, a request having passed. The next token is there a whole interval later.
func (p *pace) open(now time.Time) {
	if p.fresh {
		p.tooBig, p.fresh, p.guess = p.tooBig+float64(p.count), false, true
	}
	if p.slowed {
		p.opened, p.slowed = now, false
	} else {
		p.opened = p.opened.Add(now.Sub(p.paused)) // a pause for another reason takes no time
	}
	p.bucket.tokens, p.bucket.filled = 0, now
}

// bucket has tokens, which a rate fills. A rate of 0 has no end of them.
type bucket struct {
	tokens float64
	most   float64 // 0: those of a second, and at least one
	filled time.Time
}

func (b *bucket) fill(rate float64, now time.Time) {
	most := b.most
	if most == 0 {
		most = max(1, rate)
	}
	if b.filled.IsZero() {
		b.tokens = most
	}
	if passed := now.Sub(b.filled).Seconds(); passed >= 0 {
		b.tokens, b.filled = min(b.tokens+passed*rate, most), now
	}
}

// opens is when there is a token.
func (b *bucket) opens(rate float64, now time.Time) time.Time {
	b.fill(rate, now)
	if rate == 0 || b.tokens >= 1-1e-9 {
		return now
	}
	return now.Add(max(time.Duration((1-b.tokens)/rate*float64(time.Second)), time.Microsecond))
}

func (b *bucket) take(rate float64, now time.Time) {
	b.fill(rate, now)
	b.tokens = max(mostLent, b.tokens-1)
}

// recent counts the turns of about the last second.
type recent struct {
	began     time.Time // of the second
	this, was int       // in it, and in the one before
}

func (r *recent) add(n int, now time.Time) {
	r.turn(now)
	r.this += n
}

func (r *recent) turn(now time.Time) {
	switch passed := now.Sub(r.began); {
	case passed >= 2*time.Second:
		r.began, r.this, r.was = now, 0, 0
	case passed >= time.Second:
		r.began, r.this, r.was = r.began.Add(time.Second), 0, r.this
	}
}

func (r *recent) rate(now time.Time) float64 {
	r.turn(now)
	return float64(r.this) + float64(r.was)*max(0, 1-now.Sub(r.began).Seconds())
}
