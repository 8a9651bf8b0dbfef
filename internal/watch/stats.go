package watch

import (
	"maps"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/watch/budget"
)

// Stats tells what the hub has done. It looks at all that is watched: it is for whoever reads
// metrics every few seconds.
func (h *Hub) Stats() Stats {
	stats, tenants := h.collect()
	for _, t := range tenants {
		t.mu.Lock()
		t.count(&stats, time.Now())
		t.mu.Unlock()
	}
	return stats
}

// collect gives what tenants that have ended have done, and those that are there.
func (h *Hub) collect() (Stats, []*tenant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	stats := h.ended
	stats.Pollers = len(h.tenants)
	full := budget.New(h.cfg.Rate, time.Now()).State(time.Now())
	stats.Rate, stats.Budget = full.Rate, full.Level
	return stats, slices.Collect(maps.Values(h.tenants))
}

// count adds what a tenant has done and has now; its mutex is held.
func (t *tenant) count(s *Stats, now time.Time) {
	s.add(&t.stats)
	s.Generations += len(t.entries)
	s.Watches += t.watches
	s.Conditions[t.health.condition]++
	state := t.budget.State(now)
	if now.Before(state.Paused) {
		s.Paused++
	}
	if t.cfg.Peers != nil && t.peers.alone(now) {
		s.Alone++
	}
	s.Budget = min(s.Budget, state.Level)
	s.Rate = min(s.Rate, state.Rate)
	for _, e := range t.order {
		if t.wanted(e, now) {
			s.Active++
			s.Stalest = max(s.Stalest, now.Sub(latest(e.state.ObserveTime, e.firstSeen)))
		}
	}
}
