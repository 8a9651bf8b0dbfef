package server

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/gate"
)

// longLived are the calls that may stay open for long. They count as streams and wait for no turn, as they take no connection
// to the catalog meanwhile.
var longLived = map[string]bool{
	easelv1.GenerationService_WatchGeneration_FullMethodName:    true,
	easelv1.GenerationService_WatchGenerations_FullMethodName:   true,
	easelv1.GenerationService_WaitGeneration_FullMethodName:     true,
	easelv1.GenerationService_DownloadGeneration_FullMethodName: true,
}

// The classes of calls at the gate: a list costs most and is missed least.
const order, read, list = gate.Order, gate.Read, gate.Poll

// callerTurns is how many turns one caller may have at once, where so many orders may have one.
func callerTurns(orders int) int { return max(1, orders*2/3) }

// turnsOf are how many calls of each class may have their turn at once, where so many orders may: the last are for what is
// missed most.
func turnsOf(orders int) (turns [gate.Classes]int) {
	for class, n := range [gate.Classes]int{order: orders, read: orders * 15 / 16, list: orders * 3 / 4} {
		turns[class] = max(1, n)
	}
	return turns
}

// withReserved adds the turns that a gate reserves for callers that have few.
func withReserved(turns [gate.Classes]int) [gate.Classes]int {
	for class := range turns {
		turns[class] += turns[class] / 15
	}
	return turns
}

// classOf are the classes of the calls that wait for a turn.
var classOf = map[string]gate.Class{
	easelv1.AccountService_GetAccount_FullMethodName:          read,
	easelv1.AccountService_ListUsage_FullMethodName:           list,
	easelv1.ModelService_ListModels_FullMethodName:            list,
	easelv1.ModelService_GetModel_FullMethodName:              read,
	easelv1.GenerationService_QuoteGeneration_FullMethodName:  read,
	easelv1.GenerationService_CreateGeneration_FullMethodName: order,
	easelv1.GenerationService_GetGeneration_FullMethodName:    read,
	easelv1.GenerationService_ListGenerations_FullMethodName:  list,
	easelv1.GenerationService_DeleteGeneration_FullMethodName: read,
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
