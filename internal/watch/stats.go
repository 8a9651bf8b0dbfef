package watch

import "time"

// Stats counts what the hub has done since its start, and what it has now.
type Stats struct {
	Pollers     int // credentials that somebody watches with, or did a moment ago
	Generations int // that are watched, or were a moment ago
	Active      int // that are polled: watched, and not at their goal
	Watches     int // that are open, waits among them

	Conditions [ConditionCredentialRejected + 1]int // pollers by the condition of the catalog
	Paused     int                                  // pollers that the catalog, or its failure, makes wait
	Alone      int                                  // pollers that have peers, and know of none that leads
	Budget     float64                              // requests that the poller with the emptiest budget may make now; below 0 it is in debt
	Rate       float64                              // the least rate of a poller, in requests a second
	Stalest    time.Duration                        // since the last answer for the one of those that are polled that has waited longest

	Reads       int64   // polls of one generation
	Sweeps      int64   // polls of the list
	Unshared    float64 // requests that as many pollers as there are watches would have made by the same schedule
	Regressions int64   // answers dropped because they would have gone backwards
	Told        int64   // states taken from peers
	Recalled    int64   // states taken from processes that were here before
	Stale       int64   // states of peers dropped because they would have gone backwards
	Refuted     int64   // ends that a peer told of and the catalog did not
	Conflated   int64   // changes that were replaced by a newer one before a watcher took them
}

// Stats tells what the hub has done. It looks at all that is watched: it is for whoever reads
// metrics every few seconds.
func (h *Hub) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.statsAt(time.Now())
}

// statsAt is Stats; mu is held.
func (h *Hub) statsAt(now time.Time) Stats {
	stats := h.stats
	stats.Pollers = len(h.pollers)
	stats.Rate, stats.Budget = h.cfg.Rate, newBudget(h.cfg.Rate, now).level(now)
	for _, p := range h.pollers {
		p.count(&stats, now)
	}
	return stats
}

// count adds what a poller has now; mu is held.
func (p *poller) count(s *Stats, now time.Time) {
	s.Generations += len(p.entries)
	s.Watches += p.open
	s.Conditions[p.condition]++
	if now.Before(p.budget.paused) {
		s.Paused++
	}
	if p.part != nil && (p.part.role == Alone || !now.Before(p.part.until)) {
		s.Alone++
	}
	budget := *p.budget // who looks changes nothing
	s.Budget = min(s.Budget, budget.level(now))
	s.Rate = min(s.Rate, budget.rate)
	for _, e := range p.order {
		if e.wanted(now, p.hub.cfg.RefundWindow) {
			s.Active++
			s.Stalest = max(s.Stalest, now.Sub(latest(e.state.ObserveTime, e.began)))
		}
	}
}

// level is how many requests may be made now.
func (b *budget) level(now time.Time) float64 {
	b.fill(now)
	return b.own + b.shared
}
