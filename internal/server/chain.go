package server

import (
	"context"
	"crypto/tls"
	"log/slog"
	"strings"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/reload"
	"github.com/easel-grpc/easel/internal/service"
)

// longLived contains the methods whose calls may stay open for a long time. The limit on streams applies to all of them,
// although WaitGeneration is unary.
var longLived = map[string]bool{
	easelv1.GenerationService_WatchGeneration_FullMethodName:    true,
	easelv1.GenerationService_WatchGenerations_FullMethodName:   true,
	easelv1.GenerationService_WatchEvents_FullMethodName:        true,
	easelv1.GenerationService_WaitGeneration_FullMethodName:     true,
	easelv1.GenerationService_DownloadGeneration_FullMethodName: true,
}

// isPublic reports whether a method needs no credential. Only the methods for health and reflection need none.
func isPublic(method string) bool {
	return strings.HasPrefix(method, "/grpc.health.v1.Health/") || strings.HasPrefix(method, "/grpc.reflection.")
}

// chain processes every call of both gRPC servers. The steps are listed from the outermost to the innermost:
//
//	stats handler   creates the span, the measurements and the log line
//	status          converts an error to a status
//	recover         converts a panic to an error
//	authenticate    adds the caller to the context
//	count           limits the concurrent calls of a caller and of the server
//	check           validates the request
type chain struct {
	service                 Service
	logger                  *slog.Logger
	rules                   rules
	tracing                 *tracing
	certificates            *reload.Value[*tls.Config] // current certificates; nil without TLS
	calls, streams, watched *counts                    // limits for short calls, for streams and waits, and for the renders named by open watches
	probes                  *counts                    // limits the health and reflection streams of each connection
	maxMessage              int                        // maximum size of a request in bytes
	methods                 map[string]grpc.MethodInfo // methods of the gRPC servers, by full name
	refusals                *rate.Limiter              // limits the rate of log lines about unauthenticated callers
}

func newChain(config Config, rules rules, tracing *tracing) *chain {
	limits := config.Limits
	return &chain{
		service: config.Service, logger: config.logger(), rules: rules, tracing: tracing,
		calls: newCounts("calls", limits.callerCalls(), limits.calls(), easelv1.ErrorReason_OVERLOADED, "send fewer calls at the same time"),
		streams: newCounts("watches, waits and downloads", limits.callerStreams(), limits.streams(), easelv1.ErrorReason_STREAM_QUOTA_EXCEEDED,
			"end one of them first, or watch many renders on one stream"),
		watched: newCounts("watched renders", callerWatched, allWatched, easelv1.ErrorReason_STREAM_QUOTA_EXCEEDED,
			"end a watch first, or watch everything"),
		probes:     newCounts("health watches and reflection streams", connProbes, limits.conns(), easelv1.ErrorReason_STREAM_QUOTA_EXCEEDED, "end one of them first"),
		maxMessage: limits.maxRequest(), methods: map[string]grpc.MethodInfo{}, refusals: rate.NewLimiter(refusalLines, refusalLines),
	}
}

// options returns the gRPC server options that install the chain. findOrigin returns the origin of a call from its context.
func (c *chain) options(findOrigin func(context.Context) origin) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.StatsHandler(statsHandler{c, findOrigin}),
		grpc.UnaryInterceptor(c.unary),
		grpc.StreamInterceptor(c.stream),
		grpc.MaxRecvMsgSize(c.maxMessage),
	}
}

// register adds the methods of a gRPC server to c.methods.
func (c *chain) register(server *grpc.Server) {
	for name, info := range server.GetServiceInfo() {
		for _, m := range info.Methods {
			c.methods["/"+name+"/"+m.Name] = m
		}
	}
}

func (c *chain) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	call := callOf(ctx)
	err := call.run(ctx, func(ctx context.Context) (err error) {
		if err = call.checkRequest(req); err == nil {
			call.answer, err = handle(ctx, req)
		}
		return err
	})
	return call.answer, err // the gRPC library ignores the response of a failed call
}

func (c *chain) stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	call := callOf(stream.Context())
	return call.run(stream.Context(), func(ctx context.Context) error { return handle(srv, &checkedStream{stream, ctx, call}) })
}

// run authenticates and counts a call, and then calls handleCall. It converts every error to a status.
func (c *call) run(ctx context.Context, handleCall func(context.Context) error) error {
	return c.fail(func() (err error) {
		defer c.recoverPanic(&err)
		ctx, err := c.authenticate(ctx)
		if err != nil {
			return err
		}
		if c.release, err = c.countCall(); err != nil {
			return err
		}
		defer func() { c.release() }()
		return handleCall(ctx)
	}())
}

// authenticate adds the identity of the caller to the context of a call. Health and reflection need no credential.
func (c *call) authenticate(ctx context.Context) (context.Context, error) {
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err() // the call is already canceled, so it needs no authentication
	case isPublic(c.method):
		return ctx, nil
	case !c.stillVerified(c.origin.tls):
		return nil, auth.ErrUncertified
	}
	ctx, err := c.service.Authenticate(context.WithValue(ctx, service.AddressKey{}, c.origin.peer), c.certificate(c.origin.tls))
	if err != nil {
		return nil, err
	}
	if c.method == easelv1.GenerationService_CreateGeneration_FullMethodName {
		ctx = service.WithOrderID(ctx, &c.order)
	}
	c.ctx = ctx
	return ctx, nil
}

// countCall counts a call as concurrent until release is called. It returns an error if a limit on concurrent calls is reached.
// Health and reflection streams have a separate limit for each connection, so that one client can't use up the limit for all
// clients. All other calls without a credential share one limit, as if they came from a single caller.
func (c *call) countCall() (release func(), err error) {
	if isPublic(c.method) && c.methods[c.method].IsServerStream {
		return c.probes.acquire(c.origin.peer, 1)
	}
	if c.methods[c.method].IsServerStream || longLived[c.method] {
		return c.streams.acquire(auth.Of(c.ctx).Subject(), 1)
	}
	return c.calls.acquire(auth.Of(c.ctx).Subject(), 1)
}

// checkRequest validates a request against the rules of the contract. It also stores the IDs and names in the request for the
// log line and the span.
func (c *call) checkRequest(req any) error {
	err := c.rules.checkRequest(c.origin.idempotencyKeys, req)
	if c.names = namesOf(req); err != nil {
		return err
	}
	c.enter()
	return nil
}

// checkedStream wraps a stream of the server. It validates the received requests and counts the sent messages.
type checkedStream struct {
	grpc.ServerStream
	ctx  context.Context //nolint:containedctx // the handler's context, which contains the caller's identity
	call *call
}

// Context implements grpc.ServerStream.
func (s *checkedStream) Context() context.Context { return s.ctx }

// RecvMsg implements grpc.ServerStream.
func (s *checkedStream) RecvMsg(message any) error {
	if err := s.ServerStream.RecvMsg(message); status.Code(err) == codes.Internal {
		return errUndecodable
	} else if err != nil {
		return err
	}
	if err := s.call.checkRequest(message); err != nil {
		return err
	}
	return s.call.countWatched(message)
}

// countWatched counts each generation ID in a WatchGenerations request as a watched render, until the call ends. It returns an
// error if the number of watched renders would exceed a limit.
func (c *call) countWatched(request any) error {
	many, ok := request.(*easelv1.WatchGenerationsRequest)
	if !ok {
		return nil
	}
	release, err := c.watched.acquire(auth.Of(c.ctx).Subject(), len(many.GetGenerationIds()))
	if err == nil {
		stream := c.release
		c.release = func() { release(); stream() }
	}
	return err
}

// SendMsg implements grpc.ServerStream.
func (s *checkedStream) SendMsg(message any) error {
	err := s.ServerStream.SendMsg(message)
	if err == nil {
		chunk, _ := message.(*easelv1.DownloadGenerationResponse) // nil unless the message is a chunk of a download
		s.call.countMessage(len(chunk.GetChunk().GetData()))
	}
	return err
}
