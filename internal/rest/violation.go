package rest

import (
	"regexp"
	"strings"
	"sync"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/easel-grpc/easel/internal/service"
)

const anotherType = "has a value of another type than it takes; /openapi.json says which"

// unreadables are what the gateway and protojson say of a request that they can't read, and the same in words of
// our own. The first group is the field, if there is one.
var unreadables = []struct {
	said *regexp.Regexp
	text string
}{
	{regexp.MustCompile(`unknown field "([^"]*)"`), "is no field of this request"},
	{regexp.MustCompile(`duplicate (?:field|map key) "?([^"]*)"?`), "is given more than once"},
	{regexp.MustCompile(`too many values for field "([^"]*)"`), "is given more than once"},
	{regexp.MustCompile(`more than one value provided for key "([^"]*)"`), "is given more than once"},
	{regexp.MustCompile(`error parsing "([^"]*)", oneof`), "excludes another field that is given"},
	{regexp.MustCompile(`field already set for oneof "([^"]*)"`), "excludes another field that is given"},
	{regexp.MustCompile(`invalid path: "([^"]*)" is not a message`), "has no fields of its own"},
	{regexp.MustCompile(`invalid value for \w+ field (?:key|value):`), "a member of a map has a value of another type"},
	{regexp.MustCompile(`invalid value for \w+ field ([\w.]+)`), anotherType},
	{regexp.MustCompile(`parsing (?:field|list|map key|map value) "([^"]*)"`), anotherType},
	{regexp.MustCompile(`type mismatch, parameter: ([\w.]+)`), anotherType},
	{regexp.MustCompile(`invalid grpc-timeout`), "the header Grpc-Timeout must be digits and one of H, M, S, m, u, n"},
	{regexp.MustCompile(`invalid google\.protobuf\.Duration`), "a duration must be text such as \"15s\""},
	{regexp.MustCompile(`invalid google\.protobuf\.Timestamp`), "a time must be text such as \"2026-01-31T12:00:00Z\""},
	{regexp.MustCompile(`exceeded max recursion depth`), "the body is nested too deeply"},
	{regexp.MustCompile(`invalid UTF-8`), "the body must be valid UTF-8"},
	{regexp.MustCompile(`unexpected EOF|unexpected token $`), "the body ends before its JSON does"},
	{regexp.MustCompile(`invalid character`), "the body is not valid JSON"},
	{regexp.MustCompile(`syntax error|unexpected token`), "the body is not valid JSON, or has a value of another type than its field takes"},
}

// textPosition is where protojson has found what it can't read.
var textPosition = regexp.MustCompile(`\(line (\d+):(\d+)\)`)

// unreadable is the violation of a request that the gateway can't read. Its own words, and those of the parsers
// that it asks, are of another language than the caller's.
func unreadable(said string) service.Violation {
	v := service.Violation{Description: "the request can't be read"}
	for _, known := range unreadables {
		if m := known.said.FindStringSubmatch(said); m != nil {
			v.Description = known.text
			if len(m) > 1 {
				v.Field = m[1]
			}
			break
		}
	}
	if at := textPosition.FindStringSubmatch(said); at != nil {
		v.Description += " (line " + at[1] + ", column " + at[2] + " of the body)"
	}
	return v
}

// requestFields are the fields of all requests, by their names in the contract.
var requestFields = sync.OnceValue(func() map[string]protoreflect.FieldDescriptor {
	fields := map[string]protoreflect.FieldDescriptor{}
	var add func(protoreflect.MessageDescriptor)
	add = func(message protoreflect.MessageDescriptor) {
		for n := range message.Fields().Len() {
			field := message.Fields().Get(n)
			fields[string(field.Name())] = field
			if inner := field.Message(); inner != nil && inner.ParentFile().Package() == message.ParentFile().Package() {
				add(inner)
			}
		}
	}
	service.Methods(func(m protoreflect.MethodDescriptor) { add(m.Input()) })
	return fields
})

// jsonPath is the path of a field as JSON has it: maxCostCents. What stands in a map or in inputs is the caller's own
// name and stays, as does what is no field.
func jsonPath(path string) string {
	parts := strings.Split(path, ".")
	for n, part := range parts {
		name, _, indexed := strings.Cut(part, "[")
		field := requestFields()[name]
		if field == nil || indexed && !field.IsMap() && !field.IsList() {
			return path
		}
		parts[n] = field.JSONName() + part[len(name):]
		if field.IsMap() || field.Message() != nil && field.Message().ParentFile().Package() != field.ParentFile().Package() {
			break
		}
	}
	return strings.Join(parts, ".")
}

// inJSON is a status whose violations name fields as JSON does.
func inJSON(st *status.Status) *status.Status {
	if service.Detail[*errdetails.BadRequest](st) == nil {
		return st
	}
	full := st.Proto()
	for n, detail := range full.GetDetails() {
		bad := &errdetails.BadRequest{}
		if detail.UnmarshalTo(bad) != nil {
			continue
		}
		for _, v := range bad.GetFieldViolations() {
			named := jsonPath(v.GetField())
			if rest, found := strings.CutPrefix(full.GetMessage(), v.GetField()+": "); found && v.GetField() != "" {
				full.Message = named + ": " + rest
			}
			v.Field = named
		}
		if renamed, err := anypb.New(bad); err == nil {
			full.Details[n] = renamed
		}
	}
	return status.FromProto(full)
}
