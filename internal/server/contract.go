package server

import (
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// services are those of the contract. What the server has to know of them, it reads
// from here: names for health, methods for tracing, routes for people.
func services() []protoreflect.ServiceDescriptor {
	return []protoreflect.ServiceDescriptor{
		easelv1.File_easel_v1_account_service_proto.Services().Get(0),
		easelv1.File_easel_v1_model_service_proto.Services().Get(0),
		easelv1.File_easel_v1_generation_service_proto.Services().Get(0),
	}
}

func methods(visit func(protoreflect.MethodDescriptor)) {
	for _, service := range services() {
		for n := range service.Methods().Len() {
			visit(service.Methods().Get(n))
		}
	}
}

// fullMethods are the methods of the contract as gRPC names them.
func fullMethods() map[string]bool {
	names := map[string]bool{}
	methods(func(m protoreflect.MethodDescriptor) {
		names[fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name())] = true
	})
	return names
}

// requestTypes are empty messages of every request type of the contract.
func requestTypes() ([]proto.Message, error) {
	var requests []proto.Message
	var failed error
	methods(func(m protoreflect.MethodDescriptor) {
		request, err := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
		if err != nil {
			failed = fmt.Errorf("the request type of %s: %w", m.FullName(), err)
			return
		}
		requests = append(requests, request.New().Interface())
	})
	return requests, failed
}

// ofContract reports whether a message type is one of the contract's.
func ofContract(name protoreflect.FullName) bool { return name.Parent() == "easel.v1" }

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
	methods(func(m protoreflect.MethodDescriptor) {
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
