package watch

import (
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
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	s := Snapshot{Time: now, Stats: h.statsAt(now), Keys: make([]Key, 0, len(h.pollers))}
	for _, p := range h.pollers {
		s.Keys = append(s.Keys, p.picture(&s, now))
	}
	return s
}

// picture tells of a poller, and adds its renders to the snapshot; mu is held.
func (p *poller) picture(s *Snapshot, now time.Time) Key {
	budget := *p.budget // who looks changes nothing
	k := Key{
		Tenant: p.cred.Tenant, Held: p.cred.Held, Condition: p.condition, Failures: p.failures, LastError: p.lastErr,
		Answered: p.answered, Level: budget.level(now), Rate: budget.rate, Limit: budget.limit, Paused: budget.paused,
		Watches: p.open, Swept: p.sweptAt,
	}
	for _, e := range p.order {
		if e.wanted(now, p.hub.cfg.RefundWindow) {
			k.Active++
			s.add(p, e)
		}
	}
	return k
}

// add puts a render in its place, if it is among those that are shown.
func (s *Snapshot) add(p *poller, e *entry) {
	waiting := latest(e.state.ObserveTime, e.began)
	at, _ := slices.BinarySearchFunc(s.Renders, waiting, func(r Render, t time.Time) int { return r.waiting.Compare(t) })
	if at >= mostShown {
		return
	}
	if len(s.Renders) == mostShown {
		s.Renders = s.Renders[:mostShown-1]
	}
	model := e.state.ModelID
	if model == "" {
		model = e.modelID
	}
	s.Renders = slices.Insert(s.Renders, at, Render{
		Tenant: p.cred.Tenant, ID: e.id, Model: model, State: e.state.State, Began: e.birth(), Answered: e.state.ObserveTime,
		NextPoll: latest(p.expected(e), p.budget.paused), Watches: len(e.subs), Failures: e.failures, LastError: e.lastErr,
		waiting: waiting,
	})
}
