package service

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

var errNoOperator = status.Error(codes.PermissionDenied, "this caller is no operator: operator: true in the callers file makes it one")

// Operator gives the name of the operator that the authorization of a request proves, which is no call of the contract. Its
// errors are statuses.
func (s *Service) Operator(ctx context.Context, authorization []string) (name string, err error) {
	ctx, err = s.Authenticate(metadata.NewIncomingContext(ctx, metadata.MD{"authorization": authorization}), nil)
	if err != nil {
		return "", Status(err).Err()
	}
	if c := who(ctx); c.operator {
		return c.caller, nil
	}
	return "", errNoOperator
}
