// Package watch polls for everybody and delivers to everybody.
//
// It hides who polls what, when, and who is told. Each credential has one poller, and each
// generation of it one entry, however many watch it. An entry holds the newest state; a change
// marks it in the watchers that cover it and makes them ready. Nothing is queued: a ready watcher
// takes the newest state, so a slow one skips what it missed, holds nobody up, and always gets the
// last.
//
//	hub         what others call
//	dispatcher  lets the ready watchers deliver, in turn
//	watcher     what one stream covers, what it was told, what is next
//	poller      runs the plans of one credential
//	planner     decides what to ask next: a pure function
//	list        learns what a sweep is worth
//	tenant      what is known of one credential, under its mutex: the queue of due times, the
//	            health of the catalog, and the peers that poll for it too
//	entry       the newest state of one generation, and which state may follow which
//
// What other replicas may ask of a tenant is [Peering]; package cluster speaks with them. The packages
// below are pure: when to poll (schedule), how long renders took (history), how often (budget).
//
// Each credential has a mutex of its own, and no I/O is done under it.
package watch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// Upstream is what a poller reads. Each call is one request: the poller has a back-off of its own.
type Upstream interface {
	Generation(ctx context.Context, cred catalog.Credential, id string) (catalog.Version, error)
	List(ctx context.Context, cred catalog.Credential) ([]catalog.Version, error)
}

// Goal is what a watch waits for.
type Goal uint8

const (
	// Terminal is reached when the generation has ended.
	Terminal Goal = iota
	// Settled is reached when no money can move any more.
	Settled
)

// Request says what to watch.
type Request struct {
	Credential catalog.Credential
	IDs        []string      // each once; none: every generation that the catalog lists
	Goal       Goal          // of each generation
	KnownEtag  string        // what the watcher has already; for a single id
	Heartbeat  time.Duration // longest silence; 0 = 15 s
	Until      time.Time     // the watch ends with ErrExpired then; zero: never
	Stall      time.Duration // longest time that one delivery may take; 0 = 30 s
}

// Why a hub ends a watch before its goal. What has changed before is delivered first, except to a
// watcher that has stalled.
var (
	ErrDraining = errors.New("the hub ends its watches")
	ErrExpired  = errors.New("the watch has reached its age")
	ErrStalled  = errors.New("the watcher has not taken a message in time")
)

// Event is one message to a watcher: exactly one of Update, Heartbeat and CaughtUp is set.
type Event struct {
	Update    *Update
	Heartbeat *Heartbeat
	CaughtUp  *CaughtUp
	Known     *Update // beside a Heartbeat in place of the first update: what the watcher has
}

// Update is a state that the watcher has not seen. All who are told it share it: it is not
// changed.
type Update struct {
	Generation catalog.Generation
	Etag       string
	Initial    bool  // the state found when the watch began
	Missing    bool  // the catalog has never shown this id; the state is StateDeleted
	Memo       *Memo // of what it is to the watchers of the hub; nil elsewhere
}

// Memo keeps what somebody makes of an update for all who are told the same one. With ten
// thousand watchers there is one encoding of a change, and not ten thousand.
type Memo struct {
	once sync.Once
	made any
}

// Get gives what was made of the update, which f makes for the first who asks. A nil Memo
// keeps nothing.
func (m *Memo) Get(f func() any) any {
	if m == nil {
		return f()
	}
	m.once.Do(func() { m.made = f() })
	return m.made
}

// CaughtUp follows the first state of every generation known at the start.
type CaughtUp struct{ Count int }

// Condition is how the catalog behaves towards a credential.
type Condition uint8

// The conditions.
const (
	ConditionUnknown Condition = iota // nothing was asked yet
	ConditionHealthy
	ConditionThrottled
	ConditionUnreachable
	ConditionCredentialRejected
)

// Heartbeat says why a watch is quiet.
type Heartbeat struct {
	ObserveTime      time.Time // last answer for what is watched; zero: none yet
	NextPoll         time.Time // zero: none is due
	Condition        Condition
	Failures         int    // polls that failed in a row
	LastError        string // "" when healthy
	TypicalRemaining time.Duration
	HasTypical       bool // whether there is history for TypicalRemaining
}

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
	Applied     int64   // states taken from peers
	Restored    int64   // states taken from processes that were here before
	Stale       int64   // states of peers dropped because they would have gone backwards
	Refuted     int64   // ends that a peer told of and the catalog did not
	Conflated   int64   // changes that were replaced by a newer one before a watcher took them
}

// add adds what was counted elsewhere.
func (s *Stats) add(o *Stats) {
	s.Reads += o.Reads
	s.Sweeps += o.Sweeps
	s.Unshared += o.Unshared
	s.Regressions += o.Regressions
	s.Applied += o.Applied
	s.Restored += o.Restored
	s.Stale += o.Stale
	s.Refuted += o.Refuted
	s.Conflated += o.Conflated
}
