// Package promises records the observations of Easel's callers. It compares them with the catalog's accounts and with
// the ledger.
//
// Two drivers use it. Package simulation runs the complete stack in virtual time, and package torture runs real
// processes and kills them. Each driver has its own load and faults. A check that only one driver can make, such as a
// check of poll times, is in that driver's package.
//
//	record  the events that callers observe
//	run     all data about a run: the catalog's accounts, the ledger's orders and budgets, and the delivered events
//	orders  promises about charges and outcomes
//	money   promises about the ledger
//	watch   promises about states, results and isolation
//	events  promises about the events that teams receive
//	rest    a client of the REST API
//
// Only tests import this package.
package promises

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// Kinds of events.
const (
	Opened     = "open"   // a stream was requested
	Updated    = "update" // a stream delivered a state
	Heartbeat  = "beat"
	CaughtUp   = "caughtup"
	Closing    = "closing" // the server announced the end of a stream
	EndedOK    = "ok"      // a stream ended with OK
	Failed     = "error"   // a call or stream ended with an error
	Silent     = "silence" // a caller abandoned a stream that was silent for too long
	Read       = "get"     // a unary call returned a state
	Listed     = "listed"  // a list, or a watch of all generations, contained a generation
	Ordered    = "order"   // an order was sent
	Placed     = "placed"  // the response to an order contained a generation
	Rejected   = "refused" // an order was rejected, and the outcomes in its errors show that no attempt placed it
	GaveUp     = "gaveup"  // a caller stopped repeating an order that may have been placed
	Downloaded = "file"    // a result was downloaded
	Deleted    = "deleted" // the caller deleted the generation
	Done       = "done"    // the caller has received the state that it was waiting for
	Fault      = "fault"   // a fault began or ended
	Leaked     = "leak"    // a response contained data that must be hidden from its caller
	Exceeded   = "over"    // the server exceeded a call's limit, or applied the limit of another call; Event.Text describes the violation
)

// Order outcomes in errors. Any other outcome is treated as unknown.
const (
	NotPlacedByThisCall = "not_placed_by_this_call"
	NotPlaced           = "not_placed"
)

// Event is one entry of a Record: an observation by a caller, or the start or end of a fault.
type Event struct {
	At    time.Duration // time since the recording started
	Actor string        // "OWNER.NAME"
	Seq   int
	Kind  string

	Stream     int    // sequence number of the stream among the actor's streams; zero if there is no stream
	Generation string // ID of the generation; for Rejected and GaveUp, the reason of the error
	Process    string // name of the process that responded
	Text       string // depends on Kind: code and reason of an error, idempotency key of an order, digest of a result, or a description

	Order   string        // idempotency key of an order that failed with an error
	Outcome string        // order_outcome that the server sent with an error
	Since   time.Duration // time from the start of the record to the sending of the order
	Lasts   time.Duration // time from sending an order to its deadline

	State     easelv1.State
	Etag      string
	Initial   bool
	Observed  time.Duration // time from the start of the record to the catalog's response
	Goal      easelv1.WatchUntil
	Heartbeat time.Duration // requested heartbeat interval

	Named []string         // generation IDs in the request that opened a stream
	Known map[string]Known // states that the caller sent as already known in its request for the stream, keyed by generation ID
	Model string           // for an opened stream, the model in its filter; for an update, the generation's model
}

// Known is a state of a generation that the caller already has.
type Known struct {
	Etag  string
	State easelv1.State
}

func (e Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%14s %-12s %-8s", e.At.Round(time.Microsecond), e.Actor, e.Kind)
	for _, part := range []struct{ name, value string }{
		{"gen", e.Generation}, {"from", e.Process}, {"etag", e.Etag}, {"", e.Text}, {"order", e.Order}, {"outcome", e.Outcome},
	} {
		if part.value != "" {
			b.WriteString(" " + strings.TrimPrefix(part.name+"="+part.value, "="))
		}
	}
	if e.State != 0 {
		fmt.Fprintf(&b, " %s observed=%s", strings.TrimPrefix(e.State.String(), "STATE_"), e.Observed.Round(time.Microsecond))
	}
	if e.Initial {
		b.WriteString(" initial")
	}
	if e.Stream != 0 {
		fmt.Fprintf(&b, " stream=%d", e.Stream)
	}
	return b.String()
}

// Owner returns the owner of the actor's orders.
func (e Event) Owner() string {
	name, _, _ := strings.Cut(e.Actor, ".")
	return name
}

// Record collects the events of all actors.
type Record struct {
	Begin time.Time

	mu     sync.Mutex
	events []Event
}

// Since returns the time since the start of the record.
func (r *Record) Since() time.Duration { return time.Since(r.Begin) }

// Add appends an event to the record, with the current time as its time.
func (r *Record) Add(e Event) {
	e.At = r.Since()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// Sorted returns the events, sorted by time, then by actor, then by Seq, so that the order is deterministic.
func (r *Record) Sorted() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := slices.Clone(r.events)
	slices.SortFunc(list, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Actor, b.Actor), cmp.Compare(a.Seq, b.Seq))
	})
	return list
}

// Digest returns a hash of the events, in hexadecimal.
func Digest(events []Event) string {
	sum := sha256.New()
	for _, e := range events {
		_, _ = fmt.Fprintf(sum, "%d %+v\n", e.Seq, e)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:12])
}
