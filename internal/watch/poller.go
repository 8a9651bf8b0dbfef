package watch

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

const (
	sweepFrom   = 3                // polls due together from which one list call is cheaper
	maxInFlight = 16               // polls of one credential on their way at once
	pollTimeout = 30 * time.Second // longest that one poll may take
	listRest    = time.Minute      // how long a list that did not help is left alone
)

// poller owns the upstream budget of one credential. All of it is guarded by the hub's
// mutex; only its goroutine plans polls.
type poller struct {
	hub     *Hub
	cred    catalog.Credential
	entries map[string]*entry
	all     map[*subscription]struct{} // watches of everything that the list has
	budget  *budget
	wake    chan struct{} // of capacity 1: plan again

	inFlight  int
	sweeping  bool
	nextSweep time.Time // where all asks for sweeps
	listBad   int       // sweeps in a row that carried too little
	listRests time.Time // no sweep for reads before
	listWhole bool      // the list's records are as full as a read's, as far as seen

	condition Condition
	failures  int // polls in a row, of any entry
	lastErr   string
	answered  time.Time
}

func newPoller(h *Hub, cred catalog.Credential) *poller {
	return &poller{
		hub: h, cred: cred,
		entries: map[string]*entry{}, all: map[*subscription]struct{}{},
		budget: newBudget(h.cfg.Rate, time.Now()), wake: make(chan struct{}, 1),
	}
}

// job is one request to make: the list, or one generation.
type job struct {
	sweep bool
	id    string
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

// plan decides what to ask now and when to plan again. A poller without interest takes
// itself out.
func (p *poller) plan(now time.Time) (jobs []job, next time.Time, gone bool) {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	next = p.prune(now)
	if len(p.entries) == 0 && len(p.all) == 0 {
		delete(p.hub.pollers, p.cred.Tenant)
		return nil, time.Time{}, true
	}
	due, soonest := p.due(now)
	next = earliest(next, soonest)
	sweep, at := p.wantsSweep(due, now)
	next = earliest(next, at)
	if sweep {
		ok, again := p.budget.take(now)
		if !ok {
			return nil, earliest(next, again), false
		}
		jobs = append(jobs, p.sweep(now))
	}
	for _, e := range due {
		if e.busy || e.due.After(now) || p.inFlight >= maxInFlight {
			continue
		}
		ok, again := p.budget.take(now)
		if !ok {
			return jobs, earliest(next, again), false
		}
		e.busy = true
		p.inFlight++
		p.hub.stats.Reads++
		jobs = append(jobs, job{id: e.id})
	}
	return jobs, next, false
}

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// prune takes out the entries that nobody has watched for a while, and says when the
// next one is up.
func (p *poller) prune(now time.Time) time.Time {
	next := now.Add(time.Hour)
	for id, e := range p.entries {
		if len(e.subs) > 0 || e.busy {
			continue
		}
		if until := e.idle.Add(linger); now.Before(until) {
			next = earliest(next, until)
		} else {
			delete(p.entries, id)
		}
	}
	return next
}

// due gives the entries whose poll is due now, or so soon that a sweep now would serve
// them too, the most urgent first, and when the next one after them is.
func (p *poller) due(now time.Time) (due []*entry, soonest time.Time) {
	horizon := now.Add(p.hub.cfg.MinInterval / 2)
	for _, e := range p.entries {
		switch {
		case e.busy || !e.wanted(now, p.hub.cfg.RefundWindow):
		case e.due.After(horizon):
			soonest = earliest(soonest, e.due)
		default:
			due = append(due, e)
			if e.due.After(now) {
				soonest = earliest(soonest, e.due)
			}
		}
	}
	slices.SortFunc(due, func(a, b *entry) int {
		return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.id, b.id))
	})
	return due, soonest
}

// wantsSweep reports whether one list call should be made now: because a watch of
// everything needs it, or because it is cheaper than reading one by one.
func (p *poller) wantsSweep(due []*entry, now time.Time) (sweep bool, at time.Time) {
	if p.sweeping {
		return false, time.Time{}
	}
	if len(p.all) > 0 {
		if !p.nextSweep.After(now) {
			return true, time.Time{}
		}
		at = p.nextSweep
	}
	from := sweepFrom
	if len(p.all) > 0 {
		from = 1 // a sweep is on its way anyhow
	}
	if now.Before(p.listRests) || len(due) == 0 || due[0].due.After(now) {
		return false, at
	}
	listable := 0
	for _, e := range due {
		if !e.alone {
			listable++
		}
	}
	return listable >= from, at
}

// sweep makes the job of one list call. It stands for a poll of every entry that the
// list can serve.
func (p *poller) sweep(now time.Time) job {
	for _, e := range p.entries {
		if !e.busy && !e.alone && e.wanted(now, p.hub.cfg.RefundWindow) {
			e.busy, e.swept = true, true
		}
	}
	p.sweeping = true
	p.hub.stats.Sweeps++
	return job{sweep: true}
}

// do makes one request, outside the lock, and takes in what came back.
func (p *poller) do(j job) {
	ctx, cancel := context.WithTimeout(p.hub.ctx, pollTimeout)
	defer cancel()
	if j.sweep {
		list, err := p.hub.cfg.Upstream.Generations(ctx, p.cred)
		p.swept(list, err)
		return
	}
	g, err := p.hub.cfg.Upstream.Generation(ctx, p.cred, j.id)
	p.read(j.id, g, err)
}

// read takes in the answer to a poll of one generation.
func (p *poller) read(id string, g catalog.Generation, err error) {
	h := p.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	defer p.nudge()
	now := time.Now()
	p.inFlight--
	e := p.entries[id]
	if e == nil {
		return
	}
	e.busy = false
	switch kind := catalog.KindOf(err); {
	case err == nil:
		p.succeeded(now)
		p.compare(e, g)
		p.apply(e, g)
		p.again(e, now)
		p.trust(now)
	case kind == catalog.KindNotFound:
		p.succeeded(now)
		p.absent(e, now)
	default:
		e.failures++
		e.lastErr = err.Error()
		e.due = now.Add(p.jitter(backoff(e.failures, h.cfg.MinInterval, max(h.cfg.MaxInterval, calm))))
		p.failed(err, now)
	}
}

// compare learns whether the list says as much of a generation as a read does.
func (p *poller) compare(e *entry, g catalog.Generation) {
	if e.hint != nil {
		p.listWhole = e.listEtag == g.Etag()
	}
	e.alone, e.hint = false, nil
}

// trust takes in what the list said of others, once it is known to say all.
func (p *poller) trust(now time.Time) {
	if !p.listWhole {
		return
	}
	for _, e := range p.entries {
		if e.hint == nil || e.busy || !whole(*e.hint) {
			continue
		}
		p.apply(e, *e.hint)
		p.again(e, now)
		e.alone, e.hint = false, nil
	}
}

// absent takes in a 404.
func (p *poller) absent(e *entry, now time.Time) {
	if e.unseen(now) {
		if !e.fresh {
			e.fresh = true
			e.tell()
		}
		p.again(e, now)
		return
	}
	e.vanish(now)
	e.tell()
}

// apply takes a record into an entry and tells the watchers what they can see of it;
// mu is held.
func (p *poller) apply(e *entry, g catalog.Generation) {
	before := e.state.State
	changed, regressed := e.advance(g)
	if regressed {
		p.hub.stats.Regressions++
		p.hub.cfg.Logger.Warn("dropped a state that would have gone backwards",
			"generation", e.id, "have", e.state.State.String(), "got", g.State.String())
	}
	if before != 0 && !before.Terminal() && e.state.State == catalog.StateSucceeded {
		p.learn(e)
	}
	if changed {
		e.tell()
	}
}

// learn remembers how long a render took. Only one that was seen before it ended tells.
func (p *poller) learn(e *entry) {
	if took := e.state.TerminalTime.Sub(e.birth()); took > 0 {
		p.hub.history.add(historyKey{p.cred.Tenant, e.state.ModelID}, took)
	}
}

// again sets the next poll after an answer.
func (p *poller) again(e *entry, now time.Time) {
	e.failures, e.lastErr = 0, ""
	e.due = now.Add(p.jitter(interval(now.Sub(e.birth()), p.hub.cfg.MinInterval, p.hub.cfg.MaxInterval)))
}

func (p *poller) jitter(d time.Duration) time.Duration { return spread(d, p.hub.random.Float64()) }

// succeeded notes that the catalog answered.
func (p *poller) succeeded(now time.Time) {
	p.condition, p.failures, p.lastErr, p.answered = ConditionHealthy, 0, "", now
	p.budget.answered()
}

// failed notes a failed poll, and slows down as the failure asks.
func (p *poller) failed(err error, now time.Time) {
	p.failures++
	p.lastErr = err.Error()
	var detail *catalog.Error
	errors.As(err, &detail)
	switch catalog.KindOf(err) {
	case catalog.KindRateLimited:
		p.condition = ConditionThrottled
		wait := detail.RetryAfter
		if wait == 0 {
			wait = backoff(p.failures, p.hub.cfg.MinInterval, calm)
		}
		// Later than asked, never sooner: a tenth is the jitter.
		p.budget.throttled(now, wait+p.jitter(wait/10))
	case catalog.KindCredentialRejected:
		p.condition = ConditionCredentialRejected
		if p.cred.Held {
			p.budget.pause(now.Add(probe))
		} else {
			p.reject(err)
		}
	case catalog.KindUnavailable:
		p.condition = ConditionUnreachable
		if p.failures >= sweepFrom {
			p.budget.pause(now.Add(p.jitter(backoff(p.failures, p.hub.cfg.MinInterval, calm))))
		}
	default:
		p.condition = ConditionUnreachable
	}
}

// reject ends every watch of a caller's own key that the catalog no longer takes.
func (p *poller) reject(err error) {
	for sub := range p.all {
		sub.fail(err)
	}
	for _, e := range p.entries {
		for sub := range e.subs {
			sub.fail(err)
		}
	}
}
