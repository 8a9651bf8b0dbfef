package service

import (
	"context"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/anypb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/orders"
)

// domain is the value of the field Domain in every ErrorInfo.
const domain = "easel"

// codesOf maps each reason to its gRPC code.
var codesOf = map[easelv1.ErrorReason]codes.Code{
	easelv1.ErrorReason_INVALID_REQUEST:        codes.InvalidArgument,
	easelv1.ErrorReason_UPSTREAM_INVALID_INPUT: codes.InvalidArgument,
	easelv1.ErrorReason_INPUTS_TOO_LARGE:       codes.InvalidArgument,
	easelv1.ErrorReason_REQUEST_TOO_LARGE:      codes.ResourceExhausted,
	easelv1.ErrorReason_REQUEST_BODY_TIMEOUT:   codes.DeadlineExceeded,

	easelv1.ErrorReason_CREDENTIAL_MISSING:           codes.Unauthenticated,
	easelv1.ErrorReason_CREDENTIAL_MALFORMED:         codes.Unauthenticated,
	easelv1.ErrorReason_CALLER_UNKNOWN:               codes.Unauthenticated,
	easelv1.ErrorReason_UPSTREAM_CREDENTIAL_REJECTED: codes.Unauthenticated, // replaced by INTERNAL if the catalog rejects the shared API key; see sharedKeyRejected
	easelv1.ErrorReason_UPSTREAM_FORBIDDEN:           codes.PermissionDenied,
	easelv1.ErrorReason_MODEL_NOT_ALLOWED:            codes.PermissionDenied,

	easelv1.ErrorReason_GENERATION_NOT_FOUND: codes.NotFound,
	easelv1.ErrorReason_MODEL_NOT_FOUND:      codes.NotFound,
	easelv1.ErrorReason_NOT_FOUND:            codes.NotFound,

	easelv1.ErrorReason_INSUFFICIENT_BALANCE:       codes.FailedPrecondition,
	easelv1.ErrorReason_PRICE_ABOVE_LIMIT:          codes.FailedPrecondition,
	easelv1.ErrorReason_BUDGET_EXCEEDED:            codes.ResourceExhausted,
	easelv1.ErrorReason_API_KEY_DAILY_CAP:          codes.ResourceExhausted,
	easelv1.ErrorReason_IDEMPOTENCY_KEY_REUSED:     codes.AlreadyExists,
	easelv1.ErrorReason_SUBMISSION_IN_PROGRESS:     codes.Aborted,
	easelv1.ErrorReason_SUBMISSION_OUTCOME_UNKNOWN: codes.Unavailable,
	easelv1.ErrorReason_GENERATION_ACTIVE:          codes.FailedPrecondition,
	easelv1.ErrorReason_ORDER_EXPIRED:              codes.FailedPrecondition,

	easelv1.ErrorReason_CONTENT_NOT_READY:        codes.FailedPrecondition,
	easelv1.ErrorReason_NO_CONTENT:               codes.FailedPrecondition,
	easelv1.ErrorReason_READ_OFFSET_OUT_OF_RANGE: codes.OutOfRange,
	easelv1.ErrorReason_CONTENT_INTERRUPTED:      codes.Unavailable,
	easelv1.ErrorReason_CONTENT_CHANGED:          codes.DataLoss,
	easelv1.ErrorReason_RESUME_TOKEN_EXPIRED:     codes.OutOfRange,

	easelv1.ErrorReason_UPSTREAM_RATE_LIMITED:       codes.ResourceExhausted,
	easelv1.ErrorReason_UPSTREAM_UNAVAILABLE:        codes.Unavailable,
	easelv1.ErrorReason_UPSTREAM_REDIRECT_REFUSED:   codes.Internal,
	easelv1.ErrorReason_UPSTREAM_CONTRACT_MISMATCH:  codes.Internal,
	easelv1.ErrorReason_UPSTREAM_MALFORMED_RESPONSE: codes.Internal,

	easelv1.ErrorReason_LEDGER_UNAVAILABLE: codes.Unavailable,
	easelv1.ErrorReason_ISSUER_UNAVAILABLE: codes.Unavailable,

	easelv1.ErrorReason_OVERLOADED:            codes.ResourceExhausted,
	easelv1.ErrorReason_STREAM_QUOTA_EXCEEDED: codes.ResourceExhausted,
	easelv1.ErrorReason_READER_TOO_SLOW:       codes.ResourceExhausted,
	easelv1.ErrorReason_SERVER_DRAINING:       codes.Unavailable,
	easelv1.ErrorReason_STREAM_MAX_AGE:        codes.Unavailable,

	easelv1.ErrorReason_ROUTE_NOT_FOUND:        codes.NotFound,
	easelv1.ErrorReason_METHOD_NOT_ALLOWED:     codes.Unimplemented,
	easelv1.ErrorReason_UNSUPPORTED_MEDIA_TYPE: codes.InvalidArgument,
	easelv1.ErrorReason_PRECONDITION_FAILED:    codes.FailedPrecondition,
	easelv1.ErrorReason_HOST_NOT_ALLOWED:       codes.PermissionDenied,
	easelv1.ErrorReason_CROSS_ORIGIN_REQUEST:   codes.PermissionDenied,

	easelv1.ErrorReason_CANCELLED:          codes.Canceled,
	easelv1.ErrorReason_DEADLINE_EXCEEDED:  codes.DeadlineExceeded,
	easelv1.ErrorReason_INTERNAL:           codes.Internal,
	easelv1.ErrorReason_UNIMPLEMENTED:      codes.Unimplemented,
	easelv1.ErrorReason_INVALID_ARGUMENT:   codes.InvalidArgument,
	easelv1.ErrorReason_RESOURCE_EXHAUSTED: codes.ResourceExhausted,
	easelv1.ErrorReason_UNAVAILABLE:        codes.Unavailable,
}

// libraryReasons maps gRPC codes to reasons. It is used for errors from libraries, which have no reason.
var libraryReasons = map[codes.Code]easelv1.ErrorReason{
	codes.Canceled:          easelv1.ErrorReason_CANCELLED,
	codes.InvalidArgument:   easelv1.ErrorReason_INVALID_ARGUMENT,
	codes.DeadlineExceeded:  easelv1.ErrorReason_DEADLINE_EXCEEDED,
	codes.NotFound:          easelv1.ErrorReason_NOT_FOUND, // returned for a health check of an unknown service
	codes.ResourceExhausted: easelv1.ErrorReason_RESOURCE_EXHAUSTED,
	codes.Unimplemented:     easelv1.ErrorReason_UNIMPLEMENTED,
	codes.Internal:          easelv1.ErrorReason_INTERNAL,
	codes.Unavailable:       easelv1.ErrorReason_UNAVAILABLE,
}

// Fail returns a status error with the given details and an ErrorInfo that contains the reason.
func Fail(reason easelv1.ErrorReason, text string, details ...protoadapt.MessageV1) error {
	return NewStatus(reason, text, nil, details...).Err()
}

// NewStatus returns a status that is small enough for gRPC trailers. The reason determines the gRPC code. metadata is
// added to the ErrorInfo and may be nil.
func NewStatus(reason easelv1.ErrorReason, text string, metadata map[string]string, details ...protoadapt.MessageV1) *status.Status {
	return newStatus(codesOf[reason], reason, text, metadata, details...)
}

func newStatus(code codes.Code, reason easelv1.ErrorReason, text string, metadata map[string]string, details ...protoadapt.MessageV1) *status.Status {
	for _, d := range details {
		if bad, ok := d.(*errdetails.BadRequest); ok {
			shorten(bad)
		}
	}
	return withDetails(status.New(code, clip(text, 1<<10)),
		append([]protoadapt.MessageV1{&errdetails.ErrorInfo{Domain: domain, Reason: reason.String(), Metadata: metadata}}, details...)...)
}

func withDetails(st *status.Status, details ...protoadapt.MessageV1) *status.Status {
	full, err := st.WithDetails(details...)
	if err != nil {
		return st // WithDetails fails only for code OK, which no caller passes
	}
	return full
}

// addReason adds a reason to a status that has none. Such a status comes from a library, and its code determines the
// reason. If the code is unexpected, addReason returns an INTERNAL status instead.
func addReason(st *status.Status) *status.Status {
	if st.Code() == codes.OK || Reason(st) != easelv1.ErrorReason_ERROR_REASON_UNSPECIFIED {
		return st
	}
	reason, known := libraryReasons[st.Code()]
	switch {
	case !known:
		return unforeseenStatus()
	case st.Code() == codes.DeadlineExceeded:
		return deadlinePassed()
	}
	return withDetails(st, &errdetails.ErrorInfo{Domain: domain, Reason: reason.String()})
}

// WithRequestID adds a RequestInfo to the error of a call, unless the error already has one. Its request ID is the
// call's trace ID, which is also in the call's log lines.
func WithRequestID(ctx context.Context, err error) error {
	st, span := status.Convert(err), trace.SpanContextFromContext(ctx)
	if !span.HasTraceID() || Detail[*errdetails.RequestInfo](st) != nil {
		return err
	}
	return withDetails(st, &errdetails.RequestInfo{RequestId: span.TraceID().String()}).Err()
}

// deadlinePassed returns the status of a call whose deadline has passed.
func deadlinePassed() *status.Status {
	return NewStatus(easelv1.ErrorReason_DEADLINE_EXCEEDED, "the caller's deadline has passed; retry with more time", nil)
}

// unforeseenStatus returns the status for an unexpected error. The error's text is only logged, and never sent to the
// caller.
func unforeseenStatus() *status.Status {
	return NewStatus(easelv1.ErrorReason_INTERNAL, "internal error", nil)
}

// Reason returns the reason of a status. It returns ERROR_REASON_UNSPECIFIED if the status has no reason.
func Reason(st *status.Status) easelv1.ErrorReason {
	return easelv1.ErrorReason(easelv1.ErrorReason_value[Detail[*errdetails.ErrorInfo](st).GetReason()])
}

// Detail returns the first detail of type M in st. It returns nil if st has no such detail.
func Detail[M proto.Message](st *status.Status) (found M) {
	for _, any := range st.Details() {
		if m, ok := any.(M); ok {
			return m
		}
	}
	return found
}

// metadataOrderOutcome is the metadata key for the order's outcome in the ErrorInfo of a failed CreateGeneration.
const metadataOrderOutcome = "order_outcome"

// OrderFailure adds the outcome of the order to the error of a CreateGeneration call, unless the error already has an
// outcome. If wasHandled is true, the handler was called, and the added outcome is [orders.Unknown]. Otherwise the call
// has sent nothing to the catalog, and the added outcome is [orders.NotPlacedByThisCall].
func OrderFailure(err error, wasHandled bool) error {
	outcome := orders.NotPlacedByThisCall
	if wasHandled {
		outcome = orders.Unknown
	}
	return withOrderOutcome(Status(err), outcome).Err()
}

// withOrderOutcome adds the outcome of the order to the status of a failed order, unless the status already has an
// outcome.
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
