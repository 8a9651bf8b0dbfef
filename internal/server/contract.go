package server

import (
	"strings"

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

// longLived are the calls that may stay open for long. They count as streams and not in the call limiter, as
// they take no connection to the catalog meanwhile.
var longLived = map[string]bool{
	"/easel.v1.AccountService/WatchAccount":          true,
	"/easel.v1.GenerationService/WatchGeneration":    true,
	"/easel.v1.GenerationService/WatchGenerations":   true,
	"/easel.v1.GenerationService/WaitGeneration":     true,
	"/easel.v1.GenerationService/DownloadGeneration": true,
}

// splitSpan reports whether a call has one span of its opening and one of its end. It may be open for an hour
// in which little happens, and a single span would be exported only after that.
func splitSpan(method string) bool {
	return longLived[method] && method != easelv1.GenerationService_DownloadGeneration_FullMethodName
}

// public reports whether a method needs no credential. All others do.
func public(method string) bool {
	return strings.HasPrefix(method, "/grpc.health.v1.Health/") ||
		strings.HasPrefix(method, "/grpc.reflection.")
}

// ofContract reports whether a message type belongs to the contract.
func ofContract(name protoreflect.FullName) bool { return name.Parent() == "easel.v1" }
