package server

import (
	"context"
	"net"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/easel-grpc/easel/internal/service"
)

// gates decide whether there is room for a call before it begins. Both gRPC servers
// share them, so a caller is one caller over gRPC and over REST.
type gates struct {
	streams *quota
	turns   *turns
}

func newGates(limits Limits) *gates {
	return &gates{
		streams: newQuota(limits.callerStreams(), limits.streams()),
		turns:   newTurns(limits.calls()),
	}
}

// lasting are the calls that may last: they are counted as streams, and wait for no turn,
// as they don't hold the catalog up while they last.
var lasting = map[string]bool{
	"/easel.v1.GenerationService/WatchGeneration":    true,
	"/easel.v1.GenerationService/WatchGenerations":   true,
	"/easel.v1.GenerationService/WaitGeneration":     true,
	"/easel.v1.GenerationService/DownloadGeneration": true,
}

// rankOf are the ranks of the calls that are not reads of one record.
var rankOf = map[string]rank{
	"/easel.v1.GenerationService/CreateGeneration": rankOrder,
	"/easel.v1.GenerationService/ListGenerations":  rankList,
	"/easel.v1.ModelService/ListModels":            rankList,
}

// enter lets a call in, and gives what lets it out again; or it says why not. ctx is
// that of a call that has been authenticated.
func (g *gates) enter(ctx context.Context, method string, streams bool, from origin) (leave func(), err error) {
	switch {
	case lasting[method]:
		return g.streams.take(service.Subject(ctx))
	case open(method) && streams: // nobody has said who they are
		return g.streams.take(host(from.peer))
	case open(method):
		return func() {}, nil // it asks nothing of the catalog
	}
	rank, ok := rankOf[method]
	if !ok {
		rank = rankRead
	}
	return g.turns.take(ctx, rank)
}

// host is an address without its port.
func host(addr string) string {
	if name, _, err := net.SplitHostPort(addr); err == nil {
		return name
	}
	return addr
}

// overload refuses what there is no room for.
func overload(text string, after time.Duration) error {
	return refusalOf(reasonOverloaded, text+": try again a little later", retryInfo(after))
}

// refusalOf is RESOURCE_EXHAUSTED with a reason and more.
func refusalOf(reason, text string, more ...protoadapt.MessageV1) error {
	info := &errdetails.ErrorInfo{Domain: errorDomain, Reason: reason}
	st, err := status.New(codes.ResourceExhausted, text).WithDetails(append([]protoadapt.MessageV1{info}, more...)...)
	if err != nil { // only for code OK
		return refusal(codes.ResourceExhausted, reason, text)
	}
	return st.Err()
}

func quotaFailure(text string) protoadapt.MessageV1 {
	return &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{Subject: "caller", Description: text}}}
}

func retryInfo(after time.Duration) protoadapt.MessageV1 {
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(after)}
}

// refusals count what was refused, so that callers that are sent away together do not
// come back together.
type refusals uint32

// delay is how long the next caller that is refused should stay away: from 1 s to 2 s,
// and far from the delays just before.
func (r *refusals) delay() time.Duration {
	*r++
	const golden = 0x9E3779B9 // 2^32 over the golden ratio
	return time.Second + time.Duration(uint32(*r)*golden)*time.Second>>32
}
