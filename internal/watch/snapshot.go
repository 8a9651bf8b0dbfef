package watch

import (
	"cmp"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch/budget"
)

// maxListed is how many credentials, and how many generations, a snapshot has.
const maxListed = 100

// Snapshot is the state of the hub at one moment, for the status page.
type Snapshot struct {
	Time        time.Time
	Stats       Stats
	Credentials []Credential // at most 100 of Stats.Pollers, those in trouble first
	Generations []Generation // at most 100 of Stats.Active, the one that has waited longest for an answer first
}

// Credential is a credential with a poller.
type Credential struct {
	Tenant    catalog.Tenant
	Held      bool
	Condition Condition
	Failures  int    // polls in a row
	LastError string // "" when healthy
	Answered  time.Time
	budget.State
	Active  int // generations that are polled
	Watches int
	Swept   time.Time // beginning of the last list call; zero: none yet
}

// Generation is a generation that is polled.
type Generation struct {
	Tenant    catalog.Tenant
	ID, Model string
	State     catalog.State // 0: not known yet
	Began     time.Time     // the best guess
	Answered  time.Time     // the last answer of the catalog; zero: none yet
	NextPoll  time.Time
	Watches   int
	Failures  int
	LastError string

	waiting time.Time // since when it waits for an answer
}

// Snapshot gives the state of the hub. Like Stats, it visits every watched generation.
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

// addToSnapshot adds a tenant and its generations to a snapshot; its mutex is held.
func (t *tenant) addToSnapshot(s *Snapshot) {
	c := Credential{
		Tenant: t.cred.Tenant, Held: t.cred.Held, Condition: t.health.condition, Failures: t.health.failures, LastError: t.health.lastErr,
		Answered: t.health.answered, State: t.budget.State(s.Time), Watches: t.watches, Swept: t.list.sweptAt,
	}
	for _, e := range t.order {
		if t.wanted(e, s.Time) {
			c.Active++
			s.Generations = append(s.Generations, t.snapshotOf(e))
		}
	}
	s.Credentials = append(s.Credentials, c)
}

func (t *tenant) snapshotOf(e *entry) Generation {
	return Generation{
		Tenant: t.cred.Tenant, ID: e.id, Model: cmp.Or(e.state.ModelID, e.modelID), State: e.state.State, Began: e.startTime(), Answered: e.state.ObserveTime,
		NextPoll: latest(t.nextPoll(e), t.budget.Paused()), Watches: len(e.subscribers), Failures: e.polling.failures, LastError: e.polling.lastErr,
		waiting: latest(e.state.ObserveTime, e.firstSeen),
	}
}
