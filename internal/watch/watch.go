// Package watch polls the catalog for all watches and delivers the changes to them.
//
// Each credential has one poller, and each generation has one latest state, whatever the number of its watchers. A change is
// recorded in the ledger, marked in the subscribers of the generation, and then delivered. Events are not queued: a ready
// watcher reads the latest state. So a slow watcher skips states, does not delay other watchers, and always gets the last
// state. A sweep is a poll of the catalog's list, which replaces the reads of many generations.
//
//	hub         the API of the package; snapshot is its state for the status page
//	rate        this replica's share of the poll rate
//	dispatcher  runs the deliveries of ready watchers, one at a time
//	poller      polls for one credential
//	planner     decides the next requests: a pure function
//	tenant      applies the responses for one credential, and publishes the changes
//	unrecorded  the states of a generation that are not in the ledger yet
//	record      writes new states into the ledger before they are published, and again after a failure
//	watcher     the subscriptions of one stream, and its next event
//	agenda      the generations to poll with one credential and their due times, the usefulness of the list, and the health
//	            of the catalog
//	generation  the latest state of one generation, and the transitions between states
//
// Its subpackages do no I/O: schedule computes the times of polls, and history stores the durations of generations.
//
// Each credential has its own mutex. No I/O is done while it is held.
package watch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/limiter"
)

// Upstream sends the requests of pollers to the catalog. Each call waits for a permit of the limiter and sends one request.
// Calls are not retried, because the poller has its own back-off.
type Upstream interface {
	Generation(ctx context.Context, cred catalog.Credential, id string) (catalog.Version, error)
	List(ctx context.Context, cred catalog.Credential, since time.Time) (*catalog.List, error)
	Account(ctx context.Context, cred catalog.Credential) (catalog.Account, error)
	Limiter(t catalog.Tenant) *limiter.Limiter
}

// Goal is the state of a generation at which its watch ends.
type Goal uint8

const (
	// Terminal is reached when the generation is in a terminal state.
	Terminal Goal = iota
	// Settled is reached when the charge is final.
	Settled
)

// Request describes a watch.
type Request struct {
	Credential catalog.Credential
	IDs        []string      // without duplicates; empty means every generation that the catalog lists
	Everything bool          // whether to also watch every generation that the catalog lists or that is in KnownEtags
	Goal       Goal          // goal for each generation
	Heartbeat  time.Duration // maximum time without an event; zero means 15 s
	Until      time.Time     // time when the watch ends with ErrExpired; zero means never
	Stall      time.Duration // maximum duration of one delivery; zero means 30 s

	KnownEtags map[string]string // etags by generation ID of the states that the caller already has
	ModelID    string            // model of the watched generations; empty means any model

	// Ordered is the subset of IDs and KnownEtags for which an order exists. One read that does not find such a generation does
	// not prove that it is deleted.
	Ordered map[string]bool
	// Orders limits a watch of everything to the orders that it selects. Nil means everything that the catalog lists.
	Orders Orders
	// Listed contains generations whose orders Orders selects. They are watched if the catalog lists them when the watch
	// starts.
	Listed []string
}

// Orders selects orders in the ledger.
type Orders interface {
	// Covers reports whether an order is selected. It must not block.
	Covers(order ledger.Attribution) bool
}

// Reasons why a hub ends a watch before its goal is reached. Earlier changes are delivered first, except to a stalled watcher.
var (
	ErrDraining = errors.New("hub is draining")
	ErrExpired  = errors.New("maximum age of the watch reached")
	ErrStalled  = errors.New("watcher too slow: delivery timed out")
)

// ErrSkipped is the error that deliver returns if it has sent nothing. The watch continues, and the next heartbeat is not
// postponed.
var ErrSkipped = errors.New("nothing was sent")

// Event is one message to a watcher: exactly one of Update, Heartbeat and CaughtUp is set.
type Event struct {
	Update    *Update
	Heartbeat *Heartbeat
	CaughtUp  bool    // the initial states of all generations known at the start have been delivered
	Known     *Update // state that the caller already has, if a Heartbeat replaces the initial update; otherwise nil
}

// Update is a state that is new to the watcher. All watchers share one Update, so it must not be modified.
type Update struct {
	catalog.Version
	Initial bool  // the state at the start of the watch
	Missing bool  // the catalog has never returned this ID; the state is StateDeleted
	Memo    *Memo // cache for a value that is derived from the update; nil outside a watch
}

// Memo caches a value derived from an update for all watchers. So a change is encoded only once.
type Memo struct {
	once  sync.Once
	value any
}

// Get returns the value. The first call computes it with f. A nil Memo caches nothing.
func (m *Memo) Get(f func() any) any {
	if m == nil {
		return f()
	}
	m.once.Do(func() { m.value = f() })
	return m.value
}

// Condition is the condition of the catalog, derived from its responses to polls with one credential.
type Condition uint8

// The conditions.
const (
	ConditionUnknown Condition = iota // the catalog has not responded yet
	ConditionHealthy
	ConditionThrottled
	ConditionUnreachable
	ConditionCredentialRejected
)

// MarshalText returns the name of a condition, as in metrics.
func (c Condition) MarshalText() ([]byte, error) {
	return []byte([...]string{"unknown", "healthy", "throttled", "unreachable", "credential_rejected"}[c]), nil
}

// Heartbeat explains why a watch has no updates.
type Heartbeat struct {
	ObserveTime      time.Time // time of the last response for the watched generations; zero before the first
	NextPoll         time.Time // zero if no poll is planned
	Condition        Condition
	Failures         int    // number of consecutive failed polls
	LastError        string // empty when healthy
	Own              bool   // LastError is from a poll of the only watched generation, not of another generation under the API key
	TypicalRemaining time.Duration
	HasTypical       bool // whether the history suffices for TypicalRemaining
}

// Stats contains the totals of the hub since its start, and its current load.
type Stats struct {
	Pollers     int `json:"keys"`    // number of credentials with current or recent watches
	Generations int `json:"-"`       // number of generations with current or recent watches
	Active      int `json:"active"`  // number of generations that a watch or an unsettled order of this process waits for
	Watches     int `json:"watches"` // number of open watches, including calls to WaitGeneration

	Conditions [ConditionCredentialRejected + 1]int `json:"-"`        // number of pollers by the condition of the catalog
	Paused     int                                  `json:"-"`        // number of pollers that pause after a 429 or an outage
	Replicas   int                                  `json:"replicas"` // number of replicas that divide the poll rate
	Ready      float64                              `json:"-"`        // lowest number of polls that a poller may send immediately
	Rate       float64                              `json:"-"`        // lowest rate of a poller, in polls per second
	Stalest    time.Duration                        `json:"stalest"`  // longest time that an active generation has waited for a response

	Reads       int64 `json:"reads"`     // number of polls of one generation
	Sweeps      int64 `json:"sweeps"`    // number of polls of the list
	Regressions int64 `json:"regressed"` // number of responses dropped because their states may not follow the current ones
	Conflated   int64 `json:"conflated"` // number of changes replaced by newer ones before delivery
}

// add adds the counters of o.
func (s *Stats) add(o *Stats) {
	s.Reads += o.Reads
	s.Sweeps += o.Sweeps
	s.Regressions += o.Regressions
	s.Conflated += o.Conflated
}
