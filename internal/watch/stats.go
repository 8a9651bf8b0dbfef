package watch

import (
	"maps"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/watch/budget"
)

// Stats gives the counts of the hub. It visits every watched generation, which is cheap enough for a reader
// of metrics every few seconds.
func (h *Hub) Stats() Stats {
	stats, tenants := h.collect()
	for _, t := range tenants {
		t.mu.Lock()
		t.count(&stats, time.Now())
		t.mu.Unlock()
	}
	return stats
}

// collect gives the counts of tenants that have ended, and the present tenants.
func (h *Hub) collect() (Stats, []*tenant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	stats := h.ended
	stats.Pollers = len(h.tenants)
	full := budget.New(h.cfg.Rate, time.Now()).State(time.Now())
	stats.Rate, stats.Budget = full.Rate, full.Level
	return stats, slices.Collect(maps.Values(h.tenants))
}

// count adds the counts of a tenant; its mutex is held.
func (t *tenant) count(s *Stats, now time.Time) {
	s.add(&t.stats)
	s.Generations += len(t.entries)
	s.Watches += t.watches
	s.Conditions[t.health.condition]++
	state := t.budget.State(now)
	if now.Before(state.Paused) {
		s.Paused++
	}
	if t.sharing != nil && t.sharing.away {
		s.Away++
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
