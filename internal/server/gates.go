package server

import (
	"context"
	"net"

	"github.com/easel-grpc/easel/internal/service"
)

// gates decide whether there is room for a call before it begins. Both gRPC servers
// share them, so a caller is one caller over gRPC and over REST.
type gates struct {
	streams     *quota
	generations *quota // that watches of many name
	turns       *turns
}

func newGates(limits Limits) *gates {
	return &gates{
		streams:     newStreamQuota(limits.callerStreams(), limits.streams()),
		generations: newGenerationQuota(callerGenerations, allGenerations),
		turns:       newTurns(limits.calls()),
	}
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
		return g.streams.take(service.Subject(ctx), 1)
	case open(method) && streams: // nobody has said who they are
		return g.streams.take(host(from.peer), 1)
	case open(method):
		return func() {}, nil // it asks nothing of the catalog
	}
	rank, ok := rankOf[method]
	if !ok {
		rank = rankRead
	}
	return g.turns.take(ctx, rank, service.Subject(ctx))
}

// cover lets the request of a stream in, by how many generations it names.
func (g *gates) cover(ctx context.Context, request any) (leave func(), err error) {
	many, ok := request.(interface{ GetGenerationIds() []string })
	if !ok {
		return func() {}, nil
	}
	return g.generations.take(service.Subject(ctx), len(many.GetGenerationIds()))
}

// host is an address without its port.
func host(addr string) string {
	if name, _, err := net.SplitHostPort(addr); err == nil {
		return name
	}
	return addr
}
