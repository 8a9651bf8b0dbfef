package watch

import (
	"cmp"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch/budget"
)

// mostShown is how many keys, and how many renders, a snapshot has.
const maxListed = 100

// Snapshot is what the hub has now, for somebody who looks.
type Snapshot struct {
	Time        time.Time
	Stats       Stats
	Credentials []Credential // at most 100, those in trouble first; Stats.Pollers is how many there are
	Generations []Generation // at most 100 that are polled, the one that has waited longest for an answer first; Stats.Active is how many there are
}

// Key is a credential that is polled under.
type Credential struct {
	Tenant    catalog.Tenant
	Held      bool
	Condition Condition
	Failures  int    // polls in a row
	LastError string // "" when healthy
	Answered  time.Time
	budget.State
	Active  int // renders that are polled
	Watches int
	Swept   time.Time // when the last list call began; zero: none did
}

// Render is a generation that is polled.
type Generation struct {
	Tenant    catalog.Tenant
	ID, Model string
	State     catalog.State // 0: nothing is known yet
	Began     time.Time     // the best guess of when the render did
	Answered  time.Time     // when the catalog spoke of it last; zero: it never has
	NextPoll  time.Time
	Watches   int
	Failures  int
	LastError string

	waiting time.Time // for an answer, since
}

// Snapshot tells what the hub has now. Like Stats, it looks at all that is watched.
func (h *Hub) Snapshot() Snapshot {
	stats, tenants := h.collect()
	s := Snapshot{Time: time.Now(), Stats: stats}
	for _, t := range tenants {
		t.mu.Lock()
		t.count(&s.Stats, s.Time)
		t.addToSnapshot(&s)
		t.mu.Unlock()
	}
	slices.SortStableFunc(s.Credentials, func(a, b Credential) int {
		return cmp.Or(cmp.Compare(b.Condition, a.Condition), cmp.Compare(b.Active, a.Active))
	})
	slices.SortStableFunc(s.Generations, func(a, b Generation) int { return a.waiting.Compare(b.waiting) })
	s.Credentials, s.Generations = s.Credentials[:min(len(s.Credentials), maxListed)], s.Generations[:min(len(s.Generations), maxListed)]
	return s
}

// picture adds a tenant and its generations to a snapshot; its mutex is held.
func (t *tenant) addToSnapshot(s *Snapshot) {
	k := Credential{
		Tenant: t.cred.Tenant, Held: t.cred.Held, Condition: t.health.condition, Failures: t.health.failures, LastError: t.health.lastErr,
		Answered: t.health.answered, State: t.budget.State(s.Time), Watches: t.watches, Swept: t.list.sweptAt,
	}
	for _, e := range t.order {
		if t.wanted(e, s.Time) {
			k.Active++
			s.Generations = append(s.Generations, t.snapshotOf(e))
		}
	}
	s.Credentials = append(s.Credentials, k)
}

func (t *tenant) snapshotOf(e *entry) Generation {
	return Generation{
		Tenant: t.cred.Tenant, ID: e.id, Model: cmp.Or(e.state.ModelID, e.modelID), State: e.state.State, Began: e.startTime(), Answered: e.state.ObserveTime,
		NextPoll: latest(t.nextPoll(e), t.budget.Paused()), Watches: len(e.subscribers), Failures: e.polling.failures, LastError: e.polling.lastErr,
		waiting: latest(e.state.ObserveTime, e.firstSeen),
	}
}
