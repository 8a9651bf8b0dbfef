package server

import (
	"net/http"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// fullMethods are the methods of the contract as gRPC names them.
func fullMethods() map[string]bool {
	names := map[string]bool{}
	service.Methods(func(m protoreflect.MethodDescriptor) { names[service.FullMethod(m)] = true })
	return names
}

// lasting are the calls that may last: they are counted as streams, and wait for no turn,
// as they don't hold the catalog up while they last.
var lasting = map[string]bool{
	"/easel.v1.GenerationService/WatchGeneration":    true,
	"/easel.v1.GenerationService/WatchGenerations":   true,
	"/easel.v1.GenerationService/WaitGeneration":     true,
	"/easel.v1.GenerationService/DownloadGeneration": true,
}

// lingers reports whether a call may be open for an hour in which little happens. A span of all of
// it would be seen after that, and kept until then: it has a span of its opening, and one of its end.
func lingers(method string) bool {
	return lasting[method] && method != easelv1.GenerationService_DownloadGeneration_FullMethodName
}

// open reports whether a method needs no credential. All that is not listed does.
func open(method string) bool {
	return strings.HasPrefix(method, "/grpc.health.v1.Health/") ||
		strings.HasPrefix(method, "/grpc.reflection.")
}

// ofContract reports whether a message type is one of the contract's.
func ofContract(name protoreflect.FullName) bool { return name.Parent() == "easel.v1" }

// The routes of the calls that have handlers of our own.
const (
	waitPath     = "/v1/generations/{generation_id}:wait"
	watchPath    = "/v1/generations/{generation_id}:watch"
	watchAllPath = "/v1/generations:watch"
	contentPath  = "/v1/generations/{generation_id}/content"
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

// bareTemplate is a template without what its fields must look like.
func bareTemplate(template string) string {
	return strings.NewReplacer("=**}", "}", "=*}", "}").Replace(template)
}

// bindings visits every method that has a REST form.
func bindings(visit func(protoreflect.MethodDescriptor, binding)) {
	service.Methods(func(m protoreflect.MethodDescriptor) {
		rule, ok := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
		if !ok {
			return
		}
		switch pattern := rule.GetPattern().(type) {
		case *annotations.HttpRule_Get:
			visit(m, binding{verb: http.MethodGet, template: pattern.Get})
		case *annotations.HttpRule_Post:
			visit(m, binding{verb: http.MethodPost, template: pattern.Post, inBody: rule.GetBody() == "*"})
		case *annotations.HttpRule_Delete:
			visit(m, binding{verb: http.MethodDelete, template: pattern.Delete})
		}
	})
}

// jsonOut writes every scalar, so that a reader sees false and 0 and "", and leaves
// out what is absent. Members are camelCase.
var jsonOut = protojson.MarshalOptions{EmitDefaultValues: true}

// jsonIn refuses members that the contract does not know: a misspelled option would
// be an order for something else. Nesting is bounded well below what the
// protobuf wire format takes, which needs several levels for one of JSON.
var jsonIn = protojson.UnmarshalOptions{DiscardUnknown: false, RecursionLimit: 2000}
