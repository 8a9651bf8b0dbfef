package catalog

import (
	"errors"
	"fmt"
	"time"
)

// Kind is what went wrong, as far as a caller can act on it. The set is closed:
// service maps each kind to one status.
type Kind uint8

// The kinds. The zero value is never a kind.
const (
	KindInvalidInput       Kind = iota + 1 // 400, 422: Violations name the fields
	KindCredentialRejected                 // 401
	KindInsufficientFunds                  // 402
	KindForbidden                          // 403
	KindNotFound                           // 404, 410 on an id
	KindPriceAboveLimit                    // a quote above Order.MaxCostCents: PriceCents
	KindDailyCap                           // 409 API_KEY_DAILY_CAP
	KindKeyReused                          // the idempotency key stands for another order
	KindInProgress                         // 409 on create: the catalog is busy with this key
	KindContentNotReady                    // the result is not there yet
	KindNoContent                          // there is and will be no result file
	KindInputsTooLarge                     // 413
	KindOutOfRange                         // 416, or an offset past the end
	KindRateLimited                        // 429
	KindBusy                               // nothing was sent: there was no room for it
	KindUnavailable                        // 5xx, no connection, no answer; on reads
	KindOutcomeUnknown                     // the same on create: the order may have been taken
	KindRedirect                           // 3xx, never followed
	KindContract                           // an answer that the specification has no room for
	KindMalformed                          // a 2xx that can't be read
	KindInterrupted                        // a body cut off, after resuming: NextOffset
	KindContentChanged                     // bytes are not those that were begun with
)

// Violation names one bad input.
type Violation struct {
	Field       string // "inputs.<name>", "model_id", or "" where the catalog does not say
	Description string
}

// Error is every error of this package, except the context errors of the caller's
// own context, which are returned as they are. Text from upstream in it has been
// shortened and redacted of anything that looks like a key.
type Error struct {
	Kind       Kind
	Op         string // the route, as "GET /generations/{id}"
	Status     int    // HTTP status, 0 where there was no answer
	Code       string // the catalog's own code, "" where it sent none
	Message    string // the catalog's own text, "" where it sent none
	Violations []Violation
	Held       bool          // the call ran under a held key: a rejection is its operator's fault
	Unsent     bool          // of Create: this call has sent nothing, and no attempt of this order is known that may have been taken
	RetryAfter time.Duration // how long the catalog asked to wait; 0 where it did not
	NextOffset int64         // KindInterrupted: first byte that is missing
	PriceCents int64         // KindPriceAboveLimit: what the order would have cost
	Err        error         // what lies below: a network error, a JSON error
}

// Error says which call failed and how, for logs.
func (e *Error) Error() string {
	text := e.Op + ": " + e.Kind.String()
	if e.Status != 0 {
		text += fmt.Sprintf(" (HTTP %d)", e.Status)
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap gives what lies below.
func (e *Error) Unwrap() error { return e.Err }

// KindOf gives the kind of err, or 0 where it is not from this package.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return 0
}

var kindNames = [...]string{
	KindInvalidInput:       "invalid input",
	KindCredentialRejected: "credential rejected",
	KindInsufficientFunds:  "insufficient balance",
	KindForbidden:          "forbidden",
	KindNotFound:           "not found",
	KindPriceAboveLimit:    "price above limit",
	KindDailyCap:           "daily cap of the key reached",
	KindKeyReused:          "idempotency key reused",
	KindInProgress:         "submission in progress",
	KindContentNotReady:    "content not ready",
	KindNoContent:          "no content",
	KindInputsTooLarge:     "inputs too large",
	KindOutOfRange:         "out of range",
	KindRateLimited:        "rate limited",
	KindBusy:               "no room",
	KindUnavailable:        "unavailable",
	KindOutcomeUnknown:     "outcome unknown",
	KindRedirect:           "redirect refused",
	KindContract:           "contract mismatch",
	KindMalformed:          "malformed response",
	KindInterrupted:        "content interrupted",
	KindContentChanged:     "content changed",
}

// String names the kind in logs.
func (k Kind) String() string {
	if int(k) < len(kindNames) && k != 0 {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", k)
}
