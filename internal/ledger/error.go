package ledger

import (
	"errors"
	"fmt"
	"time"
)

// Unavailable is the error of a ledger that does not respond. Nothing was recorded.
type Unavailable struct {
	Err error
	// Locked means that the ledger responds, and another transaction has locked a row for too long.
	Locked bool
}

func (e *Unavailable) Error() string { return "the ledger does not answer: " + e.Err.Error() }

// Unwrap returns the error of the database.
func (e *Unavailable) Unwrap() error { return e.Err }

// Doubt is the error of a commit with an unknown result. The changes may be recorded or not.
type Doubt struct{ Err error }

func (e *Doubt) Error() string {
	return "it is not known whether the ledger has recorded it: " + e.Err.Error()
}

// Unwrap returns the error of the database.
func (e *Doubt) Unwrap() error { return e.Err }

// Contradiction is the error of a change that violates a constraint of the database. Nothing was recorded. It is a defect
// of the ledger or of this program.
type Contradiction struct{ Err error }

func (e *Contradiction) Error() string { return "the change contradicts the ledger: " + e.Err.Error() }

// Unwrap returns the error of the database.
func (e *Contradiction) Unwrap() error { return e.Err }

// IsFault reports whether an error is a permanent defect of the ledger.
func IsFault(err error) bool {
	_, contradicts := errors.AsType[*Contradiction](err)
	return contradicts || errors.Is(err, ErrGenerationTaken)
}

// Disagreed is the error that [Request.Agreed] returned. Nothing was written.
type Disagreed struct{ Err error }

func (e *Disagreed) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e *Disagreed) Unwrap() error { return e.Err }

// ErrGenerationTaken reports that the catalog has returned a generation that belongs to another order. The generation is
// not stored.
var ErrGenerationTaken = errors.New("the catalog has named a generation that belongs to another order")

// ErrKeyTaken means that the idempotency key of an order was used for another order since.
var ErrKeyTaken = errors.New("the idempotency key was used again since the order was called refused")

// ErrTooManyOpen means that [MostOpen] orders of an owner have no outcome yet.
var ErrTooManyOpen = errors.New("too many orders of this owner have no outcome yet")

// ErrTooManyRefused means that [MostRefused] orders of an owner were rejected within [RefusedTime].
var ErrTooManyRefused = errors.New("too many orders of this owner were refused recently")

// BudgetError reports a budget without room for a price.
type BudgetError struct {
	// Period is "day" or "month". It ends at Reset.
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

// ErrLeaseLost is the error of a job that another process has taken since.
var ErrLeaseLost = errors.New("lease of the job lost")
