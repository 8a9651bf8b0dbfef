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

// longLived has the methods whose calls may stay open for a long time. They count as streams.
var longLived = map[string]bool{
	easelv1.GenerationService_WatchGeneration_FullMethodName:    true,
	easelv1.GenerationService_WatchGenerations_FullMethodName:   true,
	easelv1.GenerationService_WaitGeneration_FullMethodName:     true,
	easelv1.GenerationService_DownloadGeneration_FullMethodName: true,
}

// public reports whether a method needs no credential. All others do.
func public(method string) bool {
	return strings.HasPrefix(method, "/grpc.health.v1.Health/") || strings.HasPrefix(method, "/grpc.reflection.")
}

// chain is the path of a call to its handler, the outermost part first. Both gRPC servers have it.
//
//	stats handler   span, measurements, line in the log
//	recover         a panic becomes an error
//	status          an error becomes a status
//	authenticate    the context has the caller
//	count           a caller and a server have a maximum of calls under way
//	check           the request keeps the rules of the contract
type chain struct {
	service                 Service
	logger                  *slog.Logger
	rules                   rules
	tracing                 *tracing
	certificates            *reload.Value[*tls.Config] // current certificates; nil without TLS
	calls, streams, watched *counts                    // watched counts the renders that open watches name
	probes                  *counts                    // streams without a credential, by connection
	maxMessage              int                        // maximum size of a request in bytes
	methods                 map[string]grpc.MethodInfo // methods of the public server by full name
	refusals                *rate.Limiter              // limits log lines about unauthenticated callers
}

func newChain(config Config, rules rules, tracing *tracing) *chain {
	limits := config.Limits
	return &chain{
		service: config.Service, logger: config.logger(), rules: rules, tracing: tracing,
		calls: newCounts("calls", limits.callerCalls(), limits.calls(), easelv1.ErrorReason_OVERLOADED, "send fewer at once"),
		streams: newCounts("watches, waits and downloads", limits.callerStreams(), limits.streams(), easelv1.ErrorReason_STREAM_QUOTA_EXCEEDED,
			"end one first, or watch many renders on one stream"),
		watched: newCounts("renders of watches", callerWatched, allWatched, easelv1.ErrorReason_STREAM_QUOTA_EXCEEDED,
			"end a watch first, or watch everything"),
		probes:     newCounts("health watches and reflection streams", connProbes, limits.conns(), easelv1.ErrorReason_STREAM_QUOTA_EXCEEDED, "end one first"),
		maxMessage: limits.message(), methods: map[string]grpc.MethodInfo{}, refusals: rate.NewLimiter(refusalLines, refusalLines),
	}
}

// options returns the chain as options of a gRPC server. origin returns the origin of its calls.
func (c *chain) options(origin func(context.Context) origin) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.StatsHandler(statsHandler{c, origin}),
		grpc.UnaryInterceptor(c.unary),
		grpc.StreamInterceptor(c.stream),
		grpc.MaxRecvMsgSize(c.maxMessage),
	}
}

// register adds the methods of a server to the public methods.
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
		if err = call.check(req); err == nil {
			call.answer, err = handle(ctx, req)
		}
		return err
	})
	return call.answer, err // the library ignores the response of a failed call
}

func (c *chain) stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	call := callOf(stream.Context())
	return call.run(stream.Context(), func(ctx context.Context) error { return handle(srv, &checkedStream{stream, ctx, call}) })
}

// run calls the handler of a call that is authenticated and counted.
func (c *call) run(ctx context.Context, handle func(context.Context) error) error {
	return c.fail(func() (err error) {
		defer c.recovered(&err)
		ctx, err := c.authenticate(ctx)
		if err != nil {
			return err
		}
		if c.release, err = c.count(); err != nil {
			return err
		}
		defer func() { c.release() }()
		return handle(ctx)
	}())
}

// authenticate returns the context of a call with its caller. Health and reflection need no credential.
func (c *call) authenticate(ctx context.Context) (context.Context, error) {
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err() // cancelled calls must cost no work
	case public(c.method):
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

// count counts a call until release. A stream without a credential counts on its connection, so that clients that watch the
// health of the server do not use up a limit for all. Other calls without a credential count as the calls of one caller.
func (c *call) count() (release func(), err error) {
	if public(c.method) && c.methods[c.method].IsServerStream {
		return c.probes.acquire(c.origin.peer, 1)
	}
	if c.methods[c.method].IsServerStream || longLived[c.method] {
		return c.streams.acquire(auth.Of(c.ctx).Subject(), 1)
	}
	return c.calls.acquire(auth.Of(c.ctx).Subject(), 1)
}

// check checks a request against the rules of the contract.
func (c *call) check(req any) error {
	err := c.rules.check(c.origin.idempotencyKeys, req)
	if c.names = namesOf(req); err != nil {
		return err
	}
	c.enter()
	return nil
}

// checkedStream checks the requests of a stream and counts its messages.
type checkedStream struct {
	grpc.ServerStream
	ctx  context.Context //nolint:containedctx // has the caller for the handler
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
	if err := s.call.check(message); err != nil {
		return err
	}
	return s.call.watch(message)
}

// watch counts the renders that a watch names, until its call ends.
func (c *call) watch(request any) error {
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
		chunk, _ := message.(*easelv1.DownloadGenerationResponse) // nil for other messages
		s.call.sent(len(chunk.GetChunk().GetData()))
	}
	return err
}
