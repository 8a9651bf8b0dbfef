package main

import (
	"fmt"
	"iter"
	"os"
	"regexp"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	_ "google.golang.org/genproto/googleapis/api/annotations" // registers the options
)

// contract contains the declarations of the .proto files: methods by the operation IDs of the OpenAPI 2 document, and
// messages by schema name.
type contract struct {
	methods  map[string]protoreflect.MethodDescriptor
	messages map[string]protoreflect.MessageDescriptor
	// answered contains the messages in responses. All other messages are only in requests.
	answered map[protoreflect.FullName]bool
}

func readContract(image string) (contract, error) {
	c := contract{map[string]protoreflect.MethodDescriptor{}, map[string]protoreflect.MessageDescriptor{}, map[protoreflect.FullName]bool{}}
	text, err := os.ReadFile(image)
	if err != nil {
		return c, err
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(text, &set); err != nil {
		return c, err
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		return c, err
	}
	files.RangeFilesByPackage("easel.v1", func(file protoreflect.FileDescriptor) bool {
		c.add(file)
		return true
	})
	return c, nil
}

func (c contract) add(file protoreflect.FileDescriptor) {
	for n := range file.Messages().Len() {
		message := file.Messages().Get(n)
		c.messages[string(message.Name())] = message
	}
	for n := range file.Services().Len() {
		service := file.Services().Get(n)
		for m := range service.Methods().Len() {
			method := service.Methods().Get(m)
			c.methods[fmt.Sprintf("%s_%s", service.Name(), method.Name())] = method
			c.answer(method.Output())
		}
	}
}

// answer adds a message and its nested messages to c.answered.
func (c contract) answer(message protoreflect.MessageDescriptor) {
	if c.answered[message.FullName()] {
		return
	}
	c.answered[message.FullName()] = true
	for field := range fields(message) {
		if inner := field.Message(); inner != nil {
			c.answer(inner)
		}
	}
}

// fields returns the fields of a message, in the order of the .proto file.
func fields(message protoreflect.MessageDescriptor) iter.Seq[protoreflect.FieldDescriptor] {
	return func(yield func(protoreflect.FieldDescriptor) bool) {
		for n := 0; n < message.Fields().Len() && yield(message.Fields().Get(n)); n++ {
		}
	}
}

// comment returns the comment of a declaration, as Markdown.
func comment(d protoreflect.Descriptor) string {
	lines := strings.Split(d.ParentFile().SourceLocations().ByDescriptor(d).LeadingComments, "\n")
	for n, line := range lines {
		lines[n] = strings.TrimPrefix(line, " ")
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// limits contains the rules of a field that JSON Schema can express, too. A zero value means that there is no such rule.
type limits struct {
	pattern     string
	maxLength   uint64
	maxItems    uint64
	min         *float64
	items       *limits
	nonNegative bool // for a 64-bit number or a duration, which are strings in JSON
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
			_, _ = fmt.Sscan(m[1], &l.maxLength) // cannot fail for digits
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
