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
	bytes       *requestBytes

	// What is open under API keys that the catalog has not accepted yet.
	newStreams, newTurns, newGenerations *newcomers

	accepted func(subject string) bool
}

func newGates(limits Limits, accepted func(key string) bool) *gates {
	return &gates{
		streams:        newStreamQuota(limits.callerStreams(), limits.streams()),
		generations:    newGenerationQuota(callerGenerations, allGenerations),
		turns:          newTurns(limits.calls()),
		bytes:          newRequestBytes(limits.requestBytes()),
		newStreams:     newNewcomers(limits.streams()/newcomersPart, accepted),
		newTurns:       newNewcomers(limits.calls()/newcomersPart, accepted),
		newGenerations: newNewcomers(allGenerations/newcomersPart, accepted),
		accepted:       accepted,
	}
}

// rankOf are the ranks of the calls that are not reads of one record.
var rankOf = map[string]rank{
	"/easel.v1.GenerationService/CreateGeneration": rankOrder,
	"/easel.v1.GenerationService/ListGenerations":  rankList,
	"/easel.v1.ModelService/ListModels":            rankList,
}

// enter lets a call in by its request, and gives what lets it out again; or it says why not. ctx is
// that of a call that has been authenticated.
func (g *gates) enter(ctx context.Context, method string, streams bool, from origin, request any) (leave func(), err error) {
	many, ok := request.(interface{ GetGenerationIds() []string })
	if !ok {
		return g.admit(ctx, method, streams, from)
	}
	uncover, err := g.cover(ctx, len(many.GetGenerationIds()))
	if err != nil {
		return nil, err
	}
	end, err := g.admit(ctx, method, streams, from)
	if err != nil {
		uncover()
		return nil, err
	}
	return func() { end(); uncover() }, nil
}

// cover takes the places of the renders that a watch names.
func (g *gates) cover(ctx context.Context, renders int) (leave func(), err error) {
	subject := service.Subject(ctx)
	return g.share(ctx, subject, g.newGenerations, renders, func() (func(), error) {
		return g.generations.take(subject, renders)
	})
}

// admit lets a call in by its method.
func (g *gates) admit(ctx context.Context, method string, streams bool, from origin) (leave func(), err error) {
	switch {
	case open(method) && streams: // nobody has said who they are
		return g.streams.take(host(from.peer), 1)
	case open(method):
		return func() {}, nil // it asks nothing of the catalog
	}
	subject := service.Subject(ctx)
	newcomers := g.newTurns
	if lasting[method] {
		newcomers = g.newStreams
	}
	return g.share(ctx, subject, newcomers, 1, func() (func(), error) { return g.take(ctx, method, subject) })
}

// share takes what a caller needs, and for a newcomer first as many places of the newcomers' part.
func (g *gates) share(ctx context.Context, subject string, part *newcomers, places int, take func() (leave func(), err error)) (leave func(), err error) {
	if g.accepted(subject) {
		return take()
	}
	settle, err := part.take(ctx, subject, places)
	if err != nil {
		return nil, err
	}
	end, err := take()
	if err != nil {
		settle()
		return nil, err
	}
	return func() { end(); settle() }, nil
}

// take takes the place of a call among all others.
func (g *gates) take(ctx context.Context, method, subject string) (leave func(), err error) {
	if lasting[method] {
		return g.streams.take(subject, 1)
	}
	rank, ok := rankOf[method]
	if !ok {
		rank = rankRead
	}
	return g.turns.take(ctx, rank, subject)
}

// owner is whose the bytes of a request are: "" is everybody whom the catalog has not accepted.
func (g *gates) owner(ctx context.Context, method string) string {
	if subject := service.Subject(ctx); !open(method) && g.accepted(subject) {
		return subject
	}
	return ""
}

// host is an address without its port.
func host(addr string) string {
	if name, _, err := net.SplitHostPort(addr); err == nil {
		return name
	}
	return addr
}
