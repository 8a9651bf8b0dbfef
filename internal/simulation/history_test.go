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
	sawOpen    = "open"   // a stream was asked for
	sawUpdate  = "update" // a state came over a stream
	sawBeat    = "beat"   // a heartbeat
	sawUp      = "caughtup"
	sawAccount = "account" // the account came over a stream
	sawClosing = "closing" // the server announced the end
	sawOK      = "ok"      // the stream ended with OK
	sawError   = "error"   // a call or stream ended with an error
	sawLeft    = "left"    // the caller left a stream
	sawSilence = "silence" // the caller gave a stream up
	sawGet     = "get"     // a state came from a unary call
	sawListed  = "listed"  // a generation came in a list
	sawOrder   = "order"   // an order was sent
	sawPlaced  = "placed"  // an order was answered with a generation
	sawRefused = "refused" // an order was refused, and nothing of it can exist as far as its caller was told
	sawGaveUp  = "gaveup"  // a caller stopped asking for an order that may exist
	sawFile    = "file"    // a file was downloaded
	sawDeleted = "deleted" // the caller deleted the generation
	sawDone    = "done"    // the caller has what it wanted
	sawFault   = "fault"   // a fault began or ended
	sawHeld    = "held"    // a stream that nobody read was kept
	sawLeak    = "leak"    // something was seen that nobody may see
	sawOver    = "over"    // a limit did not hold
)

// event is one line of the history.
type event struct {
	at    time.Duration // since the world began
	actor string
	seq   int
	kind  string

	stream  int    // which stream of the actor; 0: none
	gen     string // generation
	process string // that answered
	text    string // reason of an error, idempotency key of an order, checksum of a file

	order   string        // of an error that answered an order: its idempotency key,
	outcome string        // what it says of the order,
	since   time.Duration // and when the order was sent
	lasts   time.Duration // of an order that is sent: how long its deadline is away

	state    easelv1.State
	etag     string
	initial  bool
	observed time.Duration // when the catalog said it, since the world began
	goal     easelv1.WatchUntil
	every    time.Duration // heartbeat that was asked for

	many  []string // of a stream of many that is asked for: the generations that it names,
	known memory   // what its caller has,
	model string   // and the model that it wants; of an update: the generation's
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

// tenant is whose the actor is.
func (e event) tenant() string {
	name, _, _ := strings.Cut(e.actor, ".")
	return name
}

// history is what all actors saw.
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

// sorted gives the events in the one order that a repeated run must have too: what one event
// tells to several at one instant has no order of its own.
func (h *history) sorted() []event {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := slices.Clone(h.events)
	slices.SortFunc(list, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.actor, b.actor), cmp.Compare(a.seq, b.seq))
	})
	return list
}

// digest stands for the whole history.
func digest(events []event) string {
	sum := sha256.New()
	for _, e := range events {
		fmt.Fprintf(sum, "%d %+v\n", e.seq, e)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:12])
}
