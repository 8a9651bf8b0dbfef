package catalog

import (
	"errors"
	"fmt"
	"time"
)

// Kind classifies an error by what a caller can do about it. The set is closed:
// service maps each kind to one status.
type Kind uint8

// The kinds. The zero value is never a kind.
const (
	KindInvalidInput       Kind = iota + 1 // 400, 422: Violations name the fields
	KindCredentialRejected                 // 401
	KindInsufficientFunds                  // 402
	KindForbidden                          // 403
	KindNotFound                           // 404, 410 on an id
	KindPriceAboveLimit                    // a quote above what the caller allows: PriceCents
	KindDailyCap                           // 409 API_KEY_DAILY_CAP
	KindKeyReused                          // the idempotency key stands for another order
	KindInProgress                         // 409 on create: the catalog is busy with this idempotency key
	KindContentNotReady                    // there is no result yet
	KindNoContent                          // there is and will be no result file
	KindInputsTooLarge                     // 413
	KindOutOfRange                         // 416, or an offset past the end
	KindRateLimited                        // 429
	KindBusy                               // a limit of this server is reached: nothing was sent, or a large response was not read
	KindUnavailable                        // 5xx, no connection, no answer; on reads
	KindOutcomeUnknown                     // the same on create: the order may have been taken
	KindRedirect                           // 3xx, never followed
	KindContract                           // an answer that the specification does not have
	KindMalformed                          // a 2xx that can't be read
	KindInterrupted                        // a body cut off, after resuming: NextOffset
	KindContentChanged                     // the file has other bytes than before
)

// Violation names one bad input.
type Violation struct {
	Field       string // "inputs.<name>", "model_id", or "" where the catalog does not say
	Description string
}

// Error is every error of this package, except the errors of the caller's own context,
// which are returned as they are. Its texts from upstream are shortened and redacted of
// everything that looks like an API key.
type Error struct {
	Kind       Kind
	Op         string // the route, as "GET /generations/{id}"
	Status     int    // HTTP status, 0 where there was no answer
	Code       string // the catalog's own code, "" where it sent none
	Message    string // the catalog's own text, "" where it sent none
	Own        bool   // the answer has the form of the catalog's own errors: not that of a proxy's page
	AboutKey   bool   // of an order: it speaks of the idempotency key, under which there may be one
	Violations []Violation
	Withheld   Kind          // KindOutcomeUnknown: what the answer said whose Message this is; 0 where there is none
	Held       bool          // the call ran under a shared API key: a rejection is its operator's fault
	RetryAfter time.Duration // how long the catalog asked to wait; 0 where it did not
	NextOffset int64         // KindInterrupted: the first missing byte
	PriceCents int64         // KindPriceAboveLimit: the price of the order
	MaxCents   int64         // KindPriceAboveLimit: the limit of the call
	Err        error         // the cause: a network error, a JSON error
}

// Error names the failed call and the reason, for logs.
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

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// IsOperatorFault reports whether the catalog rejected the server's own API key.
func (e *Error) IsOperatorFault() bool { return e.Kind == KindCredentialRejected && e.Held }

// IsAbsent reports whether err says, in the catalog's own words, that there is no such record.
func IsAbsent(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Kind == KindNotFound && e.Own
}

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
	KindDailyCap:           "daily cap of the API key reached",
	KindKeyReused:          "idempotency key reused",
	KindInProgress:         "submission in progress",
	KindContentNotReady:    "content not ready",
	KindNoContent:          "no content",
	KindInputsTooLarge:     "inputs too large",
	KindOutOfRange:         "out of range",
	KindRateLimited:        "rate limited",
	KindBusy:               "busy",
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
