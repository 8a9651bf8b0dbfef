package main

import (
	"fmt"
	"regexp"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"

	"github.com/easel-grpc/easel/internal/tools/image"
)

// contract contains the declarations of the .proto files: methods by the operation IDs of the OpenAPI 2 document, and
// messages by schema name.
type contract struct {
	methods  map[string]protoreflect.MethodDescriptor
	messages map[string]protoreflect.MessageDescriptor
	// answered contains the message types that responses contain. All other message types occur only in requests.
	answered map[protoreflect.FullName]bool
}

func readContract(path string) (contract, error) {
	c := contract{map[string]protoreflect.MethodDescriptor{}, map[string]protoreflect.MessageDescriptor{}, map[protoreflect.FullName]bool{}}
	files, err := image.Read(path)
	for _, file := range files {
		c.add(file)
	}
	return c, err
}

func (c contract) add(file protoreflect.FileDescriptor) {
	for message := range image.All(file.Messages()) {
		c.messages[string(message.Name())] = message
	}
	for service := range image.All(file.Services()) {
		for method := range image.All(service.Methods()) {
			c.methods[fmt.Sprintf("%s_%s", service.Name(), method.Name())] = method
			c.addMessage(method.Output())
		}
	}
}

// addMessage adds a message to the field answered, with the messages that its fields contain at any depth.
func (c contract) addMessage(message protoreflect.MessageDescriptor) {
	if c.answered[message.FullName()] {
		return
	}
	c.answered[message.FullName()] = true
	for field := range image.All(message.Fields()) {
		if inner := field.Message(); inner != nil {
			c.addMessage(inner)
		}
	}
}

// limits contains the validation rules of a field that JSON Schema can also express. The zero value of a member means that the
// field does not have this rule.
type limits struct {
	pattern     string
	maxLength   uint64
	maxItems    uint64
	min         *float64
	items       *limits
	nonNegative bool // whether a 64-bit number or a duration must not be negative; the field min can't express this, because JSON encodes both types as strings
}

var (
	matches = regexp.MustCompile(`^this\.matches\('(.*?)'\)`)
	atMost  = regexp.MustCompile(`size\(bytes\(this\)\) <= (\d+)`)
)

func limitsOf(field protoreflect.FieldDescriptor) limits {
	rules, _ := proto.GetExtension(field.Options(), validate.E_Field).(*validate.FieldRules)
	return readRules(rules)
}

func readRules(rules *validate.FieldRules) (l limits) {
	for _, rule := range rules.GetCel() {
		if m := matches.FindStringSubmatch(rule.GetExpression()); m != nil {
			l.pattern = strings.ReplaceAll(m[1], `\\`, `\`)
		}
		if m := atMost.FindStringSubmatch(rule.GetExpression()); m != nil {
			_, _ = fmt.Sscan(m[1], &l.maxLength) // cannot fail, because the text consists of digits
		}
	}
	if text := rules.GetString(); text != nil {
		l.maxLength = max(text.GetMaxBytes(), text.GetMaxLen(), l.maxLength)
	}
	if list := rules.GetRepeated(); list != nil {
		items := readRules(list.GetItems())
		l.maxItems, l.items = list.GetMaxItems(), &items
	}
	if number := rules.GetInt32(); number != nil && number.HasGte() {
		least := float64(number.GetGte())
		l.min = &least
	}
	l.nonNegative = rules.GetInt64().HasGte() || rules.GetDuration().HasGte()
	return l
}
