package server

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
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
	logger  *slog.Logger
	// origin says who calls: the peer of a connection, or who the gateway says it
	// calls for.
	origin func(context.Context) origin
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

// orderFailure says of a failed order what is known of it, where its handler did not: one that
// was never entered has sent nothing.
func orderFailure(err error, entered bool) error {
	outcome := service.OrderNotPlacedByThisCall
	if entered {
		outcome = service.OrderUnknown
	}
	return service.WithOrderOutcome(statusOf(err), outcome).Err()
}

func (i *interceptor) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	return i.around(stream.Context(), info.FullMethod, true, func(ctx context.Context, span *callSpan) error {
		return handler(srv, &checkedStream{ServerStream: stream, ctx: ctx, rules: i.rules, span: span})
	})
}

// local makes a call that the gateway handles itself: handle is in the place of the handler of a
// gRPC call. ctx is one that a client would call with.
func (i *interceptor) local(ctx context.Context, method string, req proto.Message, handle func(context.Context, *callSpan) error) error {
	md, _ := metadata.FromOutgoingContext(allowMetadata(ctx))
	return i.around(metadata.NewIncomingContext(ctx, md), method, true, func(ctx context.Context, span *callSpan) error {
		if err := i.rules.check(ctx, req); err != nil {
			return err
		}
		span.asked(req, true)
		return handle(ctx, span)
	})
}

// around makes one call: it is traced, authenticated and let in, its error or panic becomes
// a status, and one line says how it went.
func (i *interceptor) around(ctx context.Context, method string, streams bool, handle func(context.Context, *callSpan) error) error {
	if ended := ctx.Err(); ended != nil {
		return statusOf(ended).Err() // taken back before its turn came: no work, and no line, for a flood of such
	}
	c := call{interceptor: i, method: method, streams: streams}
	return c.end(c.begin(ctx, handle))
}

// call is one call on its way through the interceptor.
type call struct {
	*interceptor
	method  string
	streams bool
	start   time.Time
	from    origin
	ctx     context.Context // with the span
	own     context.Context // of the handler
	span    *callSpan
	leave   func() // nil: it was not let in
	fell    bool   // it has panicked, and that is in the log
}

// begin begins a call, and gives how its handler has ended.
func (c *call) begin(ctx context.Context, handle func(context.Context, *callSpan) error) (cause error) {
	c.start, c.ctx, c.own = time.Now(), ctx, ctx
	defer c.recover(&cause)
	c.from = c.origin(ctx)
	ctx, c.span = c.tracing.begin(ctx, c.method, c.from)
	own := withIdempotencyKeys(withoutPrivateMetadata(ctx), c.from.idempotencyKeys)
	c.ctx, c.own = ctx, own
	if !open(c.method) {
		known, denied := c.service.Authenticate(own, c.from.certName)
		if denied != nil {
			return denied
		}
		own, c.own = known, known
	}
	leave, full := c.gates.enter(own, c.method, c.streams, c.from)
	if full != nil {
		return full
	}
	c.leave = leave
	c.span.enter()
	return handle(own, c.span)
}

// recover makes a panic the end of the call. What is not recovered ends the process.
func (c *call) recover(cause *error) {
	if value := recover(); value != nil {
		*cause, c.fell = c.panicked(c.ctx, c.method, value), true
	}
}

// end ends a call, and gives its status. cause is how it has ended, before it becomes one.
func (c *call) end(cause error) error {
	if c.leave != nil {
		c.leave()
	}
	st := statusOf(cause)
	if c.fell {
		cause = nil
	}
	c.log(c.ctx, c.method, c.from.peer, time.Since(c.start), st, cause, c.span.told(c.own, c.streams))
	c.span.end(st)
	return st.Err()
}

// open reports whether a method needs no credential. All that is not listed does.
func open(method string) bool {
	return strings.HasPrefix(method, "/grpc.health.v1.Health/") ||
		strings.HasPrefix(method, "/grpc.reflection.")
}

// panicked logs a panic. The caller is told nothing of it: the value may hold
// anything.
func (i *interceptor) panicked(ctx context.Context, method string, value any) error {
	i.logger.ErrorContext(ctx, "panic in a call", "method", method, "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
	return refusal(codes.Internal, reasonInternal, "internal error")
}

func (i *interceptor) log(ctx context.Context, method, peer string, took time.Duration, st *status.Status, cause error, more []slog.Attr) {
	level := slog.LevelInfo
	attrs := append(make([]slog.Attr, 0, 10),
		slog.String("method", method),
		slog.String("code", st.Code().String()),
		slog.String("reason", reasonOf(st)),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000),
		slog.String("peer", peer),
	)
	attrs = append(attrs, more...)
	switch st.Code() {
	case codes.Internal, codes.Unknown, codes.DataLoss: // somebody has to look
		level = slog.LevelError
		if cause != nil {
			attrs = append(attrs, slog.String("error", cause.Error()))
		}
	case codes.OK:
		if open(method) { // probes come every few seconds and say nothing
			level = slog.LevelDebug
		}
	}
	i.logger.LogAttrs(ctx, level, "call", attrs...)
}

// told is what else is known of a call: who made it, under which key, and how much a stream
// has sent. ctx is that of a call that has been authenticated, if it came so far.
func (c *callSpan) told(ctx context.Context, streams bool) (attrs []slog.Attr) {
	if caller := service.Caller(ctx); caller != "" {
		attrs = append(attrs, slog.String("caller", caller))
	}
	if key := service.Key(ctx); key != "" {
		attrs = append(attrs, slog.String("key", key))
	}
	if c == nil || !streams {
		return attrs
	}
	attrs = append(attrs, slog.Int64("messages", c.sent.Load()))
	if bytes := c.bytes.Load(); bytes > 0 {
		attrs = append(attrs, slog.Int64("bytes", bytes))
	}
	return attrs
}
