package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// interceptor does what every call has in common. It is the one place for it, for
// unary and streaming calls, over gRPC and over REST.
type interceptor struct {
	service Service
	rules   rules
	gates   *gates
	tracing *tracing
	stats   stats.Handler // sees calls that take no way through a connection as it sees the others
	logger  *slog.Logger
	// origin says who calls: the peer of a connection, or who the gateway says it
	// calls for.
	origin func(context.Context) origin
}

func newInterceptor(config Config) (interceptor, error) {
	rules, rulesErr := newRules()
	tracing, tracingErr := newTracing()
	return interceptor{
		service: config.Service, rules: rules, gates: newGates(config.Limits), tracing: tracing, stats: newCallStats(), logger: config.logger(),
	}, errors.Join(rulesErr, tracingErr)
}

// from is the interceptor of calls that come from where origin says.
func (i interceptor) from(origin func(context.Context) origin) *interceptor {
	i.origin = origin
	return &i
}

func (i *interceptor) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	entered := false
	err = i.around(ctx, info.FullMethod, false, func(ctx context.Context, span *callSpan) error {
		if err := i.rules.check(ctx, req); err != nil {
			return err
		}
		span.asked(req, false)
		entered = true
		var err error
		if resp, err = handler(ctx, req); err == nil {
			span.answered(resp)
		}
		return err
	})
	if err != nil && info.FullMethod == easelv1.GenerationService_CreateGeneration_FullMethodName {
		err = orderFailure(err, entered)
	}
	return resp, err
}

func (i *interceptor) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	return i.around(stream.Context(), info.FullMethod, true, func(ctx context.Context, span *callSpan) error {
		checked := &checkedStream{ServerStream: stream, ctx: ctx, rules: i.rules, gates: i.gates, span: span}
		defer checked.done()
		return handler(srv, checked)
	})
}

// local makes a call that the gateway handles itself: handle is in the place of the handler of a
// gRPC call. ctx is one that a client would call with.
func (i *interceptor) local(ctx context.Context, method string, req proto.Message, handle func(context.Context, *callSpan) error) error {
	md, _ := metadata.FromOutgoingContext(allowMetadata(ctx))
	ctx = i.stats.TagRPC(metadata.NewIncomingContext(ctx, md), &stats.RPCTagInfo{FullMethodName: method})
	began := time.Now()
	err := i.around(ctx, method, true, func(ctx context.Context, span *callSpan) error {
		if err := i.rules.check(ctx, req); err != nil {
			return err
		}
		span.asked(req, true)
		return handle(ctx, span)
	})
	i.stats.HandleRPC(ctx, &stats.End{BeginTime: began, EndTime: time.Now(), Error: err})
	return err
}

// call is one call on its way through the interceptor.
type call struct {
	method  string
	streams bool
	start   time.Time
	from    origin
	ctx     context.Context // says who calls once that is known
	span    *callSpan
}

// around makes one call: its error or panic becomes a status, and one line says how it went.
func (i *interceptor) around(ctx context.Context, method string, streams bool, handle func(context.Context, *callSpan) error) error {
	if ended := ctx.Err(); ended != nil {
		return service.Status(ended).Err() // taken back before its turn came: no work, and no line, for a flood of such
	}
	ctx, span := i.tracing.begin(ctx, method)
	c := &call{method: method, streams: streams, start: time.Now(), ctx: ctx, span: span}
	cause := i.admit(ctx, c, handle)
	st, took := service.Status(cause), time.Since(c.start)
	i.log(c, st, cause, took)
	c.span.end(st, took)
	return st.Err()
}

// admit authenticates a call, lets it in, and handles it. A panic that is not recovered would be
// the end of the process.
func (i *interceptor) admit(ctx context.Context, c *call, handle func(context.Context, *callSpan) error) (cause error) {
	defer func() {
		if value := recover(); value != nil {
			cause = i.panicked(c, value)
		}
	}()
	c.from = i.origin(ctx)
	c.span.from(c.from.peer)
	ctx = withIdempotencyKeys(withoutPrivateMetadata(ctx), c.from.idempotencyKeys)
	if !open(c.method) {
		known, denied := i.service.Authenticate(ctx, c.from.certName)
		if denied != nil {
			return denied
		}
		ctx, c.ctx = known, known
	}
	leave, full := i.gates.enter(ctx, c.method, c.streams, c.from)
	if full != nil {
		return full
	}
	if c.method == easelv1.GenerationService_CreateGeneration_FullMethodName {
		ctx, leave = service.WithAdmission(ctx, leave)
	}
	defer leave()
	c.span.enter()
	return handle(ctx, c.span)
}

// errPanicked is how a call ends that has panicked. The caller is told nothing of it: the value may
// hold anything.
var errPanicked = service.Fail(codes.Internal, reasonInternal, "internal error")

// panicked logs a panic.
func (i *interceptor) panicked(c *call, value any) error {
	i.logger.ErrorContext(c.ctx, "panic in a call", "method", c.method, "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
	return errPanicked
}

func (i *interceptor) log(c *call, st *status.Status, cause error, took time.Duration) {
	attrs := append(make([]slog.Attr, 0, 10),
		slog.String("method", c.method),
		slog.String("code", st.Code().String()),
		slog.String("reason", service.Reason(st)),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000),
		slog.String("peer", c.from.peer),
	)
	for _, who := range [][2]string{{"caller", service.Caller(c.ctx)}, {"key", service.Key(c.ctx)}} {
		if who[1] != "" {
			attrs = append(attrs, slog.String(who[0], who[1]))
		}
	}
	if c.streams {
		attrs = append(attrs, slog.Int64("messages", c.span.messages.Load()))
	}
	if bytes := c.span.bytes.Load(); bytes > 0 {
		attrs = append(attrs, slog.Int64("bytes", bytes))
	}
	level := slog.LevelInfo
	switch st.Code() {
	case codes.Internal, codes.Unknown, codes.DataLoss: // somebody has to look
		level = slog.LevelError
		if !errors.Is(cause, errPanicked) {
			attrs = append(attrs, slog.String("error", cause.Error()))
		}
	case codes.OK:
		if open(c.method) { // probes come every few seconds and say nothing
			level = slog.LevelDebug
		}
	}
	i.logger.LogAttrs(c.ctx, level, "call", attrs...)
}
