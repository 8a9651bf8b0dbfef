package ledger

import (
	"errors"
	"fmt"
	"time"
)

// Unavailable is the error for a database that failed or did not respond. Nothing was recorded.
type Unavailable struct {
	Err error
	// Locked means that the database responds, but another transaction has held a lock for too long.
	Locked bool
}

func (e *Unavailable) Error() string { return "ledger unavailable: " + e.Err.Error() }

// Unwrap returns the error from the database.
func (e *Unavailable) Unwrap() error { return e.Err }

// Doubt is the error for a commit whose result is unknown. The changes may or may not be recorded.
type Doubt struct{ Err error }

func (e *Doubt) Error() string {
	return "unknown whether the ledger recorded the change: " + e.Err.Error()
}

// Unwrap returns the error from the database.
func (e *Doubt) Unwrap() error { return e.Err }

// Contradiction is the error for a change that violates a constraint of the database. Nothing was recorded. The cause is a
// defect in the stored data or in Easel.
type Contradiction struct{ Err error }

func (e *Contradiction) Error() string { return "change contradicts the ledger: " + e.Err.Error() }

// Unwrap returns the error from the database.
func (e *Contradiction) Unwrap() error { return e.Err }

// IsFault reports whether err is caused by a defect. In this case, a retry would fail too.
func IsFault(err error) bool {
	_, contradicts := errors.AsType[*Contradiction](err)
	return contradicts || errors.Is(err, ErrGenerationTaken)
}

// Disagreed is the error for an order that was not written because [Request.Agreed] returned the error Err.
type Disagreed struct{ Err error }

func (e *Disagreed) Error() string { return e.Err.Error() }

// Unwrap returns the error from [Request.Agreed].
func (e *Disagreed) Unwrap() error { return e.Err }

// ErrGenerationTaken means that the catalog returned a generation that belongs to another order. The generation is not stored.
var ErrGenerationTaken = errors.New("generation belongs to another order")

// ErrKeyTaken means that an order can't be recorded as placed, because it was recorded as rejected and its idempotency key was
// then used for another order.
var ErrKeyTaken = errors.New("idempotency key was used again after the order was declared rejected")

// ErrTooManyOpen means that an owner already has [MostOpen] orders without an outcome.
var ErrTooManyOpen = errors.New("too many of this owner's orders still have an unknown outcome; retry later")

// ErrTooManyRefused means that [MostRefused] of an owner's orders from the last [RefusedTime] were rejected.
var ErrTooManyRefused = errors.New("too many of this owner's recent orders were rejected; retry later")

// ErrOrderExpired means that the expire time of an order has passed, so no process may send the order.
var ErrOrderExpired = errors.New("the order's expire time has passed")

// BudgetError is the error for an order whose price exceeds the unused part of a budget.
type BudgetError struct {
	// Period is "day" or "month". The period ends at Reset.
	Period string
	Reset  time.Time
	// PriceCents is the price of the order. RemainingCents is the unused part of the budget, which is less than the price.
	PriceCents, RemainingCents int64
	// Total means that the exceeded budget is the total budget of all owners.
	Total bool
	// Label is the label value whose budget is exceeded, such as project=apollo. It is empty for the owner's own budget and for
	// the total budget.
	Label string
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("budget for the %s exceeded: %d cents are left, and the order costs %d", e.Period, e.RemainingCents, e.PriceCents)
}

// Busy is the error for a database that responds but is overloaded. Nothing was recorded.
type Busy struct{ Err error }

func (e *Busy) Error() string { return fmt.Sprintf("ledger overloaded: %v", e.Err) }

// Unwrap returns the error from the database.
func (e *Busy) Unwrap() error { return e.Err }

// ErrLeaseLost means that this process no longer has the lease of a job, because another process has leased the job.
var ErrLeaseLost = errors.New("another process has leased the job")
