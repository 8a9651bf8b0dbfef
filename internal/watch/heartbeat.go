package watch

import "time"

// heartbeat says why a watch of one entry is quiet; mu is held.
func (p *poller) heartbeat(e *entry, now time.Time) Heartbeat {
	beat := p.pulse()
	beat.ObserveTime = e.state.ObserveTime
	if e.failures > 0 {
		beat.Failures, beat.LastError = e.failures, e.lastErr
	}
	if e.wanted(now, p.hub.cfg.RefundWindow) && !e.due.IsZero() {
		beat.NextPoll = latest(e.due, p.budget.paused)
	}
	if !e.state.State.Terminal() {
		key := historyKey{p.cred.Tenant, e.state.ModelID}
		beat.TypicalRemaining, beat.HasTypical = p.hub.history.remaining(key, now.Sub(e.birth()))
	}
	return beat
}

// overview says why a watch of many is quiet; mu is held.
func (p *poller) overview(s *subscription, now time.Time) Heartbeat {
	beat := p.pulse()
	beat.ObserveTime = p.answered
	if len(p.all) > 0 {
		beat.NextPoll = p.nextSweep
	}
	for id := range s.open {
		if e := p.entries[id]; e != nil && e.wanted(now, p.hub.cfg.RefundWindow) {
			beat.NextPoll = earliest(beat.NextPoll, e.due)
		}
	}
	if !beat.NextPoll.IsZero() {
		beat.NextPoll = latest(beat.NextPoll, p.budget.paused)
	}
	return beat
}

func (p *poller) pulse() Heartbeat {
	return Heartbeat{Condition: p.condition, Failures: p.failures, LastError: p.lastErr}
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
