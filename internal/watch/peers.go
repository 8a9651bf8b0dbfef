package watch

import (
	"context"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch/schedule"
)

// Peers are other processes that watch with the same credentials. One of them polls for all. The others
// poll only now and then, and to confirm the end of a generation before they deliver it.
type Peers interface {
	// Share shares the polls of one credential until ctx ends. The hub calls it once for each tenant.
	// Until SetRole is called, the process polls for itself.
	Share(ctx context.Context, cred catalog.Credential, p *Peering)
}

// Role is the part of a process in the polls of a credential.
type Role uint8

const (
	// Alone polls for its own watches and knows of no leader.
	Alone Role = iota
	// Leader polls for itself and for the followers.
	Leader
	// Follower gets the states from a leader.
	Follower
)

// Assignment is a role until a time, after which the process is alone. Shares are parts of the configured
// rate of polls.
type Assignment struct {
	Role       Role
	Until      time.Time
	Share      float64       // of this process in its role
	AloneShare float64       // of this process when it is alone
	OwnEvery   time.Duration // between a follower's own polls of one generation
	OwnShare   float64       // of a follower's own polls
}

// Interest is a generation that a follower waits for.
type Interest struct {
	ID      string    // "": everything that the catalog lists
	Etag    string    // of the state that its watchers have; "": none yet
	Settled bool      // a watcher waits until no money can move any more
	Waits   int       // the fewest generations that one of its watchers waits for
	ModelID string    // of an order that the follower placed itself, else ""
	Created time.Time // when it placed the order, else zero
}

// State is a generation's state as one process sends it to the others. A terminal state comes without
// its result, as each process reads the end for itself.
type State struct {
	Generation catalog.Generation
	Etag       string
	Listed     bool // the catalog's list carries it
}

// Status is how the catalog behaves towards one process, and what the process has spent.
type Status struct {
	Condition Condition
	Failures  int
	LastError string
	Answered  time.Time     // last answer of the catalog; zero: none yet
	Pause     time.Duration // rest of a pause that the catalog has asked of this process
	Spent     int           // requests since its last status
}

const (
	roleGrace     = 500 * time.Millisecond // a new tenant waits so long to learn its role
	leaderGrace   = time.Second            // a follower waits so long for the leader's first state
	interestTTL   = 25 * time.Second       // how long an interest holds, on both sides
	ownEvery      = time.Minute            // OwnEvery before there is an Assignment
	restoreLinger = time.Minute            // how long a restored state serves new watches
	restoreMaxAge = 2 * time.Minute        // greatest age of a restored state
)

// peers holds what is known of other processes that poll for a credential. The tenant's mutex guards it.
type peers struct {
	assignment Assignment
	changed    chan struct{} // of capacity 1: there may be new interests or changes
	random     schedule.Source

	requests         int       // since the last status
	leaderListsUntil time.Time // the leader polls the list until then
	ownPollAt        time.Time // the next own poll of something that the leader polls too
	ownPoll          *entry    // its entry; nil: all of them, by a sweep
}

// peerState is an entry's state between peers. Only entries that peers share have one.
type peerState struct {
	interestUntil    [2]time.Time // until when a peer waits for it, by goal
	relayAt          [2]int32     // its place in the relay of that goal
	waits            int          // see Interest
	leaderPollsUntil time.Time    // the leader polls it until then
	ownPolledAt      time.Time    // the last own poll
	unconfirmed      bool         // a peer says that it has ended, and no own poll has confirmed that
	ignoreEndsUntil  time.Time    // an end from a peer is ignored until then, as the last one was wrong
	restored         bool         // its state is from before this process, and may be delivered
}

// peerState gives the peer state of an entry.
func (e *entry) peerState() *peerState {
	if e.peer == nil {
		e.peer = &peerState{relayAt: [2]int32{notQueued, notQueued}}
	}
	return e.peer
}

// unconfirmed reports whether a peer says that the generation has ended, and no own poll has confirmed it.
func (e *entry) unconfirmed() bool { return e.peer != nil && e.peer.unconfirmed }

// isRestored reports whether an entry still has a restored state, which is not too old.
func (e *entry) isRestored(now time.Time) bool {
	return e.peer != nil && e.peer.restored && now.Sub(e.state.ObserveTime) <= restoreMaxAge
}

// newPeers gives the first state. Where polls are shared, the process waits for a leader for a moment.
func newPeers(shared bool, seed uint64, now time.Time) peers {
	p := peers{changed: make(chan struct{}, 1), random: schedule.NewSource(seed, "peers"), ownPollAt: now.Add(ownEvery)}
	p.assignment = Assignment{Role: Alone, AloneShare: 1}
	if shared {
		p.assignment = Assignment{Role: Follower, Until: now.Add(roleGrace), Share: 1, AloneShare: 1, OwnEvery: 2 * ownEvery, OwnShare: 1}
	}
	return p
}

// signal says that there may be new interests or changes.
func (p *peers) signal() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// follows reports whether a leader polls.
func (p *peers) follows(now time.Time) bool {
	return p.assignment.Role == Follower && now.Before(p.assignment.Until)
}

// alone reports whether this process knows of no leader.
func (p *peers) alone(now time.Time) bool {
	return p.assignment.Role == Alone || !now.Before(p.assignment.Until)
}

// rate is this process's share of the configured rate, in requests a second.
func (p *peers) rate(configured float64, now time.Time) float64 {
	if p.alone(now) {
		return configured * p.assignment.AloneShare
	}
	return configured * p.assignment.Share
}

// next is when the role ends or an own poll is due.
func (p *peers) next(now time.Time) time.Time {
	if !p.follows(now) {
		return time.Time{}
	}
	return earliest(p.assignment.Until, p.ownPollAt)
}

// waitForLeader gives a leader time to answer before an entry is polled here.
func (p *peers) waitForLeader(e *entry, now time.Time) {
	if !p.follows(now) {
		return
	}
	if s := e.peerState(); !e.fresh && !now.Before(s.leaderPollsUntil) {
		s.leaderPollsUntil = now.Add(leaderGrace)
	}
	p.signal()
}

// defers reports whether our polls of an entry wait because a leader polls it, and until when.
func (p *peers) defers(e *entry, now time.Time) (until time.Time, ok bool) {
	if !p.leaderPolls(e, now) || p.ownPollDue(e, now) {
		return until, false
	}
	return earliest(e.peer.leaderPollsUntil, p.assignment.Until), true
}

// leaderPolls reports whether a leader polls an entry.
func (p *peers) leaderPolls(e *entry, now time.Time) bool {
	return p.follows(now) && e.peer != nil && !e.peer.unconfirmed && e.listing.hint == nil && now.Before(e.peer.leaderPollsUntil)
}

// defersList is defers for the list.
func (p *peers) defersList(now time.Time) bool {
	return p.follows(now) && now.Before(p.leaderListsUntil) && !p.ownPollDue(nil, now)
}

// ownPollDue reports whether an own poll is due for an entry that a leader polls; nil stands for the list.
func (p *peers) ownPollDue(e *entry, now time.Time) bool {
	return !now.Before(p.ownPollAt) && (p.ownPoll == nil || p.ownPoll == e)
}

// beginOwnPoll notes that an own poll has begun, of one entry among so many or, where e is nil, of the
// list. Single reads share OwnShare of the configured rate.
func (p *peers) beginOwnPoll(e *entry, among int, configured float64, now time.Time) {
	if p.ownPoll != e {
		return
	}
	gap := schedule.Jitter(p.assignment.OwnEvery, p.random.Draw())
	if e != nil {
		least := time.Duration(float64(time.Second) / (p.assignment.OwnShare * configured))
		gap = max(gap/time.Duration(among), least)
	}
	p.ownPollAt, p.ownPoll = now.Add(gap), nil
}
