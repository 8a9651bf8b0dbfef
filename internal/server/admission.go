package server

import (
	"context"
	"fmt"
	"net"

	"github.com/easel-grpc/easel/internal/service"
)

// admission decides whether a call may begin. Both gRPC servers share it, so the limits of a caller hold
// over gRPC and REST together.
type admission struct {
	streams     *quota
	generations *quota // that watches of many name
	calls       *callLimiter
	bytes       *requestBytes

	// What is open under API keys that the catalog has never accepted.
	unverifiedStreams, unverifiedCalls, unverifiedGenerations *unverifiedLimiter

	accepted func(apiKey string) bool
}

func newAdmission(limits Limits, accepted func(apiKey string) bool) *admission {
	return &admission{
		streams:               newStreamQuota(limits.callerStreams(), limits.streams()),
		generations:           newGenerationQuota(callerGenerations, allGenerations),
		calls:                 newCallLimiter(limits.calls()),
		bytes:                 newRequestBytes(limits.requestBytes()),
		unverifiedStreams:     newUnverifiedLimiter(limits.streams()/unverifiedPart, accepted),
		unverifiedCalls:       newUnverifiedLimiter(limits.calls()/unverifiedPart, accepted),
		unverifiedGenerations: newUnverifiedLimiter(allGenerations/unverifiedPart, accepted),
		accepted:              accepted,
	}
}

// mostGenerations is how many generations a watch may name, and of how many it may say what it knows, as the
// contract has it.
const mostGenerations = 1000

// errManyGenerations refuses a request whose named field has more.
func errManyGenerations(field string) error {
	return service.InvalidRequest(service.Violation{Field: field, Description: fmt.Sprintf("must contain no more than %d item(s)", mostGenerations)})
}

// priorityOf are the priorities of all calls of the contract that wait for a place.
var priorityOf = map[string]priority{
	"/easel.v1.AccountService/GetAccount":          priorityRead,
	"/easel.v1.AccountService/ListUsage":           priorityList,
	"/easel.v1.ModelService/ListModels":            priorityList,
	"/easel.v1.ModelService/GetModel":              priorityRead,
	"/easel.v1.GenerationService/QuoteGeneration":  priorityRead,
	"/easel.v1.GenerationService/CreateGeneration": priorityOrder,
	"/easel.v1.GenerationService/GetGeneration":    priorityRead,
	"/easel.v1.GenerationService/ListGenerations":  priorityList,
	"/easel.v1.GenerationService/DeleteGeneration": priorityRead,
}

// admit admits a call by its request, or says why not. ctx is that of a call that has been
// authenticated. release ends what the call takes of the limits.
func (a *admission) admit(ctx context.Context, method string, streams bool, from origin, request any) (release func(), err error) {
	many, ok := request.(interface {
		GetGenerationIds() []string
		GetKnownEtags() map[string]string
	})
	if !ok {
		return a.admitMethod(ctx, method, streams, from)
	}
	named, known := len(many.GetGenerationIds()), len(many.GetKnownEtags())
	switch { // at once: a request that waits holds its memory
	case named > mostGenerations:
		return nil, errManyGenerations("generation_ids")
	case known > mostGenerations:
		return nil, errManyGenerations("known_etags")
	}
	releaseGenerations, err := a.admitGenerations(ctx, max(named, known))
	if err != nil {
		return nil, err
	}
	releaseCall, err := a.admitMethod(ctx, method, streams, from)
	if err != nil {
		releaseGenerations()
		return nil, err
	}
	return func() { releaseCall(); releaseGenerations() }, nil
}

// admitGenerations counts the generations that a watch names.
func (a *admission) admitGenerations(ctx context.Context, generations int) (release func(), err error) {
	subject := service.Subject(ctx)
	return a.admitUnverified(ctx, subject, a.unverifiedGenerations, generations, func() (func(), error) {
		return a.generations.acquire(subject, generations)
	})
}

// admitMethod admits a call by its method.
func (a *admission) admitMethod(ctx context.Context, method string, streams bool, from origin) (release func(), err error) {
	switch {
	case public(method) && streams: // nobody has said who they are
		return a.streams.acquire(host(from.peer), 1)
	case public(method):
		return func() {}, nil // it asks nothing of the catalog
	}
	subject := service.Subject(ctx)
	unverified := a.unverifiedCalls
	if longLived[method] {
		unverified = a.unverifiedStreams
	}
	return a.admitUnverified(ctx, subject, unverified, 1, func() (func(), error) { return a.admitAmongAll(ctx, method, subject) })
}

// admitUnverified counts a call under an unverified API key against the part of the limit for all such
// API keys, and then against the whole.
func (a *admission) admitUnverified(ctx context.Context, subject string, part *unverifiedLimiter, count int, whole func() (release func(), err error)) (release func(), err error) {
	if a.accepted(subject) {
		return whole()
	}
	releasePart, err := part.acquire(ctx, subject, count)
	if err != nil {
		return nil, err
	}
	releaseWhole, err := whole()
	if err != nil {
		releasePart()
		return nil, err
	}
	return func() { releaseWhole(); releasePart() }, nil
}

// admitAmongAll counts a call among those of all callers.
func (a *admission) admitAmongAll(ctx context.Context, method, subject string) (release func(), err error) {
	if longLived[method] {
		return a.streams.acquire(subject, 1)
	}
	priority, ok := priorityOf[method]
	if !ok {
		priority = priorityRead // and not the zero value, which comes before all others
	}
	return a.calls.acquire(ctx, priority, subject)
}

// owner is the caller that the bytes of a request are counted for: "" is all unverified API keys.
func (a *admission) owner(ctx context.Context, method string) string {
	if subject := service.Subject(ctx); !public(method) && a.accepted(subject) {
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
