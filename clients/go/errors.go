package easel

import (
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// Outcome is what an error knows of its order.
type Outcome string

// The outcomes: see CreateGeneration.
const (
	OutcomeUnknown             Outcome = "unknown"
	OutcomeNotPlacedByThisCall Outcome = "not_placed_by_this_call"
	OutcomeNotPlaced           Outcome = "not_placed"
)

// Reason says why a call has failed: ErrorReason_ERROR_REASON_UNSPECIFIED where the error is not of
// Easel, or of a newer one.
func Reason(err error) easelv1.ErrorReason {
	return easelv1.ErrorReason(easelv1.ErrorReason_value[errorInfo(err).GetReason()])
}

// RetryDelay says how long to wait before the next attempt, where the server has said so.
func RetryDelay(err error) (time.Duration, bool) {
	info, ok := detail[*errdetails.RetryInfo](err)
	return info.GetRetryDelay().AsDuration(), ok
}

// OrderOutcome says what is known of an order that has failed. Any error may leave it unknown.
func OrderOutcome(err error) Outcome {
	if outcome := errorInfo(err).GetMetadata()["order_outcome"]; outcome != "" {
		return Outcome(outcome)
	}
	return OutcomeUnknown
}

// repeatHelps says whether the same call again may mend an error. A reason outranks its code.
func repeatHelps(err error) bool {
	switch Reason(err) {
	case easelv1.ErrorReason_ERROR_REASON_UNSPECIFIED:
		switch status.Code(err) {
		case codes.Unavailable, codes.Aborted, codes.Internal, codes.Unknown, codes.Canceled, codes.DeadlineExceeded:
			return true
		default:
			_, told := RetryDelay(err)
			return told
		}
	case easelv1.ErrorReason_SUBMISSION_OUTCOME_UNKNOWN:
		_, told := RetryDelay(err)
		return told // else it is too late
	case easelv1.ErrorReason_SUBMISSION_IN_PROGRESS, easelv1.ErrorReason_CONTENT_NOT_READY, easelv1.ErrorReason_CONTENT_INTERRUPTED,
		easelv1.ErrorReason_UPSTREAM_RATE_LIMITED, easelv1.ErrorReason_UPSTREAM_UNAVAILABLE, easelv1.ErrorReason_UPSTREAM_MALFORMED_RESPONSE,
		easelv1.ErrorReason_UNAVAILABLE, easelv1.ErrorReason_LEDGER_UNAVAILABLE, easelv1.ErrorReason_OVERLOADED, easelv1.ErrorReason_STREAM_QUOTA_EXCEEDED,
		easelv1.ErrorReason_READER_TOO_SLOW, easelv1.ErrorReason_SERVER_DRAINING, easelv1.ErrorReason_STREAM_MAX_AGE,
		easelv1.ErrorReason_REQUEST_BODY_TIMEOUT, easelv1.ErrorReason_CANCELLED, easelv1.ErrorReason_DEADLINE_EXCEEDED,
		easelv1.ErrorReason_INTERNAL:
		return true
	default:
		return false
	}
}

func errorInfo(err error) *errdetails.ErrorInfo {
	if info, _ := detail[*errdetails.ErrorInfo](err); info.GetDomain() == "easel" {
		return info
	}
	return nil
}

// detail finds the detail of a type in a gRPC error, wrapped or not.
func detail[T any](err error) (found T, ok bool) {
	for _, one := range status.Convert(err).Details() {
		if found, ok = one.(T); ok {
			return found, true
		}
	}
	return found, false
}
