package orders

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
)

// Error is an error from [Orders.Place]. It contains the outcome of the order, and the reason why Place returned no generation.
type Error struct {
	Outcome Outcome
	Err     error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the reason why Place returned no generation.
func (e *Error) Unwrap() error { return e.Err }

var (
	// ErrModelNotAllowed means that the owner is not allowed to place orders for the requested model.
	ErrModelNotAllowed = errors.New("the team may not order this model")
	// ErrAccountUnknown means that Easel has not verified yet that the shared API key belongs to the ledger's account.
	ErrAccountUnknown = errors.New("API key's account not yet compared with the ledger's account")
	// ErrResendWindow means that an order whose outcome is unknown is too old to be resent. Only the catalog's account shows
	// whether it was placed.
	ErrResendWindow = errors.New("resend window of the order has ended: the catalog may have forgotten the idempotency key")

	errRotated = errors.New("order was sent under another API key; use that API key to send it again")
	// errTermsChanged means that the limits for the owner's orders changed while the order was being quoted.
	errTermsChanged = errors.New("limits for the owner's orders changed while the order was being quoted")
)

// leavesOpen contains the kinds of errors that callers receive unchanged while the outcome of the order is unknown.
// KindKeyReused means that the catalog has a different order under the idempotency key. That order was sent without Easel, or
// in an attempt that no process recorded. KindOrderExpired means that a repeated call can't resolve the outcome.
var leavesOpen = map[catalog.Kind]bool{
	catalog.KindOutcomeUnknown: true, catalog.KindInProgress: true, catalog.KindKeyReused: true, catalog.KindOrderExpired: true,
}

// outcomeUnknown returns an error of the kind [catalog.KindOutcomeUnknown] that wraps err. It copies the status, code, message
// and retry delay from lastError, which is the catalog's last error.
func outcomeUnknown(lastError *catalog.Error, err error) *catalog.Error {
	return &catalog.Error{
		Kind: catalog.KindOutcomeUnknown, Op: catalog.OpCreate, Status: lastError.Status, Code: lastError.Code,
		Message: cmp.Or(lastError.Message, lastError.Kind.String()), Withheld: lastError.Kind, RetryAfter: lastError.RetryAfter, Err: err,
	}
}

func unknown(err error) *catalog.Error {
	return &catalog.Error{Kind: catalog.KindOutcomeUnknown, Op: catalog.OpCreate, Err: err}
}

// orderExpired returns the error for an order whose expire time has passed.
func orderExpired() *catalog.Error {
	return &catalog.Error{Kind: catalog.KindOrderExpired, Op: catalog.OpCreate}
}

// asNotSent changes the kind of an error from KindOutcomeUnknown to KindUnavailable. It is called when the ledger has recorded
// that the order was not placed. It returns any other error unchanged.
func asNotSent(err error) error {
	open, ok := errors.AsType[*catalog.Error](err)
	if !ok || open.Kind != catalog.KindOutcomeUnknown {
		return err
	}
	known := *open
	known.Kind = catalog.KindUnavailable
	return &known
}

// definite contains the HTTP statuses that mean that the catalog has definitely rejected an order. A response with any other
// status may come from a proxy.
var definite = map[int]bool{400: true, 401: true, 402: true, 403: true, 404: true, 413: true, 422: true}

// isDefinite reports whether the catalog itself, not a proxy, has definitely rejected an order. If it returns true, the catalog
// has no order with this idempotency key.
func isDefinite(err error) bool {
	e, ok := errors.AsType[*catalog.Error](err)
	return ok && e.Own && !e.AboutKey && (definite[e.Status] || e.Status == http.StatusConflict && e.Kind == catalog.KindDailyCap)
}

// asInDoubt converts a ledger error to an error with an unknown outcome if it is uncertain whether a commit succeeded. It
// returns any other ledger error unchanged, because then nothing was recorded.
func asInDoubt(err error) error {
	if _, doubt := errors.AsType[*ledger.Doubt](err); doubt {
		return unknown(err)
	}
	return err
}

// mostProblem is the maximum size of the text that [problemText] returns, in bytes.
const mostProblem = 256

// problemText returns a short description of a catalog error for operators. It returns "" if err does not come from an attempt.
func problemText(err error) string {
	e, ok := errors.AsType[*catalog.Error](err)
	if !ok || e.Kind == catalog.KindOrderExpired {
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
