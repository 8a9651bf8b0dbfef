package server

import (
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// statusOf is the status that an error is told to a caller with.
func statusOf(err error) *status.Status {
	st, ok := status.FromError(err)
	if !ok {
		st = status.New(codes.Internal, "internal error")
	}
	if st.Code() == codes.OK || reasonOf(st) != "" {
		return st
	}
	return withReason(st, strings.ToUpper(st.Code().String()))
}

// invalidRequest is the error for a request that breaks rules of the contract.
func invalidRequest(violations ...violation) error {
	fields := &errdetails.BadRequest{}
	messages := make([]string, 0, len(violations))
	for _, v := range violations {
		fields.FieldViolations = append(fields.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: v.Field, Description: v.Description})
		messages = append(messages, strings.TrimPrefix(v.Field+": ", ": ")+v.Description)
	}
	st, err := status.New(codes.InvalidArgument, strings.Join(messages, "; ")).WithDetails(fields)
	if err != nil {
		return err
	}
	return withReason(st, "INVALID_REQUEST").Err()
}

type violation struct{ Field, Description string }
