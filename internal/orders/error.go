package orders

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// Outcome is what is known of an order that a call has not got placed.
type Outcome string

// The outcomes.
const (
	// Unknown means that the order may exist. The same idempotency key, sent again, finds out.
	Unknown Outcome = "unknown"
	// NotPlacedByThisCall means that this call has placed no order: nothing was sent to the catalog, or its first attempt
	// was definitely refused. The catalog may have an order of another process under the idempotency key.
	NotPlacedByThisCall Outcome = "not_placed_by_this_call"
	// NotPlaced means that no order exists under the idempotency key, as a durable ledger knows. It is never returned if
	// callers forward their own API keys, which may be used elsewhere.
	NotPlaced Outcome = "not_placed"
)

// outcomes has the outcomes of the answers of an order that is not placed.
var outcomes = map[lifecycle.Answer]Outcome{lifecycle.NotPlaced: NotPlaced, lifecycle.Unknown: Unknown}

// Error is an error of [Orders.Place]: why the order was not placed, and what is known of it.
type Error struct {
	Outcome Outcome
	Err     error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap gives the reason.
func (e *Error) Unwrap() error { return e.Err }

var (
	// ErrModelNotAllowed means that the owner may not order from the model.
	ErrModelNotAllowed = errors.New("the team may not order from this model")
	// ErrAccountUnknown means that it is not known yet whether the shared API key is of the account of the ledger.
	ErrAccountUnknown = errors.New("account of the API key not known yet")
	// ErrResendWindow is the reason why an order of unknown outcome is not sent again. The account alone shows whether the
	// order was placed.
	ErrResendWindow = errors.New("its first attempt is too long ago to send it again: the catalog may have forgotten its idempotency key")

	errRotated = errors.New("it was sent under another API key, and only under that it can be sent again")
	// errTermsChanged means that the terms of the caller have changed while its order was quoted.
	errTermsChanged = errors.New("the terms of the caller have changed")
)

// leavesOpen are the errors of an order of unknown outcome that say so themselves. A catalog that has another order
// under the idempotency key has it from elsewhere, or from an attempt that nobody knows of.
var leavesOpen = map[catalog.Kind]bool{catalog.KindOutcomeUnknown: true, catalog.KindInProgress: true, catalog.KindKeyReused: true}

// outcomeUnknown is an unknown outcome with what the catalog has said in an answer of another kind.
func outcomeUnknown(said *catalog.Error, err error) *catalog.Error {
	return &catalog.Error{
		Kind: catalog.KindOutcomeUnknown, Op: catalog.OpCreate, Status: said.Status, Code: said.Code,
		Message: cmp.Or(said.Message, said.Kind.String()), Withheld: said.Kind, RetryAfter: said.RetryAfter, Err: err,
	}
}

func unknown(err error) *catalog.Error {
	return &catalog.Error{Kind: catalog.KindOutcomeUnknown, Op: catalog.OpCreate, Err: err}
}

// notSent returns the error of an order that the ledger has recorded as refused. Its outcome is known.
func notSent(err error) error {
	open, ok := errors.AsType[*catalog.Error](err)
	if !ok || open.Kind != catalog.KindOutcomeUnknown {
		return err
	}
	known := *open
	known.Kind = catalog.KindUnavailable
	return &known
}

// definite has the statuses of a definite refusal of an order. A proxy may answer with any other by itself.
var definite = map[int]bool{400: true, 401: true, 402: true, 403: true, 404: true, 413: true, 422: true}

// isDefinite reports whether the catalog itself has refused an order, and has none under its idempotency key.
func isDefinite(err error) bool {
	e, ok := errors.AsType[*catalog.Error](err)
	return ok && e.Own && !e.AboutKey && (definite[e.Status] || e.Status == http.StatusConflict && e.Kind == catalog.KindDailyCap)
}

// inDoubt turns a commit that may have been carried out into an unknown outcome. Any other error of the ledger stays:
// nothing was recorded.
func inDoubt(err error) error {
	if _, doubt := errors.AsType[*ledger.Doubt](err); doubt {
		return unknown(err)
	}
	return err
}

// mostProblem is how long a problem may be, in bytes.
const mostProblem = 256

// problem is an error of the catalog in short, for operators.
func problem(err error) string {
	e, ok := errors.AsType[*catalog.Error](err)
	if !ok {
		return ""
	}
	text := cmp.Or(e.Withheld, e.Kind).String()
	if e.Status != 0 {
		text = fmt.Sprintf("HTTP %d, %s", e.Status, text)
	}
	if e.Message != "" && e.Message != cmp.Or(e.Withheld, e.Kind).String() {
		text += ": " + e.Message
	}
	return strings.ToValidUTF8(text[:min(len(text), mostProblem)], "")
}
