package service

import (
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/easel-grpc/easel/internal/orders"
)

// metadataOrderOutcome is where the ErrorInfo of a failed CreateGeneration says what is known of the order.
const metadataOrderOutcome = "order_outcome"

// OrderFailure adds to the error of a failed order what is known of the order, unless the error says it
// already. An order that has not entered its handler was sent nowhere.
func OrderFailure(err error, entered bool) error {
	outcome := orders.NotPlacedByThisCall
	if entered {
		outcome = orders.Unknown
	}
	return withOrderOutcome(Status(err), outcome).Err()
}

// withOrderOutcome adds to the status of a failed order what is known of the order, unless the
// status says it already.
func withOrderOutcome(st *status.Status, outcome orders.Outcome) *status.Status {
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
