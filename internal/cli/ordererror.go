package cli

import (
	"errors"
	"strings"

	easel "github.com/easel-grpc/easel/clients/go"
)

// orderError is an error that ended an order, with what is known of the order, so that nobody wonders whether there is
// something to pay. No other advice is given with it than what can't lead to a second order.
type orderError struct {
	err   error
	known string
}

// Error is that of the error within.
func (u orderError) Error() string { return u.err.Error() }

// Unwrap gives the error within.
func (u orderError) Unwrap() error { return u.err }

// advised puts what is known of the order before what helps.
func (u orderError) advised(body failure) failure {
	switch {
	case u.known == nothingOrdered && body.Reason == "PRICE_ABOVE_LIMIT": // else they would be a second order
		body.Cure += " Or choose cheaper inputs: easel quote shows their price."
	case u.known != nothingOrdered && body.Reason == "UPSTREAM_CREDENTIAL_REJECTED": // so would it be under another API key
		body.Cure = listFirst
	}
	body.Cure = strings.TrimSpace(u.known + " " + body.Cure)
	return body
}

const (
	// nothingOrdered is only certain of an idempotency key that this run has made up, and where the server's
	// ledger says so.
	nothingOrdered = "Nothing was ordered."
	nothingSent    = "Nothing was sent now. What was ordered under this --idempotency-key before stands."
	// lookFirst is said of an order of unknown outcome that is not sent again.
	lookFirst = "The order may have been taken. Look at what the account has ordered and paid; do not order again before that."
	// listFirst is said of orders that may exist where the API key was rejected.
	listFirst = "Under another API key it may be bought again: look for it with easel list first."
)

// mayBeOrdered says how to find out about an order that may exist.
func mayBeOrdered(key string) string {
	return "The order may have been taken. Send it again with --idempotency-key " + key + " and the same API key, within 12 hours: so it is not charged twice."
}

// notSent is an error that came before any order of this run was sent.
func (c *generateCmd) notSent(err error) error {
	if c.IdempotencyKey == "" {
		return orderError{err, nothingOrdered}
	}
	return orderError{err, nothingSent}
}

// refused is the answer to an order, with what it says of the order. maybe reports whether an
// earlier try of this run may have been taken.
func (c *generateCmd) refused(err error, key string, maybe bool) orderError {
	nothing := sentNothing(err)
	switch {
	case isNeverResent(err):
		return orderError{err, lookFirst}
	case baseOf(err) != nil && baseOf(err).OrderOutcome == easel.OutcomeNotPlaced:
		return orderError{err, nothingOrdered}
	case maybe || !turnedAway(err) && !nothing:
		return orderError{err, mayBeOrdered(key)}
	case c.IdempotencyKey == "":
		return orderError{err, nothingOrdered}
	case nothing:
		return orderError{err, nothingSent}
	}
	return orderError{err, mayBeOrdered(key)}
}

// isNeverResent reports whether an order may have been taken, and is not sent again: the server asks for no other try.
func isNeverResent(err error) bool {
	unknown := (*easel.OutcomeUnknownError)(nil)
	return errors.As(err, &unknown) && unknown.RetryAfter == 0
}

// sentNothing reports whether the server says of an order that it has sent nothing to the catalog.
func sentNothing(err error) bool {
	e := baseOf(err)
	return e != nil && (e.OrderOutcome == easel.OutcomeNotPlacedByThisCall || e.OrderOutcome == easel.OutcomeNotPlaced)
}

// turnedAway reports whether an order was refused, by the server or by the catalog. That is certain only of a key that
// was never used before: of any other an earlier try may have been taken, whatever is said of the next.
func turnedAway(err error) bool {
	e := baseOf(err)
	return e != nil && e.Reason != "" && !easel.IsRetryable(err) && !errors.As(err, new(*easel.StoppedError)) && !errors.As(err, new(*easel.TimeoutError)) &&
		!errors.As(err, new(*easel.OutcomeUnknownError)) && !errors.As(err, new(*easel.ServerFaultError)) && !errors.As(err, new(*easel.IdempotencyKeyReusedError))
}
