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

// rules validates requests against the contract's rules.
type rules struct{ validator protovalidate.Validator }

// ofContract reports whether a message type belongs to the contract.
func ofContract(name protoreflect.FullName) bool { return name.Parent() == "easel.v1" }

// newRules compiles the rules once per process. It returns an error if a rule is invalid.
var newRules = sync.OnceValues(func() (rules, error) {
	var requests []protoreflect.MessageDescriptor
	service.Methods(func(m protoreflect.MethodDescriptor) { requests = append(requests, m.Input()) })
	validator, err := protovalidate.New(protovalidate.WithMessageDescriptors(requests...), protovalidate.WithDisableLazy())
	if err != nil {
		return rules{}, fmt.Errorf("compile contract rules: %w", err)
	}
	return rules{validator: validator}, nil
})

// checkRequest validates a request. If the request is an order, checkRequest first stores the idempotency key from the REST
// header in the order. idempotencyKeys contains the values of the header. The error lists the violations, up to a maximum
// number.
func (r rules) checkRequest(idempotencyKeys []string, req any) error {
	message, ok := req.(proto.Message)
	if !ok {
		return nil
	}
	if order, ok := req.(*easelv1.CreateGenerationRequest); ok {
		if err := setIdempotencyKey(idempotencyKeys, order); err != nil {
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
	return fmt.Errorf("evaluate contract rules: %w", err)
}

// longList returns a violation if a list or a map has more items than its rule allows. Otherwise it returns nil. It is called
// before the validator, because the validator would check and report every single item.
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

// maxItems returns the maximum number of items that the contract allows in a list or a map. It returns 0 if there is no rule.
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

// fieldOf returns the path of the field that a rule validates, or "" if the path is unknown. ruleID is the ID of the rule. An
// ID that begins with the name of one of the message's fields is itself the path of the validated field.
func fieldOf(message proto.Message, ruleID string) string {
	name, _, _ := strings.Cut(ruleID, ".")
	if message.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(name)) != nil {
		return ruleID
	}
	return ""
}

// alternative returns the name of the field to report for a violation of a message's oneof rule, which requires exactly one of
// several fields. The validator reports no field for such a violation, so alternative returns the first field of the rule. It returns
// "" if the message has no oneof rule.
func alternative(message proto.Message) string {
	rules, _ := proto.GetExtension(message.ProtoReflect().Descriptor().Options(), validate.E_Message).(*validate.MessageRules)
	for _, rule := range rules.GetOneof() {
		return rule.GetFields()[0]
	}
	return ""
}

// setIdempotencyKey copies the idempotency key from the Idempotency-Key headers of a REST request to the order. It returns an
// error if the headers and the order contain different keys.
func setIdempotencyKey(keys []string, order *easelv1.CreateGenerationRequest) error {
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
