package ledger

import (
	"errors"
	"fmt"
	"time"
)

// Unavailable is an error of a ledger that does not answer: nothing was recorded.
type Unavailable struct {
	Err error
	// Locked means that it does, and somebody else has locked a row for long.
	Locked bool
}

func (e *Unavailable) Error() string { return "the ledger does not answer: " + e.Err.Error() }

// Unwrap gives what the database said.
func (e *Unavailable) Unwrap() error { return e.Err }

// Doubt is an error of a commit: what it would have recorded may be recorded, or not.
type Doubt struct{ Err error }

func (e *Doubt) Error() string {
	return "it is not known whether the ledger has recorded it: " + e.Err.Error()
}

// Unwrap gives what the database said.
func (e *Doubt) Unwrap() error { return e.Err }

// Contradiction is an error of a change that a constraint of the database refuses: nothing was recorded. It is a fault of
// the ledger, or of this program.
type Contradiction struct{ Err error }

func (e *Contradiction) Error() string { return "the change contradicts the ledger: " + e.Err.Error() }

// Unwrap returns the error of the database.
func (e *Contradiction) Unwrap() error { return e.Err }

// IsFault reports whether an error is a fault of the ledger that does not pass by itself.
func IsFault(err error) bool {
	_, contradicts := errors.AsType[*Contradiction](err)
	return contradicts || errors.Is(err, ErrGenerationTaken)
}

// Disagreed is the error of a [Request.Agreed]: nothing was written.
type Disagreed struct{ Err error }

func (e *Disagreed) Error() string { return e.Err.Error() }

// Unwrap gives the error.
func (e *Disagreed) Unwrap() error { return e.Err }

// ErrGenerationTaken is a fault of the book: the catalog has named a generation that another order has. It
// is not stored.
var ErrGenerationTaken = errors.New("the catalog has named a generation that belongs to another order")

// ErrKeyTaken means that the idempotency key of an order has become that of another one.
var ErrKeyTaken = errors.New("the idempotency key was used again since the order was called refused")

// ErrTooManyOpen means that [MostOpen] orders of an owner have no outcome yet.
var ErrTooManyOpen = errors.New("too many orders of this owner have no outcome yet")

// ErrTooManyRefused means that [MostRefused] orders of an owner were refused within [RefusedTime].
var ErrTooManyRefused = errors.New("too many orders of this owner were refused lately")

// BudgetError is a budget that has no room for a price.
type BudgetError struct {
	// Period is "day" or "month", and ends at Reset.
	Period string
	Reset  time.Time
	// PriceCents is more than RemainingCents.
	PriceCents, RemainingCents int64
	// Total means that it is the budget of all owners together.
	Total bool
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("the budget of the %s has %d cents left, and the order costs %d", e.Period, e.RemainingCents, e.PriceCents)
}

// Busy is an error of a ledger that is available but overloaded: nothing was recorded.
type Busy struct{ Err error }

func (e *Busy) Error() string { return fmt.Sprintf("ledger overloaded: %v", e.Err) }

// Unwrap returns the reason.
func (e *Busy) Unwrap() error { return e.Err }
