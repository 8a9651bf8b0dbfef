package service

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/easel-grpc/easel/internal/auth"
)

var errNoOperator = status.Error(codes.PermissionDenied, "this caller is not an operator; operators have operator: true in the callers file")

// Operator authenticates a request that is not an RPC, and returns the name of the operator. authorization
// contains the values of the request's Authorization header. Operator returns a status error if the caller is not
// an operator.
func (s *Service) Operator(ctx context.Context, authorization []string) (name string, err error) {
	ctx, err = s.Authenticate(metadata.NewIncomingContext(ctx, metadata.MD{"authorization": authorization}), nil)
	if err != nil {
		return "", Status(err).Err()
	}
	if c := auth.Of(ctx); c.Operator {
		return c.Caller, nil
	}
	return "", errNoOperator
}
