package watch

import (
	"maps"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/watch/budget"
)

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
	stats := h.past
	stats.Pollers = len(h.tenants)
	full := budget.New(h.cfg.Rate, time.Now()).State(time.Now())
	stats.Rate, stats.Budget = full.Rate, full.Level
	return stats, slices.Collect(maps.Values(h.tenants))
}

// count adds what a tenant has done and has now; its mutex is held.
func (t *tenant) count(s *Stats, now time.Time) {
	s.add(&t.stats)
	s.Generations += len(t.entries)
	s.Watches += t.open
	s.Conditions[t.health.condition]++
	state := t.budget.State(now)
	if now.Before(state.Paused) {
		s.Paused++
	}
	if t.peering.alone(now) {
		s.Alone++
	}
	s.Budget = min(s.Budget, state.Level)
	s.Rate = min(s.Rate, state.Rate)
	for _, e := range t.order {
		if t.wanted(e, now) {
			s.Active++
			s.Stalest = max(s.Stalest, now.Sub(latest(e.state.ObserveTime, e.began)))
		}
	}
}

// add adds what was counted elsewhere.
func (s *Stats) add(o *Stats) {
	s.Reads += o.Reads
	s.Sweeps += o.Sweeps
	s.Unshared += o.Unshared
	s.Regressions += o.Regressions
	s.Told += o.Told
	s.Recalled += o.Recalled
	s.Stale += o.Stale
	s.Refuted += o.Refuted
	s.Conflated += o.Conflated
}
