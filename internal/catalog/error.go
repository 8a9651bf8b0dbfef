package catalog

import (
	"errors"
	"fmt"
	"time"
)

// Kind is the class of an error. It determines how a caller can handle the error. Package service maps each kind to one gRPC
// status.
type Kind uint8

// The kinds of errors. The zero value is not a kind.
const (
	KindInvalidInput       Kind = iota + 1 // 400 or 422; Violations contains the invalid fields
	KindCredentialRejected                 // 401
	KindInsufficientFunds                  // 402
	KindForbidden                          // 403
	KindNotFound                           // 404; for a generation or a model, also 410
	KindPriceAboveLimit                    // the price is above the caller's limit; see PriceCents and MaxCents
	KindOrderExpired                       // the order's expire time has passed; an attempt before that time may have placed the order
	KindDailyCap                           // 409 API_KEY_DAILY_CAP
	KindKeyReused                          // the idempotency key belongs to another order
	KindInProgress                         // 409 for an order: the catalog is still processing this idempotency key
	KindContentNotReady                    // the result is not available yet
	KindNoContent                          // no result file exists, and none will exist later
	KindInputsTooLarge                     // 413
	KindOutOfRange                         // HTTP status 416, or an offset beyond the end of the file
	KindRateLimited                        // 429
	KindBusy                               // the request was not sent, or a large response was not read, because a limit in Easel was reached
	KindUnavailable                        // 5xx, no connection or no response; if an order fails in this way, its error has KindOutcomeUnknown instead
	KindOutcomeUnknown                     // the catalog may have accepted the order
	KindRedirect                           // 3xx, never followed
	KindContract                           // a response that the specification does not allow
	KindMalformed                          // a 2xx response that can't be decoded
	KindInterrupted                        // the file could not be read to its end; see NextOffset
	KindContentChanged                     // the file has changed since an earlier response
)

// Violation is an invalid field of a request.
type Violation struct {
	Field       string // "inputs.<name>", "model_id", or empty if the catalog does not report it
	Description string
}

// Error is the type of all errors from this package, except that errors from the caller's context are returned unchanged.
// Strings from the catalog are shortened, and anything that looks like an API key is redacted.
type Error struct {
	Kind       Kind
	Op         string // route, such as "GET /generations/{id}"
	Status     int    // HTTP status; 0 if there was no response
	Code       string // error code from the catalog; empty if it sent none
	Message    string // the catalog's message; empty if none was sent
	Own        bool   // whether the response has the format of the catalog's own errors, which a proxy's errors do not have
	AboutKey   bool   // whether the response to an order mentions the idempotency key, which means that an order with this key may exist
	Violations []Violation
	Withheld   Kind          // original kind, if package orders has replaced it with KindOutcomeUnknown; otherwise 0
	SharedKey  bool          // whether the request used the shared API key; if the catalog rejected this key, only the operator can replace it
	RetryAfter time.Duration // delay that the catalog requested; 0 if none
	NextOffset int64         // for KindInterrupted: file offset of the first missing byte
	PriceCents int64         // for KindPriceAboveLimit: the price of the order
	MaxCents   int64         // for KindPriceAboveLimit: the caller's limit
	Err        error         // underlying error, such as a network or JSON error
}

// Error returns the operation and the reason, for logs.
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

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// IsOperatorFault reports whether the catalog rejected the shared API key.
func (e *Error) IsOperatorFault() bool { return e.Kind == KindCredentialRejected && e.SharedKey }

// IsAbsent reports whether the catalog itself, not a proxy, responded that the record does not exist.
func IsAbsent(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Kind == KindNotFound && e.Own
}

// KindOf returns the kind of err, or 0 if err is not from this package.
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
	KindOrderExpired:       "order expired",
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

// String returns the name of the kind for logs.
func (k Kind) String() string {
	if int(k) < len(kindNames) && k != 0 {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", k)
}
