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

// public reports whether a method needs no credential. All others do.
func public(method string) bool {
	return strings.HasPrefix(method, "/grpc.health.v1.Health/") ||
		strings.HasPrefix(method, "/grpc.reflection.")
}

// ofContract reports whether a message type belongs to the contract.
func ofContract(name protoreflect.FullName) bool { return name.Parent() == "easel.v1" }
