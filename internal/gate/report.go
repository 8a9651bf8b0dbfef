package gate

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

// Report is what one of several processes that share an API key tells the others. It counts from the first one.
type Report struct {
	Owners  map[string]Part `json:"owners"`
	Passed  [Classes]int    `json:"passed"`
	Refused [Classes]int    `json:"refused"` // by pace
	// Pace is that of all processes, as far as this one knows it; 0: it knows none.
	Pace [Classes]float64 `json:"pace"`
	// When the daily cap was met last, an order began to look whether it is over, and one found it so.
	Capped time.Time `json:"capped"`
	Looked time.Time `json:"looked"`
	Over   time.Time `json:"over"`
}

// Part is an owner in a report.
type Part struct {
	Had    float64 `json:"had"`  // turns by weight
	Back   float64 `json:"back"` // of them, that were given back: nothing was served
	Weight float64 `json:"weight"`
	Wants  float64 `json:"wants"` // turns, on average of late
	Waits  float64 `json:"waits"` // seconds, the first in its line

	began float64 // turns since the last report
}

const (
	wantsNew   = 8                       // one part in so many of what is wanted is that of the last report
	wantsLeast = 0.01                    // turns on average, below which an owner is not there
	leastPart  = 8                       // one part in so many of the pace is for a process that wants nothing yet
	mostLate   = 0.6                     // of its part a process has more or less, where one waits longer or less long than elsewhere
	lateBy     = 20.0                    // seconds, for as much as its part
	sameSlow   = 1500 * time.Millisecond // after a refusal, others tell of the same one
)

// begins counts a turn of an owner, and reports whether anybody is told of it.
func (r *Report) begins(o *owner) bool {
	if r.Owners == nil {
		return false
	}
	p := r.Owners[o.name]
	p.Had, p.Weight, p.began = p.Had+1/o.weight, o.weight, p.began+1
	r.Owners[o.name] = p
	return true
}

// givesBack counts a turn that has had nothing, and of which others were told.
func (r *Report) givesBack(o *owner) {
	if p, there := r.Owners[o.name]; there {
		p.Back += 1 / o.weight
		r.Owners[o.name] = p
	}
}

// Tell gives the report of this process, which has to be asked for several times a second. active means that it says more
// than the one before.
func (g *Gate) Tell() (r Report, active bool) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reported.Owners == nil {
		g.reported.Owners = map[string]Part{}
	}
	for name, o := range g.owners {
		if o.waits() {
			p := g.reported.Owners[name]
			p.Weight = o.weight
			for _, line := range o.lines {
				p.began += float64(len(line))
			}
			g.reported.Owners[name] = p
		}
	}
	r = g.reported
	r.Owners = map[string]Part{}
	for name, p := range g.reported.Owners {
		p.Wants, p.Waits, p.began = p.Wants+(p.began-p.Wants)/wantsNew, g.owners[name].waited(now).Seconds(), 0
		if g.reported.Owners[name] = p; p.Wants > wantsLeast {
			r.Owners[name] = p
		} else {
			delete(g.reported.Owners, name)
		}
	}
	for c := range g.paces {
		if p := &g.paces[c]; !p.guess && !p.fresh {
			r.Pace[c] = p.tooBig
		}
	}
	return r, len(r.Owners) > 0 || now.Sub(later(later(r.Capped, r.Looked), r.Over)) < capProbe
}

// waited is how long the first in line of an owner waits.
func (o *owner) waited(now time.Time) (longest time.Duration) {
	if o != nil {
		for _, line := range o.lines {
			if len(line) > 0 {
				longest = max(longest, now.Sub(line[0].Came))
			}
		}
	}
	return longest
}

// Hear takes in the newest reports of the other processes that are there, beside self. What their owners have had counts here too, and
// the pace is one for all: each has the part of it that those who want turns there weigh.
func (g *Gate) Hear(self string, others map[string]Report) {
	now, before := time.Now(), 0 // other processes, which look before this one whether the daily cap is over
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(g.heard, func(process string, _ Report) bool { _, there := others[process]; return !there })
	for process, r := range others {
		was, known := g.heard[process]
		if g.heard[process] = r; known {
			g.hearOwners(was, r)
			g.hearPaces(was, r, now)
		}
		for c := range g.paces {
			if p := &g.paces[c]; p.tooBig == 0 && r.Pace[c] > 0 {
				p.tooBig, p.safe, p.opened = r.Pace[c], r.Pace[c]*almost, now
			}
		}
		if process < self {
			before++
		}
	}
	for _, r := range others {
		g.cap.heard(r, now, time.Duration(1+before)*capTurn)
		g.reported.Over = later(g.reported.Over, r.Over) // who comes after that process has gone hears it too
	}
	g.advance()
	part := g.part(others)
	for c := range g.paces {
		g.paces[c].part = part
	}
	if g.forget(); g.cap.isReached() {
		g.review(now)
	}
	g.give(now)
}

// hearOwners adds what owners have had elsewhere.
func (g *Gate) hearOwners(was, is Report) {
	for name, p := range is.Owners {
		last := was.Owners[name]
		if p.Had < last.Had { // it has rested, and is counted anew
			last = Part{}
		}
		had := p.Had - p.Back - (last.Had - last.Back)
		if had == 0 {
			continue
		}
		o := g.owner(Request{Owner: name, Weight: p.Weight})
		if g.waiting == 0 {
			g.share = max(g.share, o.share)
		}
		o.share += had
	}
}

// advance notes what the owner that goes next has had, with what it has had elsewhere.
func (g *Gate) advance() {
	least := math.Inf(1)
	for _, o := range g.owners {
		if o.waits() {
			least = min(least, o.share)
		}
	}
	if g.waiting > 0 {
		g.share = max(g.share, least)
	}
}

// hearPaces learns from what has passed elsewhere, and was refused.
func (g *Gate) hearPaces(was, is Report, now time.Time) {
	for c := range g.paces {
		p := &g.paces[c]
		p.passed(max(0, is.Passed[c]-was.Passed[c]), now)
		if is.Refused[c] <= was.Refused[c] || now.Sub(p.began) < sameSlow {
			continue
		}
		g.slow(Class(c), now)
		if p.pause(true, now); !g.pause.closed {
			p.open(now)
		}
	}
}

// part is the part of this process in what all are given: of the part of each owner as much as of what it wants is wanted
// here, and more where one waits longer than elsewhere.
func (g *Gate) part(others map[string]Report) float64 {
	if len(others) == 0 {
		return 1
	}
	all := append(slices.Collect(maps.Values(others)), g.reported)
	wants, waits := map[string]float64{}, 0.0
	for _, r := range all {
		for name, p := range r.Owners {
			wants[name] += p.Wants
		}
		waits += r.waits() / float64(len(all))
	}
	mine, every := 0.0, 0.0
	for _, r := range all { // this process comes last
		mine = 0
		for name, p := range r.Owners {
			mine += p.Weight * p.Wants / max(wants[name], wantsLeast)
		}
		mine *= 1 + max(-mostLate, min((r.waits()-waits)/lateBy, mostLate))
		every += mine
	}
	return max(mine/cmp.Or(every, 1), 1/float64(leastPart*len(all)))
}

// waits is how long whoever waits longest does, in seconds.
func (r Report) waits() (longest float64) {
	for _, p := range r.Owners {
		longest = max(longest, p.Waits)
	}
	return longest
}
