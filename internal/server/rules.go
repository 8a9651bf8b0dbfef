package server

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// rules check requests against the rules of the contract.
type rules struct{ validator protovalidate.Validator }

// ofContract reports whether a message type belongs to the contract.
func ofContract(name protoreflect.FullName) bool { return name.Parent() == "easel.v1" }

// newRules compiles the rules once for all servers of a process. If a rule is invalid, it returns an error and no server starts.
var newRules = sync.OnceValues(func() (rules, error) {
	var requests []protoreflect.MessageDescriptor
	service.Methods(func(m protoreflect.MethodDescriptor) { requests = append(requests, m.Input()) })
	validator, err := protovalidate.New(protovalidate.WithMessageDescriptors(requests...), protovalidate.WithDisableLazy())
	if err != nil {
		return rules{}, fmt.Errorf("compile the rules of the contract: %w", err)
	}
	return rules{validator: validator}, nil
})

// check sets the idempotency key of an order from the REST headers, then checks the request. The error lists the first
// violations.
func (r rules) check(idempotencyKeys []string, req any) error {
	message, ok := req.(proto.Message)
	if !ok {
		return nil
	}
	if order, ok := req.(*easelv1.CreateGenerationRequest); ok {
		if err := takeIdempotencyKey(idempotencyKeys, order); err != nil {
			return err
		}
	}
	if !ofContract(message.ProtoReflect().Descriptor().FullName()) {
		return nil
	}
	if long := longList(message.ProtoReflect(), ""); long != nil {
		return service.InvalidRequest(*long)
	}
	err := r.validator.Validate(message)
	if err == nil {
		return nil
	}
	if invalid, ok := errors.AsType[*protovalidate.ValidationError](err); ok {
		return service.InvalidRequest(violationsOf(message, invalid)...)
	}
	return fmt.Errorf("evaluate the rules of the contract: %w", err)
}

// longList returns the violation of a list or a map with more items than its rule allows, or nil. The validator would check
// and report each of a million items.
func longList(message protoreflect.Message, path string) (long *service.Violation) {
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		name, items := path+string(field.Name()), 0
		switch {
		case field.IsList():
			items = value.List().Len()
		case field.IsMap():
			items = value.Map().Len()
		case field.Message() != nil && ofContract(field.Message().FullName()):
			long = longList(value.Message(), name+".")
		}
		if items > 0 && items > maxItems(field) {
			long = &service.Violation{Field: name, Description: fmt.Sprintf("must have at most %d items", maxItems(field))}
		}
		return long == nil
	})
	return long
}

// maxItems returns the maximum number of items of a list or a map by the rules of the contract, or 0 without a rule.
func maxItems(field protoreflect.FieldDescriptor) int {
	rules, _ := proto.GetExtension(field.Options(), validate.E_Field).(*validate.FieldRules)
	return int(max(rules.GetRepeated().GetMaxItems(), rules.GetMap().GetMaxPairs()))
}

func violationsOf(message proto.Message, invalid *protovalidate.ValidationError) []service.Violation {
	violations := make([]service.Violation, 0, len(invalid.Violations))
	for _, v := range invalid.Violations {
		violations = append(violations, service.Violation{
			Field:       cmp.Or(protovalidate.FieldPathString(v.Proto.GetField()), fieldOf(message, v.Proto.GetRuleId()), alternative(message)),
			Description: v.Proto.GetMessage(),
		})
	}
	return violations
}

// fieldOf returns the field that a rule of a message is about, or "". The ID of such a rule is the path of the field.
func fieldOf(message proto.Message, rule string) string {
	name, _, _ := strings.Cut(rule, ".")
	if message.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(name)) != nil {
		return rule
	}
	return ""
}

// alternative returns the first field of a rule that requires exactly one of several fields. A violation of such a rule names no
// field.
func alternative(message proto.Message) string {
	rules, _ := proto.GetExtension(message.ProtoReflect().Descriptor().Options(), validate.E_Message).(*validate.MessageRules)
	for _, rule := range rules.GetOneof() {
		return rule.GetFields()[0]
	}
	return ""
}

// takeIdempotencyKey sets the idempotency key of an order from the Idempotency-Key headers of a REST call. Two different keys
// are rejected.
func takeIdempotencyKey(keys []string, order *easelv1.CreateGenerationRequest) error {
	for _, key := range keys {
		if order.GetIdempotencyKey() == "" {
			order.IdempotencyKey = key
		}
		if order.GetIdempotencyKey() != key {
			return service.InvalidRequest(service.Violation{
				Field:       "idempotency_key",
				Description: "differs from the header Idempotency-Key; send one of the two, or the same value in both",
			})
		}
	}
	return nil
}
