package service

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// Services returns the descriptors of the contract's services.
func Services() []protoreflect.ServiceDescriptor {
	return []protoreflect.ServiceDescriptor{
		easelv1.File_easel_v1_account_service_proto.Services().Get(0),
		easelv1.File_easel_v1_model_service_proto.Services().Get(0),
		easelv1.File_easel_v1_generation_service_proto.Services().Get(0),
	}
}

// Methods calls fn for each method of the contract.
func Methods(fn func(protoreflect.MethodDescriptor)) {
	for _, service := range Services() {
		for n := range service.Methods().Len() {
			fn(service.Methods().Get(n))
		}
	}
}

// FullMethod returns the full name of a method in the format of gRPC, such as "/easel.v1.AccountService/GetAccount".
func FullMethod(m protoreflect.MethodDescriptor) string {
	return fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name())
}
