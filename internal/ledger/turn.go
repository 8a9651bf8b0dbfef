package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/easel-grpc/easel/internal/gate"
)

// The book is shared by turns: those of orders come first, then reads, and reports last, by owner. Few reports are
// counted at once, so that orders have connections beside them.
const (
	forOrder  = gate.Order
	forRead   = gate.Read
	forReport = gate.Poll
)

// Parts of the connections of a pool, each at least one.
const (
	reportPart = 8 // that reports may take
	ownerPart  = 4 // that one owner may take, or the polls of one API key
)

// newGate makes the gate of a pool of so many connections.
func newGate(conns int) *gate.Gate {
	return gate.New(gate.Config{
		Places:      [gate.Classes]int{conns, max(1, conns-1), max(1, conns/reportPart)},
		OwnerPlaces: max(1, conns/ownerPart),
	})
}

type turnKey struct{}

// WithOwner says whose the questions to the book are in a context, where they do not say it themselves.
func WithOwner(ctx context.Context, owner string) context.Context {
	return context.WithValue(ctx, turnKey{}, gate.Request{Owner: owner, Class: forRead})
}

// inTurn says in which class an owner asks.
func inTurn(ctx context.Context, class gate.Class, owner string) context.Context {
	return context.WithValue(ctx, turnKey{}, gate.Request{Owner: owner, Class: class})
}

// inTurnOf is [inTurn] for the owner whose the context is, and where that is nobody's for Easel itself.
func inTurnOf(ctx context.Context, class gate.Class) context.Context {
	return inTurn(ctx, class, turnOf(ctx).Owner)
}

func turnOf(ctx context.Context) gate.Request {
	asked, ok := ctx.Value(turnKey{}).(gate.Request)
	if !ok {
		asked.Class = forRead
	}
	return asked
}

// nameOf is the owner of a filter; those who ask for everybody's share as one.
func nameOf(owner *string) string {
	if owner == nil {
		return ""
	}
	return *owner
}

// Busy is an error of a book that answers, and that others ask too: nothing was recorded.
type Busy struct {
	Err error
	// After is when it is worth another try; 0 is not known.
	After time.Duration
}

func (e *Busy) Error() string { return fmt.Sprintf("the ledger has too much to do: %v", e.Err) }

// Unwrap gives the reason.
func (e *Busy) Unwrap() error { return e.Err }
