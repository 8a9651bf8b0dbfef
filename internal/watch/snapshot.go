package watch

import (
	"cmp"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// maxListed is how many credentials, and how many generations, a snapshot has.
const maxListed = 100

// Snapshot is the state of the hub at one moment, for the status page.
type Snapshot struct {
	Time        time.Time
	Stats       Stats
	Credentials []PolledCredential // at most 100 of Stats.Pollers, those in trouble first
	Generations []PolledGeneration // at most 100 of Stats.Active, the one that has waited longest for an answer first
}

// PolledCredential is a credential with a poller.
type PolledCredential struct {
	Tenant      catalog.Tenant
	IsShared    bool // see [catalog.Credential.IsShared]
	Condition   Condition
	Failures    int    // polls in a row
	LastError   string // "" when healthy
	Answered    time.Time
	Rate, Limit float64   // polls a second: by the behaviour of the catalog, and of this replica at most
	Ready       float64   // polls that may be made at once
	Paused      time.Time // no poll before; in the past where there is no pause
	Active      int       // generations that are polled
	Watches     int
	Swept       time.Time // beginning of the last list call; zero: none yet
}

// PolledGeneration is a generation that is polled.
type PolledGeneration struct {
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

func newPolledCredential(t *tenant) PolledCredential {
	beat, state := t.newHeartbeat(t.health.answered), t.limiter().State()
	return PolledCredential{
		Tenant: t.cred.Tenant, IsShared: t.cred.IsShared(), Condition: beat.Condition, Failures: beat.Failures, LastError: beat.LastError,
		Answered: t.health.answered, Rate: state.PollRate, Limit: t.cfg.Rate, Ready: state.Polls, Paused: t.paused(), Watches: t.watches, Swept: t.list.sweptAt,
	}
}

func newPolledGeneration(t *tenant, e *entry, now time.Time) PolledGeneration {
	return PolledGeneration{
		Tenant: t.cred.Tenant, ID: e.id, Model: cmp.Or(e.state.ModelID, e.modelID), State: e.state.State, Began: e.startTime(), Answered: e.state.ObserveTime,
		NextPoll: latest(t.nextPoll(e), t.opens(now)), Watches: len(e.subscribers), Failures: e.polling.failures, LastError: e.polling.lastErr,
		waiting: e.waitingSince(),
	}
}

// add adds a tenant, and its generations where they are to be listed; the tenant's mutex is held.
func (s *Snapshot) add(t *tenant, listed bool) {
	c := newPolledCredential(t)
	for _, e := range t.order {
		if !t.wanted(e, s.Time) {
			continue
		}
		c.Active++
		s.Stats.Stalest = max(s.Stats.Stalest, s.Time.Sub(e.waitingSince()))
		if listed {
			s.Generations = append(s.Generations, newPolledGeneration(t, e, s.Time))
		}
	}
	s.Credentials = append(s.Credentials, c)
	s.Stats.add(&t.stats)
	s.Stats.Generations += len(t.entries)
}

// count counts the credentials.
func (s *Snapshot) count() {
	stats := &s.Stats
	stats.Pollers = len(s.Credentials)
	for i := range s.Credentials {
		c := &s.Credentials[i]
		stats.Active += c.Active
		stats.Watches += c.Watches
		stats.Conditions[c.Condition]++
		if s.Time.Before(c.Paused) {
			stats.Paused++
		}
		stats.Ready, stats.Rate = min(stats.Ready, c.Ready), min(stats.Rate, c.Rate)
	}
}

// shorten keeps what an operator should see first.
func (s *Snapshot) shorten() {
	slices.SortStableFunc(s.Credentials, func(a, b PolledCredential) int {
		return cmp.Or(cmp.Compare(b.Condition, a.Condition), cmp.Compare(b.Active, a.Active))
	})
	slices.SortStableFunc(s.Generations, func(a, b PolledGeneration) int { return a.waiting.Compare(b.waiting) })
	s.Credentials, s.Generations = s.Credentials[:min(len(s.Credentials), maxListed)], s.Generations[:min(len(s.Generations), maxListed)]
}
