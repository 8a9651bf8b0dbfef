package server

import (
	"fmt"
	"slices"

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

// routes are the REST routes of the contract, as "METHOD /template".
func routes() []string {
	var all []string
	methods(func(m protoreflect.MethodDescriptor) {
		rule, ok := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
		if !ok {
			return
		}
		switch pattern := rule.GetPattern().(type) {
		case *annotations.HttpRule_Get:
			all = append(all, "GET "+pattern.Get)
		case *annotations.HttpRule_Post:
			all = append(all, "POST "+pattern.Post)
		case *annotations.HttpRule_Delete:
			all = append(all, "DELETE "+pattern.Delete)
		}
	})
	return slices.Compact(all)
}
