// Package watch polls for everybody and delivers to everybody.
//
// It hides the schedule of polls and the way of changes to the watchers. Each credential has one poller,
// and each generation of it one entry, however many watch it. An entry holds the newest state; a change
// marks it in its subscribers and makes them ready. Events are not queued: a ready watcher takes the newest
// state. So a slow watcher skips states, holds nobody up, and always gets the last one.
//
//	hub         the API of the package; snapshot is what an operator sees of it
//	dispatcher  lets the ready watchers deliver, in turn
//	poller      polls for one credential
//	planner     decides the next requests: a pure function
//	tenant      applies the responses for one credential, and publishes the changes
//	watcher     the subscriptions of one stream, and its next event; account is for streams about no generation
//	agenda      what is polled under one credential, and when: the queue of due times, how useful the list is, the health
//	            of the catalog
//	entry       the newest state of one generation, and which state may follow which
//	presence    divides the rate of polls among the replicas
//
// The packages below are pure: when to poll (schedule), how long generations took (history).
//
// Each credential has a mutex of its own, and no I/O is done under it.
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

// Upstream is the catalog of a poller. Each call waits for a permit of the limiter and sends one request, which is not retried,
// because the poller has its own back-off.
type Upstream interface {
	Generation(ctx context.Context, cred catalog.Credential, id string) (catalog.Version, error)
	List(ctx context.Context, cred catalog.Credential, since time.Time) (*catalog.List, error)
	Account(ctx context.Context, cred catalog.Credential) (catalog.Account, error)
	Limiter(t catalog.Tenant) *limiter.Limiter
}

// Goal is the end that a watch waits for.
type Goal uint8

const (
	// Terminal is reached when the generation has ended.
	Terminal Goal = iota
	// Settled is reached when no money can move any more.
	Settled
)

// Request asks for a watch.
type Request struct {
	Credential catalog.Credential
	IDs        []string      // each once; none: every generation that the catalog lists
	Everything bool          // beside IDs every generation that the catalog lists, and those of KnownEtags
	Goal       Goal          // of each generation
	Heartbeat  time.Duration // longest silence; 0 = 15 s
	Until      time.Time     // the watch ends with ErrExpired then; zero: never
	Stall      time.Duration // longest time that one delivery may take; 0 = 30 s

	KnownEtags map[string]string // by id, of the states that the caller has already
	ModelID    string            // of the generations that are wanted; "": of any model

	// Ordered are those of the IDs and of the KnownEtags of which there is an order: one read that does not find one of
	// them says nothing.
	Ordered map[string]bool
	// Orders selects the orders that a watch of everything covers instead of all that the catalog lists. Nil selects none.
	Orders Orders
	// Listed are generations of such orders. They are covered if the catalog lists them when the watch begins.
	Listed []string
}

// Orders selects orders of the ledger.
type Orders interface {
	// Covers reports whether an order is selected. It must not wait.
	Covers(order ledger.Attribution) bool
}

// Reasons why a hub ends a watch before its goal. Changes from before are delivered first, except to a
// watcher that has stalled.
var (
	ErrDraining = errors.New("the hub ends its watches")
	ErrExpired  = errors.New("the watch has reached its age")
	ErrStalled  = errors.New("the watcher has not taken a message in time")
)

// ErrSkipped is what deliver returns where it has sent nothing. The watch goes on, and its next heartbeat does
// not wait for longer.
var ErrSkipped = errors.New("nothing was sent")

// Event is one message to a watcher: exactly one of Update, Heartbeat and CaughtUp is set.
type Event struct {
	Update    *Update
	Heartbeat *Heartbeat
	CaughtUp  bool    // the initial state of every generation that was known when the watch began has come before
	Known     *Update // beside a Heartbeat in place of an initial update: the state that the caller has
}

// Update is a state that is new to the watcher. All watchers share one Update, so nobody may change it.
type Update struct {
	catalog.Version
	Initial bool  // the state found when the watch began
	Missing bool  // the catalog has never shown this id; the state is StateDeleted
	Memo    *Memo // for a value that all watchers share; nil outside a watch
}

// Memo keeps a value that is made of an update, for all watchers that get the update. So a change is
// encoded once, however many watch.
type Memo struct {
	once  sync.Once
	value any
}

// Get gives the value. The first call makes it by f. A nil Memo keeps nothing.
func (m *Memo) Get(f func() any) any {
	if m == nil {
		return f()
	}
	m.once.Do(func() { m.value = f() })
	return m.value
}

// Condition is how the catalog behaves towards a credential.
type Condition uint8

// The conditions.
const (
	ConditionUnknown Condition = iota // the catalog has not answered yet
	ConditionHealthy
	ConditionThrottled
	ConditionUnreachable
	ConditionCredentialRejected
)

// Heartbeat says why a watch is quiet.
type Heartbeat struct {
	ObserveTime      time.Time // last answer for the watched generations; zero: none yet
	NextPoll         time.Time // zero: none is due
	Condition        Condition
	Failures         int    // failed polls in a row
	LastError        string // "" when healthy
	Own              bool   // LastError is of the one watched generation, and not of another under the same API key
	TypicalRemaining time.Duration
	HasTypical       bool // whether there is history for TypicalRemaining
}

// Stats counts the work of the hub since its start, and its present load.
type Stats struct {
	Pollers     int // credentials that somebody watches with, or did a moment ago
	Generations int // watched, or a moment ago
	Active      int // generations that are polled: watched, and not at their goal
	Watches     int // open ones, waits included

	Conditions [ConditionCredentialRejected + 1]int // pollers by the condition of the catalog
	Paused     int                                  // pollers that wait after a 429 or an outage
	Replicas   int                                  // replicas that divide the rate of polls
	Ready      float64                              // polls that the poller with the fewest may make at once
	Rate       float64                              // the lowest rate of a poller, in polls a second
	Stalest    time.Duration                        // the longest time that an active generation has waited for an answer

	Reads       int64   // polls of one generation
	Sweeps      int64   // polls of the list
	Unshared    float64 // requests that one poller for each watch would have made by the same schedule
	Regressions int64   // answers dropped because they would have gone backwards
	Conflated   int64   // changes replaced by a newer one before their delivery
}

// add adds the counters of o.
func (s *Stats) add(o *Stats) {
	s.Reads += o.Reads
	s.Sweeps += o.Sweeps
	s.Unshared += o.Unshared
	s.Regressions += o.Regressions
	s.Conflated += o.Conflated
}
