package service

import (
	"errors"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/orders"
)

// OrderOutcome is what is known of an order whose CreateGeneration has failed. It stands in the metadata
// of the ErrorInfo.
type OrderOutcome string

// The outcomes.
const (
	// OrderUnknown is an order that may exist: the same idempotency key, sent again, finds out.
	// A refusal by the catalog is one too: this process can't know who else has sent the idempotency
	// key, and some catalogs check money, models or inputs before they look it up.
	OrderUnknown OrderOutcome = "unknown"
	// OrderNotPlacedByThisCall is an order that this call has not sent. An earlier process or
	// another replica may have.
	OrderNotPlacedByThisCall OrderOutcome = "not_placed_by_this_call"
	// OrderNotPlaced is an order that there is not, as a durable ledger knows. It is never said where callers
	// forward their own API keys, which may be used elsewhere.
	OrderNotPlaced OrderOutcome = "not_placed"

	metadataOrderOutcome = "order_outcome"
)

// orderError is an error of CreateGeneration with what is known of the order.
type orderError struct {
	err     error
	outcome OrderOutcome
}

func (e *orderError) Error() string { return e.err.Error() }
func (e *orderError) Unwrap() error { return e.err }

// outcomeOf gives what is known of an order that was not placed. Only a durable ledger knows of every order under a
// held API key. Where the ledger does not answer after the order may have been sent, the error is the catalog client's.
func outcomeOf(cred catalog.Credential, durable bool, err error) OrderOutcome {
	_, notPlaced := errors.AsType[*orders.NotPlacedError](err)
	notPlaced = notPlaced && catalog.KindOf(err) != catalog.KindOutcomeUnknown
	if notPlaced && cred.Held && durable {
		return OrderNotPlaced
	}
	upstream, said := errors.AsType[*catalog.Error](err)
	_, away := errors.AsType[*ledger.Unavailable](err)
	if said && upstream.Unsent || !said && (notPlaced || away) {
		return OrderNotPlacedByThisCall
	}
	return OrderUnknown
}

// OrderFailure adds to the error of a failed order what is known of the order, unless the error says it
// already. An order that has not entered its handler was sent nowhere.
func OrderFailure(err error, entered bool) error {
	outcome := OrderNotPlacedByThisCall
	if entered {
		outcome = OrderUnknown
	}
	return withOrderOutcome(Status(err), outcome).Err()
}

// withOrderOutcome adds to the status of a failed order what is known of the order, unless the
// status says it already.
func withOrderOutcome(st *status.Status, outcome OrderOutcome) *status.Status {
	full := st.Proto()
	for i, detail := range full.GetDetails() {
		info := &errdetails.ErrorInfo{}
		if detail.UnmarshalTo(info) != nil {
			continue
		}
		if info.GetMetadata()[metadataOrderOutcome] != "" {
			return st
		}
		if info.Metadata == nil {
			info.Metadata = map[string]string{}
		}
		info.Metadata[metadataOrderOutcome] = string(outcome)
		if detail, err := anypb.New(info); err == nil {
			full.Details[i] = detail
		}
		return status.FromProto(full)
	}
	return st
}
