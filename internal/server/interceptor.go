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
	"google.golang.org/grpc/status"

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
	if !lasting[info.FullMethod] {
		makeRoomToServe(len(info.FullMethod))
	}
	err = i.around(ctx, info.FullMethod, false, func(ctx context.Context, span *callSpan) error {
		if err := i.rules.check(ctx, req); err != nil {
			return err
		}
		span.asked(req, false)
		var err error
		if resp, err = handler(ctx, req); err == nil {
			span.answered(resp)
		}
		return err
	})
	return resp, err
}

func (i *interceptor) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	return i.around(stream.Context(), info.FullMethod, true, func(ctx context.Context, span *callSpan) error {
		return handler(srv, &checkedStream{ServerStream: stream, ctx: ctx, rules: i.rules, span: span})
	})
}

// around makes one call: it is traced, authenticated and let in, its error or panic becomes
// a status, and one line says how it went.
func (i *interceptor) around(ctx context.Context, method string, streams bool, call func(context.Context, *callSpan) error) (err error) {
	if ended := ctx.Err(); ended != nil {
		return statusOf(ended).Err() // taken back before its turn came: no work, and no line, for a flood of such
	}
	start, from := time.Now(), i.origin(ctx)
	ctx, span := i.tracing.begin(ctx, method, from)
	var cause error // before it became a status
	callCtx := withOrigin(withoutPrivateMetadata(ctx), from)
	defer func() {
		st := status.Convert(err)
		i.log(ctx, method, from.peer, time.Since(start), st, cause, span.told(callCtx, streams))
		span.end(st)
	}()
	defer func() {
		if value := recover(); value != nil {
			err = i.panicked(ctx, method, value)
		}
	}()
	if !open(method) {
		known, denied := i.service.Authenticate(callCtx, from.certName)
		if cause = denied; cause != nil {
			return statusOf(cause).Err()
		}
		callCtx = known
	}
	leave, cause := i.gates.enter(callCtx, method, streams, from)
	if cause != nil {
		return statusOf(cause).Err()
	}
	defer leave()
	span.enter()
	cause = call(callCtx, span)
	return statusOf(cause).Err()
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
	if handler := i.logger.Handler(); handler.Enabled(ctx, level) {
		line := slog.NewRecord(time.Now(), level, "call", 0) // as the logger does, which also finds out where it was called
		line.AddAttrs(attrs...)
		_ = handler.Handle(ctx, line)
	}
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
