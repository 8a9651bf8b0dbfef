package rest

import (
	"net/http"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/easel-grpc/easel/internal/service"
)

// The routes of the calls that have handlers of our own.
const (
	watchAccountPath = "/v1/account:watch"
	waitPath         = "/v1/generations/{generation_id}:wait"
	watchPath        = "/v1/generations/{generation_id}:watch"
	watchAllPath     = "/v1/generations:watch"
	contentPath      = "/v1/generations/{generation_id}/content"
)

// binding is the REST form of a method.
type binding struct {
	verb, template string
	inBody         bool // the request is the body
}

// inPath reports whether the path names a field.
func (b binding) inPath(field protoreflect.Name) bool {
	return strings.Contains(bareTemplate(b.template), "{"+string(field)+"}")
}

// bareTemplate is a template without the patterns of its fields.
func bareTemplate(template string) string {
	return strings.NewReplacer("=**}", "}", "=*}", "}").Replace(template)
}

// bindings visits every REST form of every method that has one.
func bindings(visit func(protoreflect.MethodDescriptor, binding)) {
	service.Methods(func(m protoreflect.MethodDescriptor) {
		rule, ok := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
		if !ok {
			return
		}
		for _, rule := range slices.Concat([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()) {
			switch pattern := rule.GetPattern().(type) {
			case *annotations.HttpRule_Get:
				visit(m, binding{verb: http.MethodGet, template: pattern.Get})
			case *annotations.HttpRule_Post:
				visit(m, binding{verb: http.MethodPost, template: pattern.Post, inBody: rule.GetBody() == "*"})
			case *annotations.HttpRule_Delete:
				visit(m, binding{verb: http.MethodDelete, template: pattern.Delete})
			}
		}
	})
}

// jsonOut writes every scalar, so that a reader sees false and 0 and "", and leaves
// out what is absent. Members are camelCase.
var jsonOut = protojson.MarshalOptions{EmitDefaultValues: true}

// jsonIn refuses members that the contract does not know: a misspelled option would order something
// else. The limit of nesting is well below that of the protobuf wire format, which needs several levels
// for one of JSON.
var jsonIn = protojson.UnmarshalOptions{DiscardUnknown: false, RecursionLimit: 2000}
