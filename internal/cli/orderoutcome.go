package cli

import (
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
)

// unplaced is an error that ended an order, with what is known of the order, so that nobody wonders
// whether there is something to pay. No other advice is given with it than what can't lead to a
// second order.
type unplaced struct {
	err   error
	known string
}

// Error is that of the error within.
func (u unplaced) Error() string { return u.err.Error() }

// Unwrap gives the error within.
func (u unplaced) Unwrap() error { return u.err }

const (
	// nothingOrdered is only certain of an idempotency key that this run has made up.
	nothingOrdered = "Nothing was ordered."
	nothingSent    = "Nothing was sent now. What was ordered under this --idempotency-key before stands."
)

// lookFirst is said of an order of unknown outcome that is not sent again.
const lookFirst = "The order may have been taken. Look at what the account has ordered and paid; do not order again before that."

// listFirst is said of orders that may exist where the API key was rejected.
const listFirst = "Under another API key it may be bought again: look for it with easel list first."

// mayBeOrdered says how to find out about an order that may exist.
func mayBeOrdered(key string) string {
	return "The order may have been taken. Send it again with --idempotency-key " + key + " and the same API key, within 12 hours: so it is not charged twice."
}

// notSent is an error that came before any order of this run was sent.
func (c *generateCmd) notSent(err error) error {
	if c.IdempotencyKey == "" {
		return unplaced{err, nothingOrdered}
	}
	return unplaced{err, nothingSent}
}

// refused is the answer to an order, with what it says of the order. maybe reports whether an
// earlier try of this run may have been taken.
func (c *generateCmd) refused(err error, key string, maybe bool) unplaced {
	nothing := sentNothing(err)
	switch {
	case tooLate(err):
		return unplaced{err, lookFirst}
	case maybe || !turnedAway(err) && !nothing:
		return unplaced{err, mayBeOrdered(key)}
	case c.IdempotencyKey == "":
		return unplaced{err, nothingOrdered}
	case nothing:
		return unplaced{err, nothingSent}
	}
	return unplaced{err, mayBeOrdered(key)}
}

// sentNothing reports whether the server says of a failed order that it has sent nothing to the
// catalog.
func sentNothing(err error) bool {
	var f failure
	f.addDetails(status.Convert(err))
	switch f.metadata["order_outcome"] {
	case "not_placed_by_this_call", "not_placed":
		return true
	}
	return false
}

// turnedAway reports whether an order was refused, by the server or by the catalog. That is certain
// only of a key that was never used before: of any other an earlier try may have been taken, whatever
// is said of the next.
func turnedAway(err error) bool {
	s, ok := statusOf(err)
	if !ok {
		return false
	}
	var info *errdetails.ErrorInfo
	for _, detail := range s.Details() {
		if d, ok := detail.(*errdetails.ErrorInfo); ok {
			info = d
		}
	}
	switch info.GetReason() {
	case "CREDENTIAL_MISSING", "CREDENTIAL_MALFORMED", "UPSTREAM_INVALID_INPUT", "INSUFFICIENT_BALANCE", "UPSTREAM_FORBIDDEN", "MODEL_NOT_FOUND", "API_KEY_DAILY_CAP",
		"INPUTS_TOO_LARGE", "UPSTREAM_CREDENTIAL_REJECTED", "UPSTREAM_RATE_LIMITED", "OVERLOADED", "INVALID_REQUEST", "PRICE_ABOVE_LIMIT":
		return true
	}
	return false
}
