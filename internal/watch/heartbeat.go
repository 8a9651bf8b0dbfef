package watch

import "time"

// heartbeat says why a watch of one entry is quiet; mu is held.
func (p *poller) heartbeat(e *entry, now time.Time) Heartbeat {
	beat := p.pulse()
	beat.ObserveTime = e.state.ObserveTime
	if e.failures > 0 {
		beat.Failures, beat.LastError = e.failures, e.lastErr
	}
	if e.wanted(now, p.hub.cfg.RefundWindow) {
		beat.NextPoll = latest(p.expected(e), p.budget.paused)
	}
	if !e.state.State.Terminal() {
		beat.TypicalRemaining, beat.HasTypical = p.hub.history.remaining(p.historyOf(e), now.Sub(e.birth()))
	}
	return beat
}

// expected is when the next poll serves an entry: its own, or a sweep that comes first.
func (p *poller) expected(e *entry) time.Time {
	if e.hint != nil || p.sweepAt.Before(e.alone) {
		return e.due
	}
	return earliest(e.due, p.sweepAt)
}

// overview says why a watch of many is quiet; mu is held.
func (p *poller) overview(s *subscription, now time.Time) Heartbeat {
	beat := p.pulse()
	beat.ObserveTime = p.answered
	if s.everything {
		beat.NextPoll = p.sweepAt
	}
	for i := range s.items {
		if e := s.items[i].e; e != nil && e.wanted(now, p.hub.cfg.RefundWindow) {
			beat.NextPoll = earliest(beat.NextPoll, p.expected(e))
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
