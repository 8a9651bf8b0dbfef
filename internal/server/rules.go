package server

import (
	"context"
	"errors"
	"fmt"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// rules hold the contract's rules against requests.
type rules struct {
	validator protovalidate.Validator
}

func newRules() (rules, error) {
	requests, err := requestTypes()
	if err != nil {
		return rules{}, err
	}
	// Every rule is compiled here: one that can't be is found at start, and the
	// first call is as fast as the second.
	validator, err := protovalidate.New(protovalidate.WithMessages(requests...), protovalidate.WithDisableLazy())
	if err != nil {
		return rules{}, fmt.Errorf("compile the rules of the contract: %w", err)
	}
	return rules{validator: validator}, nil
}

// check completes a request with what stands in the headers of a REST call, then
// holds the rules against it. Every violation is listed.
func (r rules) check(ctx context.Context, req any) error {
	if order, ok := req.(*easelv1.CreateGenerationRequest); ok {
		if err := takeIdempotencyKey(ctx, order); err != nil {
			return err
		}
	}
	message, ok := req.(proto.Message)
	if !ok || !ofContract(message.ProtoReflect().Descriptor().FullName()) {
		return nil
	}
	err := r.validator.Validate(message)
	var invalid *protovalidate.ValidationError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &invalid):
		return invalidRequest(violationsOf(invalid)...)
	default: // a rule that can't be evaluated is our fault
		return fmt.Errorf("hold the rules against a request: %w", err)
	}
}

func violationsOf(invalid *protovalidate.ValidationError) []violation {
	violations := make([]violation, 0, len(invalid.Violations))
	for _, v := range invalid.Violations {
		violations = append(violations, violation{
			Field:       protovalidate.FieldPathString(v.Proto.GetField()),
			Description: v.Proto.GetMessage(),
		})
	}
	return violations
}

// takeIdempotencyKey fills the key of an order from the Idempotency-Key header of a
// REST call. Two different keys are refused: either could be the one that counts.
func takeIdempotencyKey(ctx context.Context, order *easelv1.CreateGenerationRequest) error {
	for _, key := range originOf(ctx).idempotencyKeys {
		if order.GetIdempotencyKey() == "" {
			order.IdempotencyKey = key
		}
		if order.GetIdempotencyKey() != key {
			return invalidRequest(violation{
				Field:       "idempotency_key",
				Description: "differs from the header Idempotency-Key; send one of the two, or the same value in both",
			})
		}
	}
	return nil
}
