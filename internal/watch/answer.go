package watch

import (
	"errors"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// answer takes in the answer to a poll of one generation.
func (p *poller) answer(id string, g catalog.Generation, err error, l *look) {
	h := p.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	defer p.wakeBy(now)
	p.inFlight--
	e := p.entries[id]
	if e == nil {
		return
	}
	e.busy = false
	switch kind := catalog.KindOf(err); {
	case err == nil:
		p.readable(now)
		p.compare(e, g)
		p.apply(e, g, l)
		p.again(e, now)
		p.looked(e, now)
		p.trust(now, l)
	case kind == catalog.KindNotFound:
		p.readable(now)
		e.hint = nil
		p.absent(e, now, l)
		p.looked(e, now)
	default:
		e.failures++
		e.lastErr = err.Error()
		p.failed(err, now)
		p.lookAfter(e, backoff(e.failures, h.cfg.MinInterval, max(h.cfg.MaxInterval, calm)), now)
	}
}

// readable notes that a read was answered. Where the list failed just before, the list alone
// is broken, or all is well again: the next sweep shows which.
func (p *poller) readable(now time.Time) {
	p.succeeded(now)
	if p.list.down {
		p.stir()
		p.list.down = false
		p.list.judge(false, now)
	}
}

// compare learns whether the list says as much of a generation as a read does.
func (p *poller) compare(e *entry, g catalog.Generation) {
	if e.hint != nil {
		p.list.whole = e.listEtag == g.Etag()
		e.hint = nil
	}
}

// trust takes in what the list said of others, once it is known to say all.
func (p *poller) trust(now time.Time, l *look) {
	if !p.list.whole || !p.list.hints {
		return
	}
	p.stir()
	p.list.hints = false
	for _, e := range p.order {
		if e.hint == nil || !whole(*e.hint) {
			continue
		}
		if e.busy {
			p.list.hints = true
			continue
		}
		p.apply(e, *e.hint, l)
		p.again(e, now)
		e.hint = nil
	}
}

// absent takes in a 404.
func (p *poller) absent(e *entry, now time.Time, l *look) {
	if e.young(now) {
		if !e.fresh && e.state.State != 0 { // else a peer has placed it, and knows its state
			e.fresh = true
			e.tell()
		}
		p.again(e, now)
		return
	}
	before := e.state
	e.vanish(now)
	e.found = l.mark
	p.note(l, e, before, e.state)
	e.tell()
}

// admit takes in a record that a call has brought. Where no poll has come before, it counts as
// the first look.
func (p *poller) admit(e *entry, g catalog.Generation, now time.Time, found Mark) {
	if e.gap == 0 || e.denied() {
		p.stir()
	}
	p.apply(e, g, &look{mark: found})
	if e.gap == 0 {
		p.again(e, now)
	}
}

// apply takes a record into an entry and tells the watchers what they can see of it;
// mu is held.
func (p *poller) apply(e *entry, g catalog.Generation, l *look) { p.applyAs(e, g, g.Etag(), l) }

// applyAs is apply for a record that had the given etag when it was read.
func (p *poller) applyAs(e *entry, g catalog.Generation, etag string, l *look) {
	before := e.state
	changed, regressed := e.advance(g, etag)
	if regressed {
		p.regressed(e, g)
	}
	if changed {
		p.note(l, e, before, e.state)
	}
	if took := e.took(g, before.State); took > 0 {
		e.learned = true
		p.hub.history.add(p.historyOf(e), fingerprint(e.id), took)
	}
	if changed {
		e.found = l.mark
		e.tell()
	}
}

// regressed counts a record that was dropped, and logs the first of many that say the same.
func (p *poller) regressed(e *entry, g catalog.Generation) {
	p.hub.stats.Regressions++
	if e.dropped == g.State {
		return
	}
	e.dropped = g.State
	p.hub.cfg.Logger.Warn("dropped a state that would have gone backwards",
		"generation", e.id, "have", e.state.State.String(), "got", g.State.String())
}

func (p *poller) historyOf(e *entry) historyKey { return historyKey{p.cred.Tenant, e.state.ModelID} }

// again sets the next poll after an answer. A failed render may be refunded, and when is not
// known from those that succeeded.
func (p *poller) again(e *entry, now time.Time) {
	e.failures, e.lastErr = 0, ""
	if e.state.State.Terminal() {
		p.lookAfter(e, unlearned.gap(now.Sub(e.ended), p.bounds()), now)
		return
	}
	p.lookAfter(e, p.hub.history.curve(p.historyOf(e)).gap(now.Sub(e.birth()), p.bounds()), now)
}

// lookAfter sets the next poll of an entry.
func (p *poller) lookAfter(e *entry, gap time.Duration, now time.Time) {
	e.gap = gap
	e.due = now.Add(spread(gap, e.dice.draw()))
	if p.kept != nil {
		p.kept.soonest, p.kept.moved = earliest(p.kept.soonest, e.due), true
	}
}

// succeeded notes that the catalog answered. An answer to what was on its way when the catalog
// asked for a pause does not end it.
func (p *poller) succeeded(now time.Time) {
	p.failures, p.strikes, p.answered = 0, 0, now
	if p.condition != ConditionThrottled || !now.Before(p.budget.paused) {
		p.condition, p.lastErr = ConditionHealthy, ""
	}
}

// failed notes a failed poll, and slows down as the failure asks.
func (p *poller) failed(err error, now time.Time) {
	p.failures++
	p.lastErr = err.Error()
	switch catalog.KindOf(err) {
	case catalog.KindRateLimited:
		p.throttled(err, now)
	case catalog.KindCredentialRejected:
		p.condition = ConditionCredentialRejected
		if p.cred.Held {
			p.budget.pause(now, now.Add(probe))
		} else {
			p.reject(err)
		}
	case catalog.KindUnavailable:
		p.condition = ConditionUnreachable
		p.rest(now)
	default:
		p.condition = ConditionUnreachable
	}
}

// throttled slows down after a 429, whether a poll got it or a call.
func (p *poller) throttled(err error, now time.Time) {
	p.condition, p.lastErr = ConditionThrottled, err.Error()
	var detail *catalog.Error
	errors.As(err, &detail)
	wait := detail.RetryAfter
	if wait == 0 {
		wait = backoff(max(p.failures, 1), p.hub.cfg.MinInterval, calm)
	}
	// Later than asked, never sooner: a tenth is the jitter.
	p.budget.throttled(now, wait+time.Duration(p.dice.draw()*float64(wait)/10))
}

// rest pauses in an outage, each time for longer. What was on its way when the pause began
// and fails too tells nothing new.
func (p *poller) rest(now time.Time) {
	if p.failures < outage || now.Before(p.budget.paused) {
		return
	}
	p.strikes++
	p.budget.pause(now, now.Add(spread(backoff(p.strikes, p.hub.cfg.MinInterval, calm), p.dice.draw())))
}

// reject ends every watch of a caller's own key that the catalog no longer takes.
func (p *poller) reject(err error) {
	for _, s := range p.all {
		s.fail(err)
	}
	for _, e := range p.order {
		for _, r := range e.subs {
			r.sub.fail(err)
		}
	}
}
