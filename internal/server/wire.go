package server

import (
	"fmt"
	"sync"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/easel-grpc/easel/internal/service"
)

// maxWireDepth is how deep messages may be nested: each of the 64 levels of inputs is three messages.
const maxWireDepth = 3*64 + 8

// wireFields are the fields of a message that are counted on the wire, before anything is built of them.
type wireFields map[protowire.Number]*wireField

type wireField struct {
	protoreflect.FieldDescriptor
	most   int        // items; 0: as many as there are
	fields wireFields // of the message that it holds
}

// wireShapes has the shape of each type of message that was seen.
var wireShapes sync.Map // of wireFields, by the name of the message

// wireShape gives the shape of a message.
func wireShape(message protoreflect.MessageDescriptor) wireFields {
	if known, ok := wireShapes.Load(message.FullName()); ok {
		return known.(wireFields)
	}
	made := newWireFields(message, map[protoreflect.FullName]wireFields{})
	wireShapes.Store(message.FullName(), made)
	return made
}

func newWireFields(message protoreflect.MessageDescriptor, made map[protoreflect.FullName]wireFields) wireFields {
	if shape, ok := made[message.FullName()]; ok {
		return shape
	}
	shape := wireFields{}
	made[message.FullName()] = shape
	for n := range message.Fields().Len() {
		field := &wireField{FieldDescriptor: message.Fields().Get(n)}
		field.most = mostItems(field)
		if field.Message() != nil {
			field.fields = newWireFields(field.Message(), made)
		}
		if field.most > 0 || field.Message() != nil {
			shape[field.Number()] = field
		}
	}
	return shape
}

// mostItems is how many items a list or a map may have, by the rules of the contract; 0: it has no rule.
func mostItems(field protoreflect.FieldDescriptor) int {
	rules, _ := proto.GetExtension(field.Options(), validate.E_Field).(*validate.FieldRules)
	return int(max(rules.GetRepeated().GetMaxItems(), rules.GetMap().GetMaxPairs()))
}

// wireCount counts what a message has on the wire. The parts of a field that comes more than once count together,
// as they become one.
type wireCount struct {
	items  map[*wireField]int
	values int // of Structs
}

// checkWire reports which field of a message on the wire has more items than it may, or is nested too deep. What is
// malformed is for the decoder.
func checkWire(message protoreflect.MessageDescriptor, data []byte) *service.Violation {
	count := wireCount{items: map[*wireField]int{}}
	return count.message(wireShape(message), data, 0)
}

func (c *wireCount) message(fields wireFields, data []byte, depth int) *service.Violation {
	if depth > maxWireDepth {
		return &service.Violation{Description: service.TooDeep}
	}
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeField(data)
		if n < 0 {
			return nil
		}
		if field := fields[number]; field != nil {
			_, _, tag := protowire.ConsumeTag(data)
			if broken := c.field(field, kind, data[tag:n], depth); broken != nil {
				return broken
			}
		}
		data = data[n:]
	}
	return nil
}

// field counts one field as it stands on the wire.
func (c *wireCount) field(field *wireField, kind protowire.Type, value []byte, depth int) *service.Violation {
	if broken := c.count(field, kind, value); broken != nil {
		return broken
	}
	if field.fields == nil || kind != protowire.BytesType {
		return nil
	}
	inner, _ := protowire.ConsumeBytes(value)
	broken := c.message(field.fields, inner, depth+1)
	if broken != nil && !isStruct(field.ContainingMessage()) { // whose fields no caller knows
		if broken.Field != "" {
			broken.Field = "." + broken.Field
		}
		broken.Field = string(field.Name()) + broken.Field
	}
	return broken
}

// count counts the items of a list or a map.
func (c *wireCount) count(field *wireField, kind protowire.Type, value []byte) *service.Violation {
	if isStruct(field.ContainingMessage()) && field.Cardinality() == protoreflect.Repeated {
		if c.values++; c.values > service.MaxValues {
			return &service.Violation{Description: service.TooManyValues}
		}
	}
	if field.most == 0 {
		return nil
	}
	if c.items[field] += wireItems(field.Kind(), kind, value); c.items[field] > field.most {
		return &service.Violation{Field: string(field.Name()), Description: fmt.Sprintf("must contain no more than %d item(s)", field.most)}
	}
	return nil
}

// wireItems is how many items one occurrence of a list has: many where they are packed.
func wireItems(item protoreflect.Kind, kind protowire.Type, value []byte) int {
	if kind != protowire.BytesType || item == protoreflect.StringKind || item == protoreflect.BytesKind || item == protoreflect.MessageKind {
		return 1
	}
	packed, _ := protowire.ConsumeBytes(value)
	last := 0 // the last byte of each number, which in the contract is always a varint
	for _, b := range packed {
		if b < 0x80 {
			last++
		}
	}
	return last
}

// isStruct reports whether a message is one of those that a Struct is made of.
func isStruct(message protoreflect.MessageDescriptor) bool {
	return message.ParentFile().Path() == structpb.File_google_protobuf_struct_proto.Path()
}
