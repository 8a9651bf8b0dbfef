package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/getkin/kin-openapi/openapi3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"

	"github.com/easel-grpc/easel/internal/tools/image"
)

// Patterns for numbers and durations that protobuf's JSON format encodes as strings.
const (
	whole       = `^-?[0-9]+$`
	natural     = `^[0-9]+$`
	anyDuration = `^-?[0-9]+(\.[0-9]{1,9})?s$`
	duration    = `^[0-9]+(\.[0-9]{1,9})?s$`
)

// addMissingParts adds the parts of the contract that OpenAPI 2 can't express.
func addMissingParts(doc *openapi3.T, c contract) error {
	doc.Servers = openapi3.Servers{{URL: "/", Description: "The server of this document"}}
	doc.Components.SecuritySchemes = openapi3.SecuritySchemes{"bearer": {Value: &openapi3.SecurityScheme{
		Type: "http", Scheme: "bearer", Description: doc.Components.SecuritySchemes["bearer"].Value.Description,
	}}}
	doc.Tags = slices.CompactFunc(doc.Tags, func(a, b *openapi3.Tag) bool { return a.Name == b.Name })
	answers := newAnswers()
	doc.Components.Responses = answers.sharedResponses()
	for _, path := range doc.Paths.InMatchingOrder() {
		item := doc.Paths.Value(path)
		for verb, operation := range item.Operations() {
			name, further := strings.CutSuffix(operation.OperationID, "2") // the generator appends "2" to the ID for a method's second HTTP binding
			method, ok := c.methods[name]
			if !ok {
				return fmt.Errorf("no method has the operation ID %s", operation.OperationID)
			}
			completeOperation(doc, operation, method)
			if further {
				operation.OperationID += "WithBody"
			}
			if err := answers.setResponses(operation, method, verb); err != nil {
				return err
			}
		}
		if content := item.Get; content != nil && strings.HasSuffix(path, "/content") {
			item.Head = headOf(content)
		}
	}
	completeSchemas(doc, c)
	doc.Components.Schemas["Status"].Value.Required = []string{"code"} // an error's code is never 0 (OK), so it is never omitted
	return nil
}

func completeOperation(doc *openapi3.T, operation *openapi3.Operation, method protoreflect.MethodDescriptor) {
	name := string(method.Name())
	operation.OperationID = string(unicode.ToLower(rune(name[0]))) + name[1:]
	operation.Summary = name
	operation.Description = image.Comment(method)
	for _, parameter := range operation.Parameters {
		p := parameter.Value
		field := fieldAt(method.Input(), p.Name)
		if field == nil {
			continue // header parameters do not correspond to fields of the request message
		}
		if field.IsMap() {
			deepObject(p)
		}
		p.Description = image.Comment(field)
		p.Example = p.Extensions["x-example"]
		delete(p.Extensions, "x-example")
		addRules(p.Schema, field)
		if p.In == openapi3.ParameterInPath && p.Schema.Value.Pattern == "" {
			p.Schema.Value.MinLength = 1
		}
	}
	if body := operation.RequestBody; body != nil {
		body.Value.Description = image.Comment(method.Input())
	}
}

// fieldAt returns the field of message that a request parameter sets, or nil if there is no such field.
func fieldAt(message protoreflect.MessageDescriptor, parameter string) (field protoreflect.FieldDescriptor) {
	name, _, _ := strings.Cut(parameter, "[") // removes the suffix [...] of a map parameter
	for part := range strings.SplitSeq(name, ".") {
		if field != nil {
			message = field.Message()
		}
		if field = message.Fields().ByJSONName(part); field == nil {
			return nil
		}
	}
	return field
}

// deepObject sets the style of a map parameter, whose members are written as name[key]=value.
func deepObject(p *openapi3.Parameter) {
	explode := true
	p.Name, _, _ = strings.Cut(p.Name, "[")
	p.Style, p.Explode = openapi3.SerializationDeepObject, &explode
	p.Schema = openapi3.NewSchemaRef("", openapi3.NewObjectSchema().WithAdditionalProperties(openapi3.NewStringSchema()))
}

// headOf returns the HEAD operation that corresponds to a GET operation.
func headOf(get *openapi3.Operation) *openapi3.Operation {
	head := *get
	head.OperationID = "headOf" + strings.ToUpper(get.OperationID[:1]) + get.OperationID[1:]
	head.Summary += " (headers only)"
	head.Description = "The headers that the download would have: its type, size, etag and file name."
	head.Responses = openapi3.NewResponses()
	head.Responses.Delete("default")
	for status, response := range get.Responses.Map() {
		bare := *response
		if response.Value != nil {
			value := *response.Value
			value.Content = nil
			bare = openapi3.ResponseRef{Value: &value}
		}
		head.Responses.Set(status, &bare)
	}
	return &head
}

// completeSchemas adds the validation rules of messages, and the members that responses always contain, to the schemas.
func completeSchemas(doc *openapi3.T, c contract) {
	for _, name := range slices.Sorted(maps.Keys(doc.Components.Schemas)) {
		schema := doc.Components.Schemas[name].Value
		message, ok := c.messages[name]
		if !ok {
			continue
		}
		for property, ref := range schema.Properties {
			field := message.Fields().ByJSONName(property)
			addRules(ref, field)
			openStruct(ref, field)
		}
		if !c.answered[message.FullName()] {
			schema.AdditionalProperties = openapi3.AdditionalProperties{Has: new(false)}
			requireMembers(schema, message)
			continue
		}
		for field := range image.All(message.Fields()) {
			if alwaysThere(field) {
				schema.Required = append(schema.Required, field.JSONName())
			}
		}
	}
}

// openStruct allows any members in a field of type google.protobuf.Struct. Code generators treat an object without declared
// members as empty unless the schema allows other members.
func openStruct(ref *openapi3.SchemaRef, field protoreflect.FieldDescriptor) {
	if ref.Ref == "" && field != nil && field.Message() != nil && field.Message().FullName() == "google.protobuf.Struct" {
		ref.Value.AdditionalProperties = openapi3.AdditionalProperties{Has: new(true)}
	}
}

// alwaysThere reports whether a response always contains the field. This is true for a field that does not track presence,
// because the server writes it even if it is 0 or empty. Of the fields that track presence and are not in a oneof, it is true
// for two kinds: emit_time, and a message of the contract in a response or an update.
func alwaysThere(field protoreflect.FieldDescriptor) bool {
	if !field.HasPresence() {
		return true
	}
	holder := string(field.Parent().Name())
	record := field.Message() != nil && field.Message().ParentFile().Package() == field.ParentFile().Package()
	return field.ContainingOneof() == nil &&
		(field.Name() == "emit_time" || record && (strings.HasSuffix(holder, "Response") || strings.HasSuffix(holder, "Update")))
}

// requireMembers declares in a request's schema which members are required: modelId, if the schema has this member, and
// exactly one of the members in each oneof rule.
func requireMembers(schema *openapi3.Schema, message protoreflect.MessageDescriptor) {
	rules, _ := proto.GetExtension(message.Options(), validate.E_Message).(*validate.MessageRules)
	for _, rule := range rules.GetOneof() {
		for _, name := range rule.GetFields() {
			field := message.Fields().ByName(protoreflect.Name(name))
			schema.OneOf = append(schema.OneOf, openapi3.NewSchemaRef("", &openapi3.Schema{Required: []string{field.JSONName()}}))
		}
	}
	if schema.Properties["modelId"] != nil {
		schema.Required = append(schema.Required, "modelId")
	}
}

// addRules adds the validation rules of a field to its schema.
func addRules(ref *openapi3.SchemaRef, field protoreflect.FieldDescriptor) {
	if ref.Ref != "" || field == nil {
		return
	}
	rules := limitsOf(field)
	apply(ref.Value, rules)
	if field.IsList() && rules.items != nil {
		apply(ref.Value.Items.Value, *rules.items)
	}
	if field.IsList() || ref.Value.Pattern != "" {
		return
	}
	ref.Value.Pattern = textOf(field, rules.nonNegative)
}

// textOf returns the pattern for a field that is a number or a duration in protobuf, but a string in JSON. It returns "" for
// all other fields.
func textOf(field protoreflect.FieldDescriptor, nonNegative bool) string {
	any, positive := "", ""
	switch {
	case field.Kind() == protoreflect.Int64Kind:
		any, positive = whole, natural
	case field.Message() != nil && field.Message().FullName() == "google.protobuf.Duration":
		any, positive = anyDuration, duration
	}
	if nonNegative {
		return positive
	}
	return any
}

func apply(schema *openapi3.Schema, rules limits) {
	schema.Pattern = rules.pattern
	if rules.maxLength > 0 {
		schema.MaxLength = &rules.maxLength
	}
	if rules.maxItems > 0 {
		schema.MaxItems = &rules.maxItems
	}
	if rules.min != nil {
		schema.Min = rules.min
	}
}
