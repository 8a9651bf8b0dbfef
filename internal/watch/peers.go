package watch

import (
	"context"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// Peers are other processes that watch with the same credentials. One of them polls for all,
// and the others look for themselves only now and then, and before they tell an end.
type Peers interface {
	// Share plays a part for one credential until ctx ends. It is called once for each
	// poller. As long as the part is told nothing, it acts as if it were alone.
	Share(ctx context.Context, cred catalog.Credential, part *Part)
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

// String writes the role as it stands in logs.
func (r Role) String() string { return [...]string{"alone", "leader", "follower"}[r] }

// Ask says what a follower wants to be told of.
type Ask struct {
	ID      string    // "": everything that the catalog lists
	Etag    string    // of what it tells its watches; "": nothing yet
	Settled bool      // it follows the money, not only the render
	Waits   int       // how many renders the watch waits for that waits for the fewest
	ModelID string    // of an order that the follower placed itself, else ""
	Created time.Time // when it placed the order, else zero
}

// Word is what one process says of a generation to the others. Of an end it only says that
// it has come, as each of them reads that for itself.
type Word struct {
	Generation catalog.Generation
	Etag       string
	Listed     bool // the catalog's list carries it
}

// Crowd is how many processes share a credential, this one among them.
type Crowd struct {
	Live int // heard of a moment ago
	Lost int // that fell silent without a farewell: they may poll alone, where nobody hears them
}

// Beat is how a process fares with a credential.
type Beat struct {
	Condition Condition
	Failures  int
	LastError string
	Answered  time.Time     // last answer of the catalog; zero: none yet
	Pause     time.Duration // for which the catalog has asked this process, still to come
	Spent     int           // requests that it has made since its last beat
}

const (
	hold      = 500 * time.Millisecond // a new part waits so long to learn its role
	grace     = time.Second            // a follower waits so long for the leader's first word
	coverage  = 25 * time.Second       // how long an ask that was heard stands, for both sides
	ownLook   = time.Minute            // between a follower's own looks at one thing, times how many share the credential
	ownShare  = 1.0 / 20               // of the rate that all followers' own looks together may take
	remembers = time.Minute            // how long what was recalled serves new watches
	oldest    = 2 * time.Minute        // age of what is recalled, at most
)

// sharing is what peers have to do with one entry. It is made when they have.
type sharing struct {
	until [2]time.Time // the peers' interest, by goal
	at    [2]int32     // its place in the relay of that goal; -1: none
	waits int          // see Ask

	covered  time.Time // the leader looks at it until then
	looked   time.Time // the last look of our own
	worded   bool      // a peer says that it has ended: a look of our own is to show that
	deaf     time.Time // such words are not heard before: the last one was wrong
	recalled bool      // its state is from before this process, and may be told
}

// peers gives an entry's sharing.
func (e *entry) peers() *sharing {
	if e.sharing == nil {
		e.sharing = &sharing{at: [2]int32{-1, -1}}
	}
	return e.sharing
}
