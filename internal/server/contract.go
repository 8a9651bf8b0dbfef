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

// lasting are the calls that may last: they are counted as streams and not by the
// call limiter, as they take nothing of the catalog while they last.
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

// public reports whether a method needs no credential. All others do.
func public(method string) bool {
	return strings.HasPrefix(method, "/grpc.health.v1.Health/") ||
		strings.HasPrefix(method, "/grpc.reflection.")
}

// ofContract reports whether a message type is one of the contract's.
func ofContract(name protoreflect.FullName) bool { return name.Parent() == "easel.v1" }
