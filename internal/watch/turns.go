package watch

import (
	"context"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/limiter"
)

// start sends the requests of jobs, each when it has its permit.
func (p *poller) start(jobs []*job) {
	for _, j := range jobs {
		p.hub.work.Go(func() {
			if p.enter(j) {
				p.execute(j)
			}
		})
	}
}

// enter waits for the permit of a job. It reports whether the request is to be sent: otherwise the job is planned again.
func (p *poller) enter(j *job) bool {
	ctx, cancel := context.WithTimeout(p.hub.ctx, pollTimeout)
	defer cancel()
	j.turn, _ = p.tenant.gate().Enter(ctx, wish)
	t := p.tenant
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if j.turn == nil || !p.isWanted(j, now) {
		p.cancel(j, now.Add(t.cfg.MinInterval))
		t.queue.wakeBy(now)
		return false
	}
	p.count(j)
	return true
}

// isWanted reports whether a job still serves a watcher, as it may have waited for its permit.
func (p *poller) isWanted(j *job, now time.Time) bool {
	if j.Account || j.ID == "" && len(p.tenant.everything) > 0 {
		return true
	}
	return slices.ContainsFunc(j.entries, func(e *entry) bool { return p.tenant.wanted(e, now) })
}

// cancel returns the work of a job that is not executed to the plan. Its entries are not polled before earliestPoll.
func (p *poller) cancel(j *job, earliestPoll time.Time) {
	t := p.tenant
	j.turn.End(limiter.Answer{Outcome: limiter.Unused})
	p.landed(j)
	if j.Account {
		t.accountRead.wanted = true
	}
	for _, e := range j.entries {
		t.pollAt(e, latest(e.polling.due, earliestPoll))
	}
}
