package watch

import (
	"context"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

const (
	sweepFrom   = 3                // renders from which one list call is cheaper than reads
	maxInFlight = 16               // polls of one credential on their way at once
	pollTimeout = 30 * time.Second // longest that one poll may take
	listRest    = time.Minute      // how long a list that did not help is left alone
	outage      = 3                // failures in a row from which the catalog is only probed
)

// poller owns the upstream budget of one credential. All of it is guarded by the hub's
// mutex; only its goroutine plans polls.
type poller struct {
	hub     *Hub
	cred    catalog.Credential
	entries map[string]*entry
	order   []*entry        // the same by id, so that a run can be repeated
	all     []*subscription // watches of everything that the list has
	budget  *budget
	dice    dice
	open    int // watches
	marked  int // of those, with a mark

	wake    chan struct{} // of capacity 1: plan again
	wakeAt  time.Time     // when it plans again by itself
	pruneAt time.Time     // when an entry may have been left alone for long enough
	blocked bool          // there is no token before that

	inFlight int  // reads on their way
	hinted   bool // the last read was for what the list has shown, if there was any
	sweeping bool
	sweptAt  time.Time // when the last sweep began
	sweepAt  time.Time // when the next one is due; zero: there is no need of one
	sweepU   float64   // of the jitter of the next one
	list     list
	last     catalog.Recall // of the list; it belongs to the sweep that is on its way

	part *Part // nil: there are no peers

	condition Condition
	failures  int // polls in a row, of any entry
	strikes   int // pauses in a row, in an outage
	lastErr   string
	answered  time.Time
}

func newPoller(h *Hub, cred catalog.Credential) *poller {
	now := time.Now()
	return &poller{
		hub: h, cred: cred, entries: map[string]*entry{}, dice: diceOf(h.cfg.Seed, "poller"),
		budget: newBudget(h.cfg.Rate, now), wake: make(chan struct{}, 1), wakeAt: now, pruneAt: now,
	}
}

// job is one request to make: one generation, or the list where the id is empty.
type job struct {
	Poll
	number int64 // of all that the hub has made
}

// run plans and polls until nobody is interested any more. It never waits for a poll.
func (p *poller) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		jobs, next, gone := p.plan(time.Now())
		if gone {
			return
		}
		for _, j := range jobs {
			p.hub.work.Go(func() { p.do(j) })
		}
		timer.Reset(time.Until(next))
		select {
		case <-p.wake:
		case <-timer.C:
		case <-p.hub.ctx.Done():
			return
		}
	}
}

// nudge makes the poller plan again; mu is held.
func (p *poller) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// wakeBy makes the poller plan at t at the latest, unless it could do nothing then; mu is
// held.
func (p *poller) wakeBy(t time.Time) {
	if !p.blocked && t.Before(p.wakeAt) {
		p.nudge()
	}
}

// plan decides what to ask now and when to plan again. A poller without interest takes
// itself out, once nothing is left of a pause that the catalog asked for.
func (p *poller) plan(now time.Time) (jobs []*job, next time.Time, gone bool) {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	p.blocked = false
	p.budget.allot(p.allowance(now), now)
	next = p.prune(now)
	if len(p.entries) == 0 && len(p.all) == 0 && p.inFlight == 0 && !p.sweeping {
		if p.budget.rested(now) {
			delete(p.hub.pollers, p.cred.Tenant)
			p.part.end()
			return nil, time.Time{}, true
		}
		next = latest(p.budget.paused, now).Add(recovery)
	}
	jobs, again := p.look(now)
	p.wakeAt = earliest(again, next)
	return jobs, p.wakeAt, false
}

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// prune takes out the entries that nobody has watched for a while, and says when the
// next one is up. Until then it looks at none: there may be ten thousand, and each answer makes
// a plan.
func (p *poller) prune(now time.Time) time.Time {
	if now.Before(p.pruneAt) {
		return p.pruneAt
	}
	next := now.Add(time.Hour)
	p.order = slices.DeleteFunc(p.order, func(e *entry) bool {
		until := e.idle.Add(linger)
		switch {
		case len(e.subs) > 0:
			return false
		case e.busy:
			next = earliest(next, latest(until, now.Add(time.Second)))
			return false
		case now.Before(until):
			next = earliest(next, until)
			return false
		}
		delete(p.entries, e.id)
		return true
	})
	p.pruneAt = next
	return next
}

// leaveAlone notes that nobody watches an entry from now on; mu is held.
func (p *poller) leaveAlone(e *entry, now time.Time) {
	e.idle = now
	p.pruneAt = earliest(p.pruneAt, now.Add(linger))
	p.wakeBy(p.pruneAt)
}

// look makes the jobs that are due and that the budget allows, and says when to look
// again; zero means that only news can tell.
func (p *poller) look(now time.Time) (jobs []*job, again time.Time) {
	d := p.demand(now)
	sweep := p.divide(d, now)
	again = earliest(d.soonest, p.sweepAt)
	for sweep || len(d.reads) > 0 {
		if !p.room() {
			return jobs, time.Time{} // an answer wakes
		}
		ok, at := p.budget.take(now)
		if !ok {
			p.blocked = true
			return jobs, at
		}
		p.spent()
		switch {
		case sweep && (len(d.reads) == 0 || !p.list.down): // else a read shows first what is down
			jobs = append(jobs, p.sweep(now))
			d.reads = slices.DeleteFunc(d.reads, func(e *entry) bool { return e.busy }) // it serves them too
			sweep, again = false, d.soonest
		default:
			// Every second read goes to what the list has shown to have changed: all of them
			// would starve the others, where the list and the reads never agree.
			p.hinted = !p.hinted
			jobs = append(jobs, p.read(d.mostUrgent(now, p.hub.cfg.MinInterval, p.hinted), now))
		}
	}
	return jobs, again
}

// room reports whether one more request may be on its way. In an outage there is one.
func (p *poller) room() bool {
	if p.failures >= outage {
		return p.inFlight == 0 && !p.sweeping
	}
	return p.inFlight < maxInFlight
}

// demand is what the entries ask for.
type demand struct {
	listable []*entry  // a sweep could serve them
	reads    []*entry  // to be read one by one now
	soonest  time.Time // when the next one after them is due
	shown    int       // that the list has shown and somebody waits for, those on their way among them
}

// demand asks all entries.
func (p *poller) demand(now time.Time) *demand {
	d := &demand{}
	usable := p.list.usable(now)
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
		switch {
		case e.busy:
		case usable && e.hint == nil && !now.Before(e.alone):
			d.listable = append(d.listable, e)
		default:
			d.alone(e, now)
		}
	}
	return d
}

// alone adds an entry that no sweep serves.
func (d *demand) alone(e *entry, now time.Time) {
	if e.due.After(now) {
		d.soonest = earliest(d.soonest, e.due)
	} else {
		d.reads = append(d.reads, e)
	}
}

// read makes the job of one read.
func (p *poller) read(e *entry, now time.Time) *job {
	e.busy = true
	p.inFlight++
	p.lookedAt(e, now)
	p.hub.stats.Reads++
	j := p.job(e.id)
	p.serve(j, e, now)
	return j
}

func (p *poller) job(id string) *job {
	return &job{Poll: Poll{Tenant: p.cred.Tenant, ID: id}, number: p.hub.stats.Reads + p.hub.stats.Sweeps}
}

// mostUrgent takes out the read that is longest overdue, measured by how much each poll is
// worth to a watch: a watch of one render is worth as much as one of a thousand. The unit is
// what a poll that has just become due counts as overdue. With hinted, a render that the list
// has shown to have changed comes first.
func (d *demand) mostUrgent(now time.Time, unit time.Duration, hinted bool) *entry {
	best, most := 0, -1.0
	for i, e := range d.reads {
		urgency := (now.Sub(e.due) + unit).Seconds() / float64(e.share(d.shown))
		if changed := e.hint != nil; hinted && changed != (d.reads[best].hint != nil) {
			if !changed {
				continue
			}
			most = -1
		}
		if urgency > most {
			best, most = i, urgency
		}
	}
	e, last := d.reads[best], len(d.reads)-1
	d.reads[best] = d.reads[last]
	d.reads = d.reads[:last]
	return e
}

// do makes one request, outside the lock, and takes in what came back.
func (p *poller) do(j *job) {
	ctx, cancel := context.WithTimeout(p.hub.ctx, pollTimeout)
	defer cancel()
	ctx, l, ended := p.hub.polling(ctx, j.Poll)
	if j.ID == "" {
		list, err := p.hub.cfg.Upstream.List(ctx, p.cred, &p.last)
		p.swept(unique(list), err, l)
		ended(Outcome{Err: err, Changes: l.changes})
		return
	}
	g, err := p.hub.cfg.Upstream.Generation(ctx, p.cred, j.ID)
	p.answer(j.ID, g, err, l)
	ended(Outcome{Err: err, State: g.State, Changes: l.changes})
}

// bounds are those of the schedule.
func (p *poller) bounds() bounds {
	return bounds{p.hub.cfg.MinInterval, p.hub.cfg.MaxInterval}
}
