package server

import (
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/easel-grpc/easel/internal/service"
)

// errorDomain is the domain of every reason, as in package service.
const errorDomain = "easel"

// Reasons of refusals that are the server's own. The rest are package service's.
const (
	reasonInternal     = "INTERNAL"
	reasonNoRoute      = "ROUTE_NOT_FOUND"
	reasonMethod       = "METHOD_NOT_ALLOWED"
	reasonMediaType    = "UNSUPPORTED_MEDIA_TYPE"
	reasonTooLarge     = "REQUEST_TOO_LARGE"
	reasonSlowBody     = "REQUEST_BODY_TIMEOUT"
	reasonCrossOrigin  = "CROSS_ORIGIN_REQUEST"
	reasonHost         = "HOST_NOT_ALLOWED"
	reasonPrecondition = "PRECONDITION_FAILED"
	reasonRange        = "READ_OFFSET_OUT_OF_RANGE"
	reasonBalance      = "INSUFFICIENT_BALANCE"
	reasonChanged      = "CONTENT_CHANGED"
	reasonStreamQuota  = "STREAM_QUOTA_EXCEEDED"
	reasonOverloaded   = "OVERLOADED"
	reasonTooSlow      = "READER_TOO_SLOW"
)

// statusOf is the status that an error is told to a caller with. What the libraries
// below refuse by themselves has no reason yet: it gets the name of its code.
func statusOf(err error) *status.Status {
	st := service.Status(err)
	if st.Code() == codes.OK || reasonOf(st) != "" {
		return st
	}
	return withReason(st, code.Code(st.Code()).String())
}

// refusal is an error of the server's own, with a reason like every other.
func refusal(code codes.Code, reason, message string) error {
	return withReason(status.New(code, message), reason).Err()
}

// overload refuses what there is no room for.
func overload(text string, after time.Duration) error {
	return refusalOf(reasonOverloaded, text+": try again a little later", retryInfo(after))
}

// refusalOf is RESOURCE_EXHAUSTED with a reason and more.
func refusalOf(reason, text string, more ...protoadapt.MessageV1) error {
	info := &errdetails.ErrorInfo{Domain: errorDomain, Reason: reason}
	st, err := status.New(codes.ResourceExhausted, text).WithDetails(append([]protoadapt.MessageV1{info}, more...)...)
	if err != nil { // only for code OK
		return refusal(codes.ResourceExhausted, reason, text)
	}
	return st.Err()
}

func quotaFailure(text string) protoadapt.MessageV1 {
	return &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{Subject: "caller", Description: text}}}
}

func retryInfo(after time.Duration) protoadapt.MessageV1 {
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(after)}
}

func withReason(st *status.Status, reason string) *status.Status {
	detailed, err := st.WithDetails(&errdetails.ErrorInfo{Domain: errorDomain, Reason: reason})
	if err != nil { // only for code OK
		return st
	}
	return detailed
}

// detail is the detail of type M of a status, or nil.
func detail[M proto.Message](st *status.Status) (found M) {
	for _, any := range st.Details() {
		if m, ok := any.(M); ok {
			return m
		}
	}
	return found
}

// reasonOf is the reason that a status gives, or "".
func reasonOf(st *status.Status) string {
	return detail[*errdetails.ErrorInfo](st).GetReason()
}

// orderFailure says of a failed order what is known of it, where its handler did not: one that
// was never entered has sent nothing.
func orderFailure(err error, entered bool) error {
	outcome := service.OrderNotPlacedByThisCall
	if entered {
		outcome = service.OrderUnknown
	}
	return service.WithOrderOutcome(statusOf(err), outcome).Err()
}

// refusals count what was refused, so that callers that are sent away together do not
// come back together.
type refusals uint32

// delay is how long the next caller that is refused should stay away: from 1 s to 2 s,
// and far from the delays just before.
func (r *refusals) delay() time.Duration {
	*r++
	const golden = 0x9E3779B9 // 2^32 over the golden ratio
	return time.Second + time.Duration(uint32(*r)*golden)*time.Second>>32
}
