// Package watch polls the catalog on behalf of all watches, and delivers state changes to their watchers.
//
// There is one poller for each credential and one latest state for each generation, regardless of the number of watchers. A
// change is first recorded in the ledger. Then the subscribers of the generation are marked as changed, and the change is
// delivered to them. Events are not queued: when a watcher is ready, it reads the latest state. So a slow watcher skips
// intermediate states and does not delay other watchers, but it always gets the last state. A sweep is one request for the
// catalog's list. It replaces individual reads of many generations.
//
// Replicas share only the ledger. Package orders reads the new orders, terminal states and deletions that other replicas have
// recorded, and calls [Hub.Placed] and [Hub.Ended]. Each replica finds all other states with its own polls.
//
//	hub         the API of the package
//	snapshot    the state of the hub, for the status page
//	rate        this replica's share of the poll rate
//	dispatcher  delivers events to the watchers that are ready
//	poller      sends the polls for one credential
//	duepolls    chooses the next polls (a pure function)
//	tenant      applies the responses for one credential, and publishes the changes
//	record      writes new states to the ledger before they are published, and retries after a failure
//	unrecorded  the states of a generation that are not in the ledger yet
//	watcher     the subscriptions of one watch, and its next event
//	agenda      the generations to poll with one credential
//	queue       the generations in the order of their next polls
//	list        whether the catalog's list can replace single reads
//	health      the condition of the catalog
//	generation  the latest state of one generation, and the allowed transitions between states
//
// The subpackages do no I/O. Package schedule computes the times of polls, and package history stores the durations of past
// generations.
//
// Each credential has its own mutex, which is never held during I/O.
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

// Upstream sends the pollers' requests to the catalog. Each call waits for a permit from the limiter and sends one request. It
// does not retry a failed request, because the poller schedules its own retries.
type Upstream interface {
	Generation(ctx context.Context, cred catalog.Credential, id string) (catalog.Version, error)
	List(ctx context.Context, cred catalog.Credential, since time.Time) (*catalog.List, error)
	Account(ctx context.Context, cred catalog.Credential) (catalog.Account, error)
	Limiter(t catalog.Tenant) *limiter.Limiter
}

// Goal is the state of a generation at which its watch ends.
type Goal uint8

const (
	// Terminal ends the watch of a generation when its state is terminal.
	Terminal Goal = iota
	// Settled ends the watch of a generation when its charge is final.
	Settled
)

// Request describes a watch.
type Request struct {
	Credential catalog.Credential
	IDs        []string      // IDs of the generations to watch, without duplicates; empty means every generation that the catalog lists
	Everything bool          // whether to watch every generation that the catalog lists or that is in KnownEtags, in addition to the generations in IDs
	Goal       Goal          // goal for each generation; ignored in a watch of all generations
	Heartbeat  time.Duration // time without an event after which a heartbeat is delivered; zero means 15 s
	Until      time.Time     // time when the watch ends with ErrExpired; zero means never
	Stall      time.Duration // maximum duration of one delivery; zero means 30 s

	KnownEtags map[string]string // etags of the states that the caller already has, keyed by generation ID
	ModelID    string            // model of the watched generations; empty means any model

	// Ordered contains the generations in the fields IDs and KnownEtags that have an order. A single 404 does not prove that
	// such a generation is deleted.
	Ordered map[string]bool
	// Orders limits a watch of all generations to the selected orders. Nil selects every generation that the catalog lists.
	Orders Orders
	// Listed contains the IDs of generations whose orders are selected (see Orders). These generations are watched only if the
	// catalog lists them when the watch starts.
	Listed []string
}

// Orders selects orders in the ledger.
type Orders interface {
	// Covers reports whether an order is selected. It must not block.
	Covers(order ledger.Attribution) bool
}

// Errors with which a hub ends a watch before its goal is reached. Changes before the end are still delivered, except to a
// stalled watcher.
var (
	ErrDraining = errors.New("hub is draining")
	ErrExpired  = errors.New("maximum age of the watch reached")
	ErrStalled  = errors.New("watcher too slow: delivery timed out")
)

// ErrSkipped is returned by the function passed to [Hub.Watch] if it has sent nothing to the caller. The watch then continues,
// and the next heartbeat is not postponed.
var ErrSkipped = errors.New("nothing was sent")

// Event is one message to a watcher: exactly one of Update, Heartbeat and CaughtUp is set.
type Event struct {
	Update    *Update
	Heartbeat *Heartbeat
	CaughtUp  bool    // whether the watch has delivered the initial states of all generations that were known when it started
	Known     *Update // initial state, if the caller already has it and therefore receives a Heartbeat instead of an Update; otherwise nil
}

// Update is a generation's state that a watcher does not have yet. All watchers of the generation share the Update, so it must
// not be modified.
type Update struct {
	catalog.Version
	Initial bool  // whether this is the state at the start of the watch
	Missing bool  // whether the catalog has never returned this ID, in which case the state is StateDeleted
	Memo    *Memo // cache for a value derived from the update; nil if the update does not come from a watch
}

// Memo caches a value derived from an update, such as its encoding. All watchers share the value, so it is computed only once.
type Memo struct {
	once  sync.Once
	value any
}

// Get returns the cached value. The first call computes it with f. A nil Memo caches nothing, so each call computes the value.
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

// MarshalText returns the name that the condition has in metrics.
func (c Condition) MarshalText() ([]byte, error) {
	return []byte([...]string{"unknown", "healthy", "throttled", "unreachable", "credential_rejected"}[c]), nil
}

// Heartbeat is delivered while a watch has no updates. It describes the polls and the condition of the catalog.
type Heartbeat struct {
	ObserveTime      time.Time // time of the last response for the watched generations; zero before the first
	NextPoll         time.Time // time of the next planned poll; zero if no poll is planned
	Condition        Condition
	Failures         int    // number of consecutive failed polls
	LastError        string // error from the last failed poll; empty if Condition is healthy
	Own              bool   // whether LastError is from a poll of the watched generation itself, rather than from a poll of another generation with the same API key
	TypicalRemaining time.Duration
	HasTypical       bool // whether there is enough history for TypicalRemaining
}

// Stats contains counters since the start of the hub, and the hub's current load.
type Stats struct {
	Pollers     int `json:"keys"`    // number of credentials that have a poller
	Generations int `json:"-"`       // number of generations in memory
	Active      int `json:"active"`  // number of generations that are polled for a watch or for an unsettled order of this process
	Watches     int `json:"watches"` // number of open watches, including calls to WaitGeneration

	Conditions [ConditionCredentialRejected + 1]int `json:"-"`        // number of pollers, indexed by [Condition]
	Paused     int                                  `json:"-"`        // number of pollers whose polls are paused
	Replicas   int                                  `json:"replicas"` // number of replicas that share the poll rate
	Ready      float64                              `json:"-"`        // smallest number of polls that any poller may start now; may be fractional
	Rate       float64                              `json:"-"`        // lowest poll rate of any poller, in polls per second
	Stalest    time.Duration                        `json:"stalest"`  // maximum, over all active generations, of the time since the last response

	Reads       int64 `json:"reads"`     // number of individual reads of generations
	Sweeps      int64 `json:"sweeps"`    // number of list requests, each of which polls many generations
	Regressions int64 `json:"regressed"` // number of records that were ignored because their states can't follow the current states
	Conflated   int64 `json:"conflated"` // number of changes that were replaced by newer ones before they were delivered
}

// addCounters adds the counters of o to those of s.
func (s *Stats) addCounters(o *Stats) {
	s.Reads += o.Reads
	s.Sweeps += o.Sweeps
	s.Regressions += o.Regressions
	s.Conflated += o.Conflated
}
