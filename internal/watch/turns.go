package watch

import (
	"context"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/gate"
)

// start makes the requests of some jobs, each in its turn: polls that others could make too after the book has granted them.
func (p *poller) start(jobs []*job) {
	var polls []*job
	for _, j := range jobs {
		j.cred = p.tenant.cred
		if p.tenant.sharing == nil || j.Account {
			p.hub.work.Go(func() {
				for _, j := range p.enter(j) {
					p.execute(j)
				}
			})
		} else {
			polls = append(polls, j)
		}
	}
	if len(polls) > 0 {
		p.hub.work.Go(func() {
			if polls := p.enter(polls...); len(polls) > 0 {
				letOthersPass(polls)
				p.share(polls)
			}
		})
	}
}

// enter waits for the turn of the first of some jobs, and takes those that there are for the others. It gives the jobs that
// have one and are still wanted. The others are planned anew.
func (p *poller) enter(jobs ...*job) (entered []*job) {
	ctx, cancel := context.WithTimeout(p.hub.ctx, pollTimeout)
	defer cancel()
	for i, j := range jobs {
		if i == 0 {
			j.turn, _ = p.tenant.gate().Enter(ctx, wish)
		} else {
			j.turn, _ = p.tenant.gate().Try(wish) // no turn is held while another is waited for
		}
	}
	t := p.tenant
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for _, j := range jobs {
		if j.turn == nil || !p.isWanted(j, now) {
			p.unmake(j, now.Add(t.cfg.MinInterval))
			t.queue.wakeBy(now)
			continue
		}
		entered = append(entered, j)
	}
	if t.sharing == nil {
		p.countAll(entered)
	}
	return entered
}

// letOthersPass gives back the turn for which all others wait after a pause: an order need not wait for the book.
func letOthersPass(polls []*job) {
	for _, j := range polls {
		if j.turn.GoesFirst() {
			j.turn.End(gate.Answer{Outcome: gate.Unused})
			j.turn = nil
		}
	}
}

// isWanted reports whether a job still serves somebody, as it may have waited for its turn.
func (p *poller) isWanted(j *job, now time.Time) bool {
	if j.Account || j.ID == "" && len(p.tenant.everything) > 0 {
		return true
	}
	return slices.ContainsFunc(j.entries, func(e *entry) bool { return p.tenant.wanted(e, now) })
}

// unmake has a job planned anew that is not made. What it was to poll is not polled before a time.
func (p *poller) unmake(j *job, least time.Time) {
	t := p.tenant
	j.turn.End(gate.Answer{Outcome: gate.Unused})
	p.landed(j)
	if j.Account {
		t.accountRead.askAgain(j.asking)
	}
	for _, e := range j.entries {
		t.pollAt(e, latest(e.polling.due, least))
	}
}

// makeAll makes the requests of some jobs, each by itself.
func (p *poller) makeAll(polls []*job) {
	for _, j := range polls {
		p.hub.work.Go(func() { p.execute(j) })
	}
}
