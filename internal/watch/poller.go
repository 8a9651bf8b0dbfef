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
	kept    *demand       // of the last plan that asked all entries; nil: the next one asks them

	inFlight int  // reads on their way
	hinted   bool // the last read was for what the list has shown, if there was any
	sweeping bool
	asked    []*entry  // that the sweep which is on its way stands for
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

// nudge makes the poller plan anew; mu is held.
func (p *poller) nudge() {
	p.stir()
	p.rouse()
}

// rouse makes the poller plan again, by what it knows of the entries; mu is held.
func (p *poller) rouse() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// wakeBy makes the poller plan at t at the latest, unless it could do nothing then; mu is
// held.
func (p *poller) wakeBy(t time.Time) {
	if !p.blocked && t.Before(p.wakeAt) {
		p.rouse()
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
// next one is up. Until then, and for a second, it looks at none: there may be ten thousand, and
// each answer makes a plan.
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
	p.pruneAt = latest(next, now.Add(time.Second))
	return p.pruneAt
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
	d, sweep := p.demanded(now)
	again = earliest(d.next(), p.sweepAt)
	for sweep || p.waits(d, now) {
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
		case sweep && (!p.waits(d, now) || !p.list.down): // else a read shows first what is down
			jobs = append(jobs, p.sweep(d, now))
			sweep, again = false, d.next()
		default:
			// Every second read goes to what the list has shown to have changed: all of them
			// would starve the others, where the list and the reads never agree.
			p.hinted = !p.hinted
			jobs = append(jobs, p.read(p.mostUrgent(d, now, p.hinted), now))
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
