package server

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// longLived are the calls that may stay open for long. They count as streams.
var longLived = map[string]bool{
	easelv1.GenerationService_WatchGeneration_FullMethodName:    true,
	easelv1.GenerationService_WatchGenerations_FullMethodName:   true,
	easelv1.GenerationService_WaitGeneration_FullMethodName:     true,
	easelv1.GenerationService_DownloadGeneration_FullMethodName: true,
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
