package watch

import (
	"context"
	"errors"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch/budget"
	"github.com/easel-grpc/easel/internal/watch/schedule"
)

const (
	maxInFlight = 16               // polls of one credential on their way at once
	pollTimeout = 30 * time.Second // longest that one poll may take
	outage      = 3                // failures in a row from which the catalog is only probed
	probe       = time.Minute      // time between tries with a held key that was rejected
	calm        = 30 * time.Second // longest pause of our own in an outage
)

// poller runs the plans of one credential. The tenant's mutex guards all of it.
type poller struct {
	tenant   *tenant
	random   schedule.Source
	wake     chan struct{} // of capacity 1: plan again
	planAt   time.Time     // when it plans again by itself
	blocked  bool          // the budget allows nothing before that
	inFlight int           // reads on their way
	hints    bool          // the last read went to a hinted one
	number   int64         // of polls so far
}

// job is one request to make: one generation, or the list where the id is empty.
type job struct {
	Poll
	number int64
}

// run plans and polls until nobody is interested any more. It never waits for a poll.
func (p *poller) run() {
	h := p.tenant.hub
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		jobs, next, gone := p.plan(time.Now())
		if gone {
			h.forget(p.tenant)
			return
		}
		for _, j := range jobs {
			h.work.Go(func() { p.do(j) })
		}
		timer.Reset(time.Until(next))
		select {
		case <-p.wake:
		case <-timer.C:
		case <-h.ctx.Done():
			return
		}
	}
}

// planBy makes the poller plan at t at the latest, unless it could do nothing then.
func (p *poller) planBy(t time.Time) {
	if p.blocked || !t.Before(p.planAt) {
		return
	}
	p.planAt = t
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// plan decides what to ask now and when to plan again. A tenant without interest ends, once nothing
// is left of a pause that the catalog asked for.
func (p *poller) plan(now time.Time) (jobs []*job, next time.Time, gone bool) {
	t := p.tenant
	t.mu.Lock()
	defer t.mu.Unlock()
	t.budget.Allot(p.allowance(now), now)
	next = t.prune(now)
	if len(t.entries) == 0 && len(t.everything) == 0 && p.inFlight == 0 && !t.list.sweeping {
		if t.budget.Rested(now) {
			t.gone = true
			t.peering.end()
			return nil, time.Time{}, true
		}
		next = latest(t.budget.Paused(), now).Add(budget.Recovery)
	}
	jobs, again := p.jobs(now)
	p.planAt = earliest(again, next)
	return jobs, p.planAt, false
}

// allowance is the rate that this process may use.
func (p *poller) allowance(now time.Time) float64 {
	if peering := p.tenant.peering; peering != nil {
		return peering.rate(now)
	}
	return p.tenant.hub.cfg.Rate
}

// jobs makes the requests that are due and that the budget allows, and says when there may be more; zero
// means that only news can tell.
func (p *poller) jobs(now time.Time) (jobs []*job, again time.Time) {
	t := p.tenant
	s, refill := p.situation(now)
	plan := s.plan()
	p.hints, p.blocked = s.hints, plan.more && !refill.IsZero()
	if plan.sweep {
		p.spend()
		jobs = append(jobs, p.sweep(now))
	}
	for _, e := range plan.reads {
		p.spend()
		jobs = append(jobs, p.read(e, now))
	}
	if plan.more {
		return jobs, refill
	}
	return jobs, earliest(plan.next, earliest(t.queue.next(), t.peering.next(now)))
}

// situation is what is known now, and when the budget has more; zero: an answer comes before.
func (p *poller) situation(now time.Time) (s *situation, refill time.Time) {
	t := p.tenant
	room := p.room()
	n, again := t.budget.Available(now)
	if n <= room {
		room, refill = n, again
	}
	t.peering.pick(now)
	s = &situation{now: now, room: room, hints: p.hints, least: t.hub.cfg.MinInterval}
	t.list.describe(t, s)
	ready := t.queue.due(now, func(e *entry) bool { return t.wanted(e, now) && !t.peering.spares(e, now) })
	shown := 0
	if len(ready) > room && len(t.everything) > 0 {
		shown = t.shown(now)
	}
	for _, e := range ready {
		s.ready = append(s.ready, candidate{
			e: e, urgency: p.urgency(e, shown, now), hinted: e.listing.hint != nil,
			swept: t.list.serves(e, now), first: !e.fresh || e.unconfirmed(),
		})
	}
	return s, refill
}

// room is how many requests may be on their way beside those that are. In an outage there is one.
func (p *poller) room() int {
	if p.tenant.health.failures < outage {
		return maxInFlight - p.inFlight
	}
	if p.inFlight > 0 || p.tenant.list.sweeping {
		return 0
	}
	return 1
}

// urgency says which read comes first: the one that is longest overdue, measured by how much a
// poll is worth to a watcher: one of one generation is worth as much as one of a thousand. What has just
// become due counts as overdue by the shortest interval.
func (p *poller) urgency(e *entry, shown int, now time.Time) float64 {
	overdue := now.Sub(e.polling.due) + p.tenant.hub.cfg.MinInterval
	return overdue.Seconds() / float64(p.tenant.share(e, shown))
}

// spend takes a token for a request that is made now.
func (p *poller) spend() {
	p.tenant.budget.Take()
	p.tenant.peering.spent()
}

// read makes the job of one read.
func (p *poller) read(e *entry, now time.Time) *job {
	p.inFlight++
	p.tenant.stats.Reads++
	p.tenant.peering.polls(e, now)
	j := p.job(e.id)
	p.begin(j, e, now)
	return j
}

// sweep makes the job of one list call. It stands for a poll of every entry that the list can serve.
func (p *poller) sweep(now time.Time) *job {
	t := p.tenant
	t.stats.Sweeps++
	t.stats.Unshared += float64(len(t.everything))
	t.peering.polls(nil, now)
	j := p.job("")
	for _, e := range t.list.sweep(t, p.random.Draw(), now) {
		p.begin(j, e, now)
	}
	return j
}

func (p *poller) job(id string) *job {
	p.number++
	return &job{Poll: Poll{Tenant: p.tenant.cred.Tenant, ID: id}, number: p.number}
}

// begin notes that a poll is on its way for an entry.
func (p *poller) begin(j *job, e *entry, now time.Time) {
	e.polling.busy = true
	p.tenant.queue.remove(e)
	j.account(p.tenant, e, now)
}

// do makes one request, outside the lock, and takes in what came back.
func (p *poller) do(j *job) {
	h, cred := p.tenant.hub, p.tenant.cred
	ctx, cancel := context.WithTimeout(h.ctx, pollTimeout)
	defer cancel()
	ctx, result, ended := h.pollBegins(ctx, j.Poll)
	if j.ID == "" {
		records, err := h.cfg.Upstream.List(ctx, cred)
		p.swept(records, err, result)
		ended(Outcome{Err: err, Changes: result.changes})
		return
	}
	g, err := h.cfg.Upstream.Generation(ctx, cred, j.ID)
	p.answered(j.ID, g, err, result)
	ended(Outcome{Err: err, State: g.State, Changes: result.changes})
}

// answered takes in the answer to a read.
func (p *poller) answered(id string, g catalog.Generation, err error, result *pollResult) {
	t := p.tenant
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	defer p.planBy(now)
	p.inFlight--
	e := t.entries[id]
	if e == nil {
		return
	}
	e.polling.busy = false
	switch {
	case err == nil:
		t.list.readable(now)
		p.succeeded(now)
		t.list.compare(e, g)
		t.apply(e, g, g.Etag(), result)
		t.again(e, now)
		t.list.trust(t, result, now)
		t.peering.polled(e, now)
	case catalog.KindOf(err) == catalog.KindNotFound:
		t.list.readable(now)
		p.succeeded(now)
		e.listing.hint = nil
		t.absent(e, result, now)
		t.peering.polled(e, now)
	default:
		p.failed(err, now)
		p.retry(e, err, max(t.hub.cfg.MaxInterval, calm), now)
	}
}

// swept takes in the answer to a sweep.
func (p *poller) swept(records []catalog.Listed, err error, result *pollResult) {
	t := p.tenant
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	defer p.planBy(now)
	asked := t.list.release()
	if err == nil {
		p.succeeded(now)
		t.list.merge(t, asked, records, result, now)
		return
	}
	// The entries are read one by one, which shows whether it is the list alone that fails.
	p.failed(err, now)
	t.list.failed(err, len(asked), t.hub.cfg.MinInterval, p.random.Draw(), now)
	for _, e := range asked {
		p.retry(e, err, t.hub.cfg.MinInterval, now)
	}
}

// retry sets the next poll of an entry after a failure.
func (p *poller) retry(e *entry, err error, most time.Duration, now time.Time) {
	e.polling.failures++
	e.polling.lastErr = err.Error()
	p.tenant.pollAfter(e, schedule.Backoff(e.polling.failures, p.tenant.hub.cfg.MinInterval, most), now)
}

// called notes a request that a call has made.
func (p *poller) called(err error, throttled bool, now time.Time) {
	p.tenant.budget.Spend(now)
	p.tenant.peering.spent()
	if throttled {
		p.throttled(err, now)
	}
}

// health is how the catalog behaves towards a credential.
type health struct {
	condition Condition
	failures  int // polls in a row, of any entry
	strikes   int // pauses in a row, in an outage
	lastErr   string
	answered  time.Time
}

// succeeded notes that the catalog answered. An answer to what was on its way when the catalog
// asked for a pause does not end it.
func (p *poller) succeeded(now time.Time) {
	h := &p.tenant.health
	h.failures, h.strikes, h.answered = 0, 0, now
	if h.condition != ConditionThrottled || !now.Before(p.tenant.budget.Paused()) {
		h.condition, h.lastErr = ConditionHealthy, ""
	}
}

// failed notes a failed poll, and slows down as the failure asks.
func (p *poller) failed(err error, now time.Time) {
	t := p.tenant
	t.health.failures++
	t.health.lastErr = err.Error()
	switch kind := catalog.KindOf(err); {
	case kind == catalog.KindRateLimited:
		p.throttled(err, now)
		return
	case kind == catalog.KindCredentialRejected && t.cred.Held:
		t.budget.Pause(now, now.Add(probe))
	case kind == catalog.KindCredentialRejected:
		t.each(func(w *watcher) { w.fail(err) })
	case kind == catalog.KindUnavailable:
		p.rest(now)
	}
	t.health.condition = ConditionUnreachable
	if catalog.KindOf(err) == catalog.KindCredentialRejected {
		t.health.condition = ConditionCredentialRejected
	}
}

// throttled slows down after a 429, whether a poll got it or a call.
func (p *poller) throttled(err error, now time.Time) {
	t := p.tenant
	t.health.condition, t.health.lastErr = ConditionThrottled, err.Error()
	var detail *catalog.Error
	errors.As(err, &detail)
	wait := detail.RetryAfter
	if wait == 0 {
		wait = schedule.Backoff(max(t.health.failures, 1), t.hub.cfg.MinInterval, calm)
	}
	// Later than asked, never sooner: a tenth is the jitter.
	t.budget.Throttled(now, wait+time.Duration(p.random.Draw()*float64(wait)/10))
}

// rest pauses in an outage, each time for longer. What was on its way when the pause began
// and fails too tells nothing new.
func (p *poller) rest(now time.Time) {
	t := p.tenant
	if t.health.failures < outage || now.Before(t.budget.Paused()) {
		return
	}
	t.health.strikes++
	pause := schedule.Backoff(t.health.strikes, t.hub.cfg.MinInterval, calm)
	t.budget.Pause(now, now.Add(schedule.Jitter(pause, p.random.Draw())))
}
