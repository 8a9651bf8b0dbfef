package watch

import (
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// A plan needs to know what all entries ask for. There may be ten thousand, to ask them takes a
// millisecond or two, and with a large budget there are hundreds of plans a second. So what they ask
// for is kept for a moment. Time goes by in it, and it takes in what a sweep has found; after all
// else that changes more than a read does (see stir) the entries are asked again.
//
// To take it out, let demanded ask all entries each time.

// holds is the part of the shortest interval for which demand is kept. An entry that was read is
// not due again before, so that what is kept need not know of it.
const holds = 1.0 / 4

// demand is what the entries ask for.
type demand struct {
	made     time.Time
	until    time.Time     // all are asked again then
	unit     time.Duration // see urgency
	divided  bool          // between a sweep and reads
	ranked   bool          // the queues are in order
	listable []*entry      // a sweep could serve them
	reads    queue         // to be read one by one now, the most urgent first
	hints    queue         // of those, what the list has shown to have changed
	later    []*entry      // to be read one by one before the end, the next that is due first
	soonest  time.Time     // when the next one after them is due
	moved    bool          // the time of some has changed since, perhaps of one of later
	shown    int           // entries that the list has shown and somebody waits for, those on their way among them
}

// stir notes that what the entries ask for may have changed by more than time and answers to reads;
// mu is held.
func (p *poller) stir() { p.kept = nil }

// demanded is what the entries ask for now, and whether that is a sweep.
func (p *poller) demanded(now time.Time) (d *demand, sweep bool) {
	if d = p.kept; d == nil || !p.holds(d, now) {
		d = p.demand(now)
	}
	if !d.divided {
		sweep = p.divide(d, now)
	}
	if !d.ranked {
		d.rank()
	}
	d.pass(now)
	d.divided, p.kept = true, d
	return d, sweep
}

// holds reports whether demand that was kept still stands. Once a sweep is due all are asked, and when
// an entry is spared depends on more than is kept up to date.
func (p *poller) holds(d *demand, now time.Time) bool {
	until := earliest(d.until, d.soonest)
	return now.Before(until) && (p.sweepAt.IsZero() || now.Before(p.sweepAt)) && !p.following(now)
}

// demand asks all entries.
func (p *poller) demand(now time.Time) *demand {
	unit := p.hub.cfg.MinInterval
	d := &demand{made: now, until: now.Add(time.Duration(float64(unit) * holds)), unit: unit}
	usable := p.list.usable(now)
	for _, t := range [...]time.Time{p.list.rests, p.list.retry} {
		d.changes(t)
	}
	p.pick(now)
	for _, e := range p.order {
		if !e.wanted(now, p.hub.cfg.RefundWindow) {
			continue
		}
		if !e.listed.IsZero() {
			d.shown++
		}
		if until, ok := p.spared(e, now); ok {
			d.soonest = earliest(d.soonest, until)
			continue
		}
		d.sort(e, usable, now)
	}
	return d
}

// sort puts an entry that somebody waits for where it belongs.
func (d *demand) sort(e *entry, usable bool, now time.Time) {
	switch {
	case e.busy:
	case usable && e.hint == nil && !now.Before(e.alone):
		d.listable = append(d.listable, e)
	default:
		d.changes(e.alone)
		d.alone(e, now)
	}
}

// resort takes in what a sweep has changed: the entries that it stood for, and those that the list
// has; one may be among both. What was kept of the others still stands.
func (p *poller) resort(asked []*entry, records []catalog.Listed, now time.Time) {
	d := p.kept
	if d == nil || len(d.listable) > 0 || len(p.all) > 0 {
		p.stir() // a sweep may serve others too, or show others
		return
	}
	d.divided = false
	usable := p.list.usable(now)
	for _, e := range asked {
		if !e.listed.Equal(now) && e.wanted(now, p.hub.cfg.RefundWindow) {
			d.sort(e, usable, now)
		}
	}
	for i := range records {
		if e := p.entries[records[i].ID]; e != nil && e.wanted(now, p.hub.cfg.RefundWindow) {
			d.sort(e, usable, now)
		}
	}
}

// changes notes a time at which it changes who is listable.
func (d *demand) changes(t time.Time) {
	if t.After(d.made) {
		d.until = earlier(d.until, t)
	}
}

// alone adds an entry that no sweep serves.
func (d *demand) alone(e *entry, now time.Time) {
	switch {
	case !e.due.After(now):
		d.read(e)
	case e.due.Before(d.until):
		at := len(d.later)
		if d.ranked {
			at, _ = slices.BinarySearchFunc(d.later, e, dueFirst)
		}
		d.later = slices.Insert(d.later, at, e)
	default:
		d.soonest = earliest(d.soonest, e.due)
	}
}

func dueFirst(a, b *entry) int { return a.due.Compare(b.due) }

// read adds an entry that is to be read now. Its place in the queue is not known before all were
// asked.
func (d *demand) read(e *entry) {
	r := ranked{e: e, at: len(d.reads)}
	if !d.ranked {
		d.reads = append(d.reads, r)
		return
	}
	r.urgency = d.urgency(e)
	d.reads.push(r)
	if e.hint != nil {
		d.hints.push(r)
	}
}

// rank puts the reads in order, when all were asked.
func (d *demand) rank() {
	d.ranked = true
	for i := range d.reads {
		r := &d.reads[i]
		r.urgency = d.urgency(r.e)
		if r.e.hint != nil {
			d.hints = append(d.hints, *r)
		}
	}
	d.reads.order()
	d.hints.order()
	slices.SortStableFunc(d.later, dueFirst)
}

// urgency says which read comes first: the one that is longest overdue, measured by how much each
// poll is worth to a watch: a watch of one render is worth as much as one of a thousand. The unit is
// what a poll that has just become due counts as overdue. It is that of the time when demand was
// made, also where it is due after.
func (d *demand) urgency(e *entry) float64 {
	return (d.made.Sub(e.due) + d.unit).Seconds() / float64(e.share(d.shown))
}

// pass adds the reads that have become due.
func (d *demand) pass(now time.Time) {
	for len(d.later) > 0 && !d.later[0].due.After(now) {
		d.read(d.later[0])
		d.later = d.later[1:]
	}
}

// next is when a read is due that is not due yet, or all are to be asked again, as some that were
// asked before would say something else.
func (d *demand) next() time.Time {
	at := d.soonest
	if len(d.later) > 0 {
		at = earliest(at, d.later[0].due)
	}
	if d.moved {
		at = earliest(at, d.until)
	}
	return at
}

// waits reports whether there is a read to make.
func (p *poller) waits(d *demand, now time.Time) bool {
	for len(d.reads) > 0 && !p.asks(d.reads[0].e, now) {
		d.reads.pop()
	}
	return len(d.reads) > 0
}

// mostUrgent takes the read that is to be made next; there is one. With hinted, a render that the
// list has shown to have changed comes first.
func (p *poller) mostUrgent(d *demand, now time.Time, hinted bool) *entry {
	for hinted && len(d.hints) > 0 {
		if e := d.hints.pop(); p.asks(e, now) {
			return e
		}
	}
	return d.reads.pop()
}

// asks reports whether an entry that was to be read still is: it may have been since, and nobody
// may wait any more.
func (p *poller) asks(e *entry, now time.Time) bool {
	return !e.busy && !e.due.After(now) && e.wanted(now, p.hub.cfg.RefundWindow)
}

// ranked is an entry in a queue.
type ranked struct {
	e       *entry
	urgency float64
	at      int // decides between equals
}

func (r ranked) before(other ranked) bool {
	return r.urgency > other.urgency || r.urgency == other.urgency && r.at < other.at
}

// queue is a heap with the most urgent entry on top.
type queue []ranked

// order makes a heap of what is in any order.
func (q queue) order() {
	for i := len(q)/2 - 1; i >= 0; i-- {
		q.sink(i)
	}
}

func (q queue) sink(i int) {
	for {
		first := i
		for child := 2*i + 1; child <= min(2*i+2, len(q)-1); child++ {
			if q[child].before(q[first]) {
				first = child
			}
		}
		if first == i {
			return
		}
		q[i], q[first] = q[first], q[i]
		i = first
	}
}

func (q *queue) push(r ranked) {
	*q = append(*q, r)
	for i := len(*q) - 1; i > 0 && r.before((*q)[(i-1)/2]); i = (i - 1) / 2 {
		(*q)[i], (*q)[(i-1)/2] = (*q)[(i-1)/2], r
	}
}

func (q *queue) pop() *entry {
	all := *q
	first, last := all[0].e, len(all)-1
	all[0], all[last] = all[last], ranked{}
	*q = all[:last]
	q.sink(0)
	return first
}
