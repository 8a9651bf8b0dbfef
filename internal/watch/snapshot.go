package watch

import (
	"cmp"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// mostShown is how many keys, and how many renders, a snapshot has.
const mostShown = 100

// Snapshot is what the hub has now, for somebody who looks.
type Snapshot struct {
	Time    time.Time
	Stats   Stats
	Keys    []Key    // at most 100, those in trouble first; Stats.Pollers is how many there are
	Renders []Render // at most 100 that are polled, the one that has waited longest for an answer first; Stats.Active is how many there are
}

// Key is a credential that is polled under.
type Key struct {
	Tenant      catalog.Tenant
	Held        bool
	Condition   Condition
	Failures    int    // polls in a row
	LastError   string // "" when healthy
	Answered    time.Time
	Rate, Limit float64   // requests a second, now and as allowed
	Level       float64   // requests that may be made at once; below 0 it is in debt
	Paused      time.Time // no poll before; in the past where there is no pause
	Active      int       // renders that are polled
	Watches     int
	Swept       time.Time // when the last list call began; zero: none did
}

// Render is a generation that is polled.
type Render struct {
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
	s := h.snapshot()
	slices.SortFunc(s.Keys, func(a, b Key) int {
		if a.Condition != b.Condition {
			return int(b.Condition) - int(a.Condition)
		}
		return b.Active - a.Active
	})
	s.Keys = s.Keys[:min(len(s.Keys), mostShown)]
	return s
}

func (h *Hub) snapshot() Snapshot {
	stats, tenants := h.collect()
	now := time.Now()
	s := Snapshot{Time: now, Stats: stats, Keys: make([]Key, 0, len(tenants))}
	for _, t := range tenants {
		t.mu.Lock()
		t.count(&s.Stats, now)
		s.Keys = append(s.Keys, t.picture(&s, now))
		t.mu.Unlock()
	}
	return s
}

// picture tells of a tenant, and adds its generations to the snapshot; its mutex is held.
func (t *tenant) picture(s *Snapshot, now time.Time) Key {
	b := t.budget.State(now)
	k := Key{
		Tenant: t.cred.Tenant, Held: t.cred.Held, Condition: t.health.condition, Failures: t.health.failures, LastError: t.health.lastErr,
		Answered: t.health.answered, Level: b.Level, Rate: b.Rate, Limit: b.Limit, Paused: b.Paused,
		Watches: t.open, Swept: t.list.sweptAt,
	}
	for _, e := range t.order {
		if t.wanted(e, now) {
			k.Active++
			s.add(t, e)
		}
	}
	return k
}

// add puts a generation in its place, if it is among those that are shown.
func (s *Snapshot) add(t *tenant, e *entry) {
	waiting := latest(e.state.ObserveTime, e.began)
	at, _ := slices.BinarySearchFunc(s.Renders, waiting, func(r Render, t time.Time) int { return r.waiting.Compare(t) })
	if at >= mostShown {
		return
	}
	if len(s.Renders) == mostShown {
		s.Renders = s.Renders[:mostShown-1]
	}
	s.Renders = slices.Insert(s.Renders, at, Render{
		Tenant: t.cred.Tenant, ID: e.id, Model: cmp.Or(e.state.ModelID, e.modelID), State: e.state.State, Began: e.birth(), Answered: e.state.ObserveTime,
		NextPoll: latest(t.expected(e), t.budget.Paused()), Watches: len(e.watchers), Failures: e.polling.failures, LastError: e.polling.lastErr,
		waiting: waiting,
	})
}
