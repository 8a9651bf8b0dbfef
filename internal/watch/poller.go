package watch

import (
	"context"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch/schedule"
)

const (
	maxInFlight = 16               // maximum number of concurrent reads with one credential
	pollTimeout = 30 * time.Second // timeout of one poll
)

// poller sends the polls for one credential. The tenant's mutex guards it.
type poller struct {
	hub          *Hub
	tenant       *tenant
	random       schedule.Source
	preferHinted bool // value of situation.preferHinted for the next plan
}

// job is one request to the catalog: for one generation, for the account, or for the list.
type job struct {
	Poll
	generations []*generation // generations that the request polls; they stay in memory until its result has been applied
	counted     []*watcher    // watchers whose traces are in Poll.Open
	since       time.Time     // for a list request: a cached list that was requested before this time is not used
}

// runPolls plans and sends polls until the tenant is no longer needed or the hub is closed. It does not wait for responses.
func (p *poller) runPolls() {
	h := p.hub
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		jobs, next, ended := p.planJobs(time.Now())
		if ended {
			return
		}
		for _, j := range jobs {
			h.work.Go(func() { p.executeJob(j) })
		}
		timer.Reset(time.Until(next))
		select {
		case <-p.tenant.queue.wake:
		case <-timer.C:
		case <-h.ctx.Done():
			return
		}
	}
}

// planJobs returns the jobs that are due now, and the time at which it must be called again. If the tenant has no generations,
// no watchers and no jobs, planJobs removes the tenant, and hasEnded is true. While polling pauses after failures, planJobs
// does not remove the tenant, because the tenant stores the end of the pause.
func (p *poller) planJobs(now time.Time) (jobs []*job, next time.Time, hasEnded bool) {
	t := p.tenant
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limiter().SetPollRate(p.hub.pollRate())
	next = t.pruneGenerations(now)
	p.recordAgain(now)
	next = earliest(next, t.recordAt)
	if len(t.generations) == 0 && len(t.everything) == 0 && t.inFlight == 0 && t.list.sweep == nil && !t.accountRead.wanted {
		if !now.Before(t.health.pausedUntil) {
			p.hub.forgetTenant(t)
			return nil, time.Time{}, true
		}
		next = t.health.pausedUntil
	}
	jobs, again := p.dueJobs(now)
	t.queue.planAt = earliest(again, next)
	return jobs, t.queue.planAt, false
}

// dueJobs returns the due jobs that may start now, and the time at which jobs must be planned again. If this time is zero, the
// next change or response triggers the next plan.
func (p *poller) dueJobs(now time.Time) (jobs []*job, again time.Time) {
	t := p.tenant
	s, refill := p.currentSituation(now)
	if t.accountRead.isDue() && s.limit > 0 {
		jobs = append(jobs, p.newAccountJob())
		s.limit--
	}
	plan := s.planRequests()
	plan.more = plan.more || t.accountRead.isDue()
	p.preferHinted, t.queue.blocked = plan.preferHinted, plan.more && !refill.IsZero()
	if plan.sweep {
		jobs = append(jobs, p.newSweepJob(now))
	}
	for _, e := range plan.reads {
		jobs = append(jobs, p.newReadJob(e))
	}
	if plan.more {
		return jobs, refill
	}
	return jobs, plan.next
}

// currentSituation returns the input for [situation.planRequests], and the time when more polls may start. If this time is
// zero, more polls may start after the next response.
func (p *poller) currentSituation(now time.Time) (s situation, refill time.Time) {
	t := p.tenant
	limit := p.limit()
	n, again := t.limiter().Polls()
	if now.Before(t.health.pausedUntil) {
		n, again = 0, t.health.pausedUntil
	}
	if n <= limit {
		limit, refill = n, again
	}
	s = situation{now: now, limit: limit, preferHinted: p.preferHinted, least: t.cfg.MinInterval}
	p.describeList(&s)
	ready, next := t.queue.selectDue(now, func(e *generation) bool { return t.mustPoll(e, now) })
	s.nextDue = next
	listed := 0
	if len(ready) > limit && len(t.everything) > 0 {
		listed = t.countListed(now)
	}
	for _, e := range ready {
		s.ready = append(s.ready, candidate{
			e: e, urgency: p.urgency(e, listed, now), hinted: e.listing.hint != nil,
			swept: t.list.coversRead(e, now), first: !e.fresh,
		})
	}
	return s, refill
}

// describeList copies the state of the list to s, the input for the planner.
func (p *poller) describeList(s *situation) {
	t, l := p.tenant, &p.tenant.list
	everything := len(t.everything) > 0
	s.firstList = slices.ContainsFunc(t.everything, func(w *watcher) bool { return !w.initialKnown })
	s.sweeping, s.sweptAt, s.sweepAfter, s.listFailing = l.sweep != nil, l.sweptAt, l.retryAt, l.failing
	s.sweeps = everything || len(t.coveredByList(sweepFrom, s.now)) == sweepFrom
	if !s.sweeps {
		l.sweepAt = time.Time{}
		return
	}
	if l.sweepAt.IsZero() && l.sweep == nil {
		l.sweepAt = t.nextSweep(everything, s.now)
	}
	s.sweepAt = l.sweepAt
}

// limit returns the number of jobs that may start now in addition to those in flight, ignoring the poll rate. During an
// outage, at most one job is in flight.
func (p *poller) limit() int {
	if p.tenant.health.failures < outageFailures {
		return maxInFlight - p.tenant.inFlight
	}
	if p.tenant.inFlight > 0 || p.tenant.list.sweep != nil {
		return 0
	}
	return 1
}

// urgency returns the priority of a read of a generation: (overdue + minimum interval) / waits. In this formula, overdue is the
// time since the read was due, and waits is the smallest number of generations that any watcher of the generation waits for. So
// a watcher of one generation has the same weight as a watcher of a thousand. The minimum interval keeps the priority above
// zero when the read has just become due.
func (p *poller) urgency(e *generation, listed int, now time.Time) float64 {
	overdue := now.Sub(e.polling.due) + p.hub.cfg.MinInterval
	return overdue.Seconds() / float64(e.fewestWaits(listed))
}

// newReadJob returns a job that reads one generation.
func (p *poller) newReadJob(e *generation) *job {
	p.tenant.inFlight++
	j := &job{Poll: Poll{Tenant: p.tenant.cred.Tenant, ID: e.id}, generations: []*generation{e}}
	p.beginPoll(j, e)
	return j
}

// newAccountJob returns a job that reads the account.
func (p *poller) newAccountJob() *job {
	t := p.tenant
	t.inFlight++
	t.accountRead = accountRead{inFlight: true}
	return &job{Poll: Poll{Tenant: t.cred.Tenant, Account: true}}
}

// newSweepJob returns a job that requests the list. The job polls every generation that needs a poll and can be polled with the
// list.
func (p *poller) newSweepJob(now time.Time) *job {
	t := p.tenant
	j := &job{Poll: Poll{Tenant: t.cred.Tenant}, since: t.list.answeredAt}
	j.generations, t.list.sweep = t.coveredByList(len(t.order), now), j
	t.list.recordStart(now, p.random.Draw())
	for _, e := range j.generations {
		if !e.fresh {
			j.since = now // a watcher needs the current state, which an earlier list may lack
		}
		p.beginPoll(j, e)
	}
	return j
}

// beginPoll records that the job j polls a generation.
func (p *poller) beginPoll(j *job, e *generation) {
	e.polling.inFlight = true
	p.tenant.queue.removeGeneration(e)
	j.addTo(e)
}

// isNeeded reports whether the request of a job is still needed. It is called when the request is about to be sent. If a
// read or a list request is still needed, it counts it in the statistics.
func (p *poller) isNeeded(j *job) bool {
	p.tenant.mu.Lock()
	defer p.tenant.mu.Unlock()
	if j.ID != "" && !p.tenant.mustPoll(j.generations[0], time.Now()) {
		return false
	}
	stats := &p.tenant.stats
	switch {
	case j.Account:
	case j.ID == "":
		stats.Sweeps++
	default:
		stats.Reads++
	}
	return true
}

// addTo adds a generation, its watchers and their traces to j.Poll, which describes the job for the tracer.
func (j *job) addTo(e *generation) {
	j.Generations++
	j.Watches += len(e.subscribers)
	if e.orderRef != nil && len(j.Orders) < maxRefs {
		j.Orders = append(j.Orders, e.orderRef)
	}
	for _, c := range e.subscribers {
		if c.trace != nil && len(j.Open) < maxRefs && !slices.Contains(j.counted, c.watcher) {
			j.counted, j.Open = append(j.counted, c.watcher), append(j.Open, c.trace)
		}
	}
}

// executeJob sends the request of a job, applies the response, records the new states, and notifies the subscribers.
func (p *poller) executeJob(j *job) {
	h, cred := p.hub, p.tenant.cred
	ctx, cancel := context.WithTimeout(h.ctx, pollTimeout)
	defer cancel()
	ctx, found, ended := h.cfg.Tracer.PollBegins(ctx, j.Poll)
	result := &pollResult{found: found}
	switch {
	case j.Account:
		p.isNeeded(j)
		_, result.Err = h.cfg.Upstream.Account(ctx, cred)
		p.recordAccountAnswer(j, result.Err)
	case j.ID == "":
		p.isNeeded(j)
		list, err := h.cfg.Upstream.List(ctx, cred, j.since)
		result.Err = err
		p.applyList(j, list, err, result)
	default:
		wanted := catalog.IfWanted(ctx, func() bool { return p.isNeeded(j) })
		read, err := h.cfg.Upstream.Generation(wanted, cred, j.ID)
		result.Err, result.State = err, read.State
		p.applyRead(j, read, err, result)
	}
	p.tenant.finishPoll(ctx, result)
	ended(result.Outcome)
}

// releaseJob marks a job and its generations as no longer in flight.
func (p *poller) releaseJob(j *job) {
	if p.tenant.list.sweep == j {
		p.tenant.list.sweep = nil
	} else {
		p.tenant.inFlight--
	}
	for _, e := range j.generations {
		e.polling.inFlight = false
	}
}

// applyRead applies the result of a read.
func (p *poller) applyRead(j *job, read catalog.Version, err error, result *pollResult) {
	t := p.tenant
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	defer t.queue.wakeBy(now)
	p.releaseJob(j)
	e := j.generations[0]
	switch {
	case err == nil:
		t.list.recordReadAnswer(now)
		p.recordSuccess(now)
		t.health.read = now
		t.list.compareRecord(e, read.Etag)
		t.applyRecord(e, read.Generation, read.Etag, result)
		t.scheduleNext(e, now)
		t.applyHints(result, now)
	case catalog.IsAbsent(err), catalog.KindOf(err) == catalog.KindNotFound && (!e.isKnownToExist() || e.isJustCreated(now)):
		t.list.recordReadAnswer(now)
		p.recordSuccess(now)
		t.applyNotFound(e, err, result, now)
	default: // any other error, such as a 404 from a proxy, does not show whether the generation exists
		p.recordFailure(err, now)
		t.retryPoll(e, err, max(t.cfg.MaxInterval, maxPause), now)
	}
}

// applyList applies the result of a sweep, which is a list request.
func (p *poller) applyList(j *job, list *catalog.List, err error, result *pollResult) {
	t := p.tenant
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	defer t.queue.wakeBy(now)
	p.releaseJob(j)
	if err == nil {
		t.health.read = now
		p.recordSuccess(now)
		t.mergeList(j.generations, list, result, now)
		return
	}
	// The generations that the failed list request was meant to poll are now read individually. This shows whether only list
	// requests fail.
	p.recordFailure(err, now)
	t.list.recordFailure(err, len(j.generations), t.cfg.MinInterval, p.random.Draw(), now)
	t.beginWithoutList(now)
	for _, e := range j.generations {
		t.retryPoll(e, err, t.cfg.MinInterval, now)
	}
}

// recordAccountAnswer records the result of a read of the account.
func (p *poller) recordAccountAnswer(j *job, err error) {
	t := p.tenant
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	defer t.queue.wakeBy(now)
	p.releaseJob(j)
	t.accountRead.inFlight = false
	if err != nil {
		p.recordFailure(err, now)
		return
	}
	t.health.read = now
	p.recordSuccess(now)
}

// recordSuccess records that the catalog has responded to a poll.
func (p *poller) recordSuccess(now time.Time) {
	p.tenant.health.recordSuccess(now)
}

// recordFailure records a failed poll. If the catalog has rejected a forwarded API key, it ends all watches with this API key.
func (p *poller) recordFailure(err error, now time.Time) {
	t := p.tenant
	t.health.recordFailure(err, t.cred.IsShared(), now)
	if catalog.KindOf(err) == catalog.KindCredentialRejected && !t.cred.IsShared() {
		t.endAll(err)
	}
}

// recordAgain starts a goroutine that tries again to record all states that are not in the ledger yet. It does nothing if no
// retry is due.
func (p *poller) recordAgain(now time.Time) {
	t := p.tenant
	if t.recordAt.IsZero() || now.Before(t.recordAt) {
		return
	}
	t.recordAt = time.Time{}
	generations := slices.Clone(t.order)
	p.hub.work.Go(func() {
		ctx, cancel := context.WithTimeout(p.hub.ctx, retryTimeout)
		defer cancel()
		t.recordStates(ctx, generations)
	})
}
