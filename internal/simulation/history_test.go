package simulation

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
	sawOpen    = "open"   // a stream was requested
	sawUpdate  = "update" // a stream delivered a state
	sawBeat    = "beat"   // a heartbeat
	sawUp      = "caughtup"
	sawAccount = "account" // a stream delivered the account
	sawClosing = "closing" // the server announced the end
	sawOK      = "ok"      // the stream ended with OK
	sawError   = "error"   // a call or stream ended with an error
	sawLeft    = "left"    // the caller left a stream
	sawSilence = "silence" // the caller abandoned a silent stream
	sawGet     = "get"     // a unary call returned a state
	sawListed  = "listed"  // a list contained a generation
	sawOrder   = "order"   // an order was sent
	sawPlaced  = "placed"  // the response to an order had a generation
	sawRefused = "refused" // an order was rejected, and by its outcome it cannot exist
	sawGaveUp  = "gaveup"  // a caller stopped repeating an order that may exist
	sawFile    = "file"    // a file was downloaded
	sawDeleted = "deleted" // the caller deleted the generation
	sawDone    = "done"    // the caller reached its goal
	sawFault   = "fault"   // a fault began or ended
	sawHeld    = "held"    // a stream without a reader was kept
	sawLeak    = "leak"    // the response contained data that must stay hidden
	sawOver    = "over"    // a limit was violated
)

// event is one line of the history.
type event struct {
	at    time.Duration // since the start of the world
	actor string
	seq   int
	kind  string

	stream  int    // number of the actor's stream, or zero
	gen     string // generation
	process string // name of the process that responded
	text    string // reason of an error, idempotency key of an order, checksum of a file

	order   string        // idempotency key, if an error ended an order
	outcome string        // outcome in that error
	since   time.Duration // time when the order was sent
	lasts   time.Duration // time to the deadline of a sent order

	state    easelv1.State
	etag     string
	initial  bool
	observed time.Duration // time of the catalog's response, since the start of the world
	goal     easelv1.WatchUntil
	every    time.Duration // requested heartbeat interval

	many  []string // generations that an opened stream of many names
	known memory   // known etags that it sends
	model string   // model filter of an opened stream; in an update, the model of the generation
}

func (e event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%14s %-12s %-8s", e.at.Round(time.Microsecond), e.actor, e.kind)
	for _, part := range []struct{ name, value string }{
		{"gen", e.gen}, {"from", e.process}, {"etag", e.etag}, {"", e.text}, {"order", e.order}, {"outcome", e.outcome},
	} {
		if part.value != "" {
			b.WriteString(" " + strings.TrimPrefix(part.name+"="+part.value, "="))
		}
	}
	if e.state != 0 {
		fmt.Fprintf(&b, " %s observed=%s", strings.TrimPrefix(e.state.String(), "STATE_"), e.observed.Round(time.Microsecond))
	}
	if e.initial {
		b.WriteString(" initial")
	}
	if e.stream != 0 {
		fmt.Fprintf(&b, " stream=%d", e.stream)
	}
	return b.String()
}

// tenant returns the name of the actor's tenant.
func (e event) tenant() string {
	name, _, _ := strings.Cut(e.actor, ".")
	return name
}

// history records the events of all actors.
type history struct {
	mu     sync.Mutex
	begin  time.Time
	events []event
}

func (h *history) since() time.Duration { return time.Since(h.begin) }

func (h *history) add(e event) {
	e.at = h.since()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// sorted returns the events in a deterministic order. Events of several actors at one instant have
// no order otherwise.
func (h *history) sorted() []event {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := slices.Clone(h.events)
	slices.SortFunc(list, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.actor, b.actor), cmp.Compare(a.seq, b.seq))
	})
	return list
}

// digest returns a hash of the complete history.
func digest(events []event) string {
	sum := sha256.New()
	for _, e := range events {
		fmt.Fprintf(sum, "%d %+v\n", e.seq, e)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:12])
}
