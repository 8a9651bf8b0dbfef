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

// Outcome is the known outcome of an order that a call did not place.
type Outcome string

// The outcomes.
const (
	// Unknown means that the order may exist. A resend with the same idempotency key resolves it.
	Unknown Outcome = "unknown"
	// NotPlacedByThisCall means that this call has placed no order: nothing was sent to the catalog, or its first attempt was
	// definitely rejected. The catalog may have an order of another process under the idempotency key.
	NotPlacedByThisCall Outcome = "not_placed_by_this_call"
	// NotPlaced means that no order exists under the idempotency key, according to a durable ledger. It is never returned if
	// callers forward their own API keys, which may be used without Easel.
	NotPlaced Outcome = "not_placed"
)

// outcomes maps the answers for an order that is not placed to outcomes.
var outcomes = map[lifecycle.Answer]Outcome{lifecycle.NotPlaced: NotPlaced, lifecycle.Unknown: Unknown}

// Error is an error of [Orders.Place]: the reason why the order was not placed, and its known outcome.
type Error struct {
	Outcome Outcome
	Err     error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

var (
	// ErrModelNotAllowed means that the owner may not order from the model.
	ErrModelNotAllowed = errors.New("the team may not order from this model")
	// ErrAccountUnknown means that it is not known yet whether the shared API key belongs to the account of the ledger.
	ErrAccountUnknown = errors.New("account of the API key not known yet")
	// ErrResendWindow is the reason why an order of unknown outcome is not resent. Only the account shows whether the order
	// was placed.
	ErrResendWindow = errors.New("its first attempt is too long ago to send it again: the catalog may have forgotten its idempotency key")

	errRotated = errors.New("it was sent under another API key, and only under that it can be sent again")
	// errTermsChanged means that the terms of the caller have changed while its order was quoted.
	errTermsChanged = errors.New("the terms of the caller have changed")
)

// leavesOpen has the kinds of errors that already mean an unknown outcome. If the catalog has another order under the
// idempotency key, it was sent without Easel or by an attempt that no process recorded.
var leavesOpen = map[catalog.Kind]bool{catalog.KindOutcomeUnknown: true, catalog.KindInProgress: true, catalog.KindKeyReused: true}

// outcomeUnknown returns an unknown outcome with the response of the catalog, which is of another kind.
func outcomeUnknown(said *catalog.Error, err error) *catalog.Error {
	return &catalog.Error{
		Kind: catalog.KindOutcomeUnknown, Op: catalog.OpCreate, Status: said.Status, Code: said.Code,
		Message: cmp.Or(said.Message, said.Kind.String()), Withheld: said.Kind, RetryAfter: said.RetryAfter, Err: err,
	}
}

func unknown(err error) *catalog.Error {
	return &catalog.Error{Kind: catalog.KindOutcomeUnknown, Op: catalog.OpCreate, Err: err}
}

// notSent returns the error of an order that the ledger has recorded as rejected. Its outcome is known.
func notSent(err error) error {
	open, ok := errors.AsType[*catalog.Error](err)
	if !ok || open.Kind != catalog.KindOutcomeUnknown {
		return err
	}
	known := *open
	known.Kind = catalog.KindUnavailable
	return &known
}

// definite has the statuses of a definite rejection of an order. A proxy may send any other status by itself.
var definite = map[int]bool{400: true, 401: true, 402: true, 403: true, 404: true, 413: true, 422: true}

// isDefinite reports whether the catalog itself has rejected an order, and has none under its idempotency key.
func isDefinite(err error) bool {
	e, ok := errors.AsType[*catalog.Error](err)
	return ok && e.Own && !e.AboutKey && (definite[e.Status] || e.Status == http.StatusConflict && e.Kind == catalog.KindDailyCap)
}

// inDoubt converts a commit with an unknown result into an unknown outcome. It returns any other error of the ledger
// unchanged, because nothing was recorded.
func inDoubt(err error) error {
	if _, doubt := errors.AsType[*ledger.Doubt](err); doubt {
		return unknown(err)
	}
	return err
}

// mostProblem is the maximum length of a problem in bytes.
const mostProblem = 256

// problem returns a short description of an error of the catalog for operators.
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
