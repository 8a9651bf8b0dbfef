package watch

import (
	"context"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch/schedule"
)

// Peers are other processes that watch with the same credentials. One of them polls for all,
// and the others poll by themselves only now and then, and before they tell of an end.
type Peers interface {
	// Share shares the polls of one credential until ctx ends. It is called once for each tenant.
	// As long as the peering is told nothing, it acts as if it were alone.
	Share(ctx context.Context, cred catalog.Credential, p *Peering)
}

// Role is what a process does for a credential.
type Role uint8

const (
	// Alone polls for its own watches, and knows of nobody who would do so.
	Alone Role = iota
	// Leader polls for itself and for those who follow.
	Leader
	// Follower is told by a leader.
	Follower
)

// Assignment is a role until a time, after which the process is alone. Shares are of the configured
// rate of polls.
type Assignment struct {
	Role       Role
	Until      time.Time
	Share      float64       // that this process may use in its role
	AloneShare float64       // and when it is alone
	OwnEvery   time.Duration // between a follower's own polls of one thing
	OwnShare   float64       // that a follower's own polls may take
}

// Interest says what a follower waits for.
type Interest struct {
	ID      string    // "": everything that the catalog lists
	Etag    string    // of what it tells its watchers; "": nothing yet
	Settled bool      // it follows the money, not only the generation
	Waits   int       // how many generations the watcher waits for that waits for the fewest
	ModelID string    // of an order that the follower placed itself, else ""
	Created time.Time // when it placed the order, else zero
}

// State is what one process says of a generation to the others. Of an end it only says that
// it has come, as each of them reads that for itself.
type State struct {
	Generation catalog.Generation
	Etag       string
	Listed     bool // the catalog's list carries it
}

// Status is how a process fares with a credential.
type Status struct {
	Condition Condition
	Failures  int
	LastError string
	Answered  time.Time     // last answer of the catalog; zero: none yet
	Pause     time.Duration // for which the catalog has asked this process, still to come
	Spent     int           // requests that it has made since its last status
}

const (
	roleGrace     = 500 * time.Millisecond // a new tenant waits so long to learn its role
	leaderGrace   = time.Second            // a follower waits so long for the leader's first word
	interestTTL   = 25 * time.Second       // how long an interest that was heard stands, for both sides
	ownEvery      = time.Minute            // see Assignment, before there is one
	restoreLinger = time.Minute            // how long what was restored serves new watches
	restoreMaxAge = 2 * time.Minute        // age of what is restored, at most
)

// peers is what is known of other processes that poll for a credential. The tenant's mutex guards it.
type peers struct {
	assignment Assignment
	changed    chan struct{} // of capacity 1: there may be something new to ask or to say
	random     schedule.Source

	requests         int       // since the last status
	leaderListsUntil time.Time // the leader polls the list until then
	ownPollAt        time.Time // the next poll of our own of what is covered
	ownPoll          *entry    // of which; nil: of all of it, by a sweep
}

// peered is what peers have to do with one entry. It is made when they have.
type peerState struct {
	interestUntil    [2]time.Time // the peers' interest, by goal
	relayAt          [2]int32     // its place in the relay of that goal
	waits            int          // see Interest
	leaderPollsUntil time.Time    // the leader polls it until then
	ownPolledAt      time.Time    // the last poll of our own
	unconfirmed      bool         // a peer says that it has ended: a poll of our own is to show that
	ignoreEndsUntil  time.Time    // that is not heard before: the last time it was wrong
	restored         bool         // its state is from before this process, and may be told
}

// peering gives what peers have to do with an entry.
func (e *entry) peerState() *peerState {
	if e.peer == nil {
		e.peer = &peerState{relayAt: [2]int32{notQueued, notQueued}}
	}
	return e.peer
}

// unconfirmed reports whether a peer has told of an end that nobody here has seen.
func (e *entry) unconfirmed() bool { return e.peer != nil && e.peer.unconfirmed }

// isRestored reports whether an entry still stands as it was restored, not long ago.
func (e *entry) isRestored(now time.Time) bool {
	return e.peer != nil && e.peer.restored && now.Sub(e.state.ObserveTime) <= restoreMaxAge
}

// newPeers is what is known at first: nothing, and where polls are shared there may be a leader.
func newPeers(shared bool, seed uint64, now time.Time) peers {
	p := peers{changed: make(chan struct{}, 1), random: schedule.NewSource(seed, "peers"), ownPollAt: now.Add(ownEvery)}
	p.assignment = Assignment{Role: Alone, AloneShare: 1}
	if shared {
		p.assignment = Assignment{Role: Follower, Until: now.Add(roleGrace), Share: 1, AloneShare: 1, OwnEvery: 2 * ownEvery, OwnShare: 1}
	}
	return p
}

func (p *peers) signal() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// follows reports whether somebody else polls.
func (p *peers) follows(now time.Time) bool {
	return p.assignment.Role == Follower && now.Before(p.assignment.Until)
}

// alone reports whether this process knows of no peer that leads.
func (p *peers) alone(now time.Time) bool {
	return p.assignment.Role == Alone || !now.Before(p.assignment.Until)
}

// rate is how many requests a second this process may make, of those that are configured.
func (p *peers) rate(configured float64, now time.Time) float64 {
	if p.alone(now) {
		return configured * p.assignment.AloneShare
	}
	return configured * p.assignment.Share
}

// next is when the role ends or a poll of our own is due.
func (p *peers) next(now time.Time) time.Time {
	if !p.follows(now) {
		return time.Time{}
	}
	return earliest(p.assignment.Until, p.ownPollAt)
}

// wait gives a leader time to answer before an entry is polled here.
func (p *peers) waitForLeader(e *entry, now time.Time) {
	if !p.follows(now) {
		return
	}
	if s := e.peerState(); !e.fresh && !now.Before(s.leaderPollsUntil) {
		s.leaderPollsUntil = now.Add(leaderGrace)
	}
	p.signal()
}

// spares reports whether a leader's polls stand for those of our own, and until when.
func (p *peers) defers(e *entry, now time.Time) (until time.Time, ok bool) {
	if !p.leaderPolls(e, now) || p.ownPollDue(e, now) {
		return until, false
	}
	return earliest(e.peer.leaderPollsUntil, p.assignment.Until), true
}

// covers reports whether a leader polls an entry.
func (p *peers) leaderPolls(e *entry, now time.Time) bool {
	return p.follows(now) && e.peer != nil && !e.peer.unconfirmed && e.listing.hint == nil && now.Before(e.peer.leaderPollsUntil)
}

// sparesList is spares for the list.
func (p *peers) defersList(now time.Time) bool {
	return p.follows(now) && now.Before(p.leaderListsUntil) && !p.ownPollDue(nil, now)
}

// picked reports whether a poll of our own is due for an entry that is covered, or for the list where
// that is nil.
func (p *peers) ownPollDue(e *entry, now time.Time) bool {
	return !now.Before(p.ownPollAt) && (p.ownPoll == nil || p.ownPoll == e)
}

// polls notes that a poll of our own has begun, of one entry among so many or, where that is nil, of the
// list. Where each is read by itself they share what such polls may take of the configured rate.
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
