package watch

import (
	"cmp"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// maxListed is the maximum length of each of the two lists in a snapshot, credentials and generations.
const maxListed = 100

// Snapshot is the state of the hub at a point in time. The status page shows it.
type Snapshot struct {
	Time        time.Time
	Stats       Stats
	Credentials []PolledCredential // at most 100 of the credentials that Stats.Pollers counts; those in the worst condition come first
	Generations []PolledGeneration // at most 100 of the generations that Stats.Active counts, starting with those that have waited longest for a response
}

// PolledCredential describes a credential that has a poller. As JSON, it is part of a server's status.
type PolledCredential struct {
	Tenant    catalog.Tenant `json:"key"`
	IsShared  bool           `json:"shared"` // whether the API key is the server's shared API key
	Condition Condition      `json:"condition"`
	Failures  int            `json:"failures"`  // number of consecutive failed polls
	LastError string         `json:"lastError"` // error from the last failed poll; empty if Condition is healthy
	Answered  time.Time      `json:"answered,omitzero"`
	Rate      float64        `json:"rate"`                // current rate of the limiter, in polls per second
	Limit     float64        `json:"limit"`               // configured maximum rate over all replicas, in polls per second
	Ready     float64        `json:"ready"`               // number of polls that may start now without exceeding the rate; may be fractional
	Paused    time.Time      `json:"pausedTill,omitzero"` // end of the latest pause of polling, which may be in the past
	Active    int            `json:"active"`              // number of polled generations
	Watches   int            `json:"watches"`
	Swept     time.Time      `json:"swept,omitzero"` // time when the last list request was sent; zero before the first
}

// PolledGeneration describes a generation that is polled. As JSON, it is part of a server's status.
type PolledGeneration struct {
	Tenant    catalog.Tenant `json:"key"`
	ID        string         `json:"id"`
	Model     string         `json:"model"`
	State     string         `json:"state,omitempty"`   // empty if no state is known yet
	Began     time.Time      `json:"began"`             // best estimate of the time when the generation was ordered
	Answered  time.Time      `json:"answered,omitzero"` // time of the last response for the generation; zero before the first
	NextPoll  time.Time      `json:"nextPoll"`
	Watches   int            `json:"watches"`
	Failures  int            `json:"failures"`
	LastError string         `json:"lastError"`

	waiting time.Time // time of the last response for the generation; before the first response, the time when the generation was first seen
}

func newPolledCredential(t *tenant) PolledCredential {
	beat, state := t.newHeartbeat(t.health.answered), t.limiter().State()
	return PolledCredential{
		Tenant: t.cred.Tenant, IsShared: t.cred.IsShared(), Condition: beat.Condition, Failures: beat.Failures, LastError: beat.LastError,
		Answered: t.health.answered, Rate: state.PollRate, Limit: t.cfg.Rate, Ready: state.Polls, Paused: t.pauseEnd(), Watches: t.watches, Swept: t.list.sweptAt,
	}
}

func newPolledGeneration(t *tenant, e *generation, now time.Time) PolledGeneration {
	state := ""
	if e.state.State != 0 {
		state = e.state.State.String()
	}
	return PolledGeneration{
		Tenant: t.cred.Tenant, ID: e.id, Model: cmp.Or(e.state.ModelID, e.modelID), State: state, Began: e.startTime(), Answered: e.state.ObserveTime,
		NextPoll: latest(t.nextPoll(e), t.nextStart(now)), Watches: len(e.subscribers), Failures: e.polling.failures, LastError: e.polling.lastErr,
		waiting: e.waitingSince(),
	}
}

// addTenant adds a tenant to the snapshot. If withLists is true, it also adds the tenant's generations. The caller must hold
// the tenant's mutex.
func (s *Snapshot) addTenant(t *tenant, withLists bool) {
	c := newPolledCredential(t)
	for _, e := range t.order {
		if !t.mustPoll(e, s.Time) {
			continue
		}
		c.Active++
		s.Stats.Stalest = max(s.Stats.Stalest, s.Time.Sub(e.waitingSince()))
		if withLists {
			s.Generations = append(s.Generations, newPolledGeneration(t, e, s.Time))
		}
	}
	s.Credentials = append(s.Credentials, c)
	s.Stats.addCounters(&t.stats)
	s.Stats.Generations += len(t.generations)
}

// countTotals computes the totals in s.Stats over all credentials. It sets the fields Ready and Rate to the minimum over all
// credentials.
func (s *Snapshot) countTotals() {
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

// shortenLists sorts the credentials and the generations, so that those that matter most to operators come first, and
// truncates each of the two lists to maxListed entries.
func (s *Snapshot) shortenLists() {
	slices.SortStableFunc(s.Credentials, func(a, b PolledCredential) int {
		return cmp.Or(cmp.Compare(b.Condition, a.Condition), cmp.Compare(b.Active, a.Active))
	})
	slices.SortStableFunc(s.Generations, func(a, b PolledGeneration) int { return a.waiting.Compare(b.waiting) })
	s.Credentials, s.Generations = s.Credentials[:min(len(s.Credentials), maxListed)], s.Generations[:min(len(s.Generations), maxListed)]
}
