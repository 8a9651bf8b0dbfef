package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// call is the state of one RPC. The RPC's span and log line are written from it.
type call struct {
	*chain
	method string
	origin origin
	start  time.Time
	ctx    context.Context //nolint:containedctx // context of the call; contains the caller after authentication

	release         func() // removes the call from the counts of concurrent calls
	entered         bool   // whether the request has passed all checks
	names           names
	answer          any          // response of a unary call; nil for a stream
	order           string       // ID of the order in the ledger; empty if the call places no order
	messages, bytes atomic.Int64 // numbers of messages and result bytes that a stream has sent
	cause           error        // error of the call before it was converted to a status
}

type callKey struct{}

// callOf returns the call that TagRPC has stored in a context, or nil if the call's method is unknown.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// statsHandler traces, measures and logs the calls of one server. It ignores calls to unknown methods, because a client can send
// any method name, and each name would become a span name and a metric label.
type statsHandler struct {
	*chain
	origin func(context.Context) origin
}

// TagConn implements stats.Handler.
func (h statsHandler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (h statsHandler) HandleConn(context.Context, stats.ConnStats) {}

// TagRPC implements stats.Handler.
func (h statsHandler) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	if _, known := h.methods[info.FullMethodName]; !known {
		return ctx
	}
	c := &call{chain: h.chain, method: info.FullMethodName, origin: h.origin(ctx), start: time.Now(), ctx: h.tracing.calls.TagRPC(ctx, info)}
	return context.WithValue(c.ctx, callKey{}, c)
}

// HandleRPC implements stats.Handler.
func (h statsHandler) HandleRPC(ctx context.Context, event stats.RPCStats) {
	c := callOf(ctx)
	if c == nil {
		return
	}
	if end, ok := event.(*stats.End); ok {
		if c.cause == nil && !c.entered && status.Code(end.Error) == codes.Internal {
			end = &stats.End{BeginTime: end.BeginTime, EndTime: end.EndTime, Error: service.Status(errUndecodable).Err()}
			event = end
		}
		c.writeLog(end.Error)
		c.conclude(status.Convert(end.Error))
	}
	h.tracing.calls.HandleRPC(ctx, event)
}

// fail converts a call's error to a status that contains the trace ID. For CreateGeneration, the status also contains the
// outcome of the order. If cause is nil, fail returns nil.
func (c *call) fail(cause error) error {
	if cause == nil {
		return nil
	}
	c.cause = cause
	err := service.StatusFor(c.ctx, cause).Err()
	if c.method == easelv1.GenerationService_CreateGeneration_FullMethodName {
		err = service.OrderFailure(err, c.entered)
	}
	return service.WithRequestID(c.ctx, err)
}

// errPanicked is the error of a call that panicked. It omits the panic value, which may contain a secret.
var errPanicked = service.Fail(easelv1.ErrorReason_INTERNAL, "internal error")

// errUndecodable is the error of a request that the gRPC library can't decode. It replaces the library's INTERNAL error,
// because alerts would count that error as a failure of the server.
var errUndecodable = service.InvalidRequest(service.Violation{Description: "the request can't be decoded"})

// recoverPanic recovers from a panic, logs it, and sets *err to errPanicked. It must be deferred, and does nothing without a
// panic.
func (c *call) recoverPanic(err *error) {
	if value := recover(); value != nil {
		c.logger.ErrorContext(c.ctx, "call panicked", "method", c.method, "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
		*err = errPanicked
	}
}

// writeLog writes the log line of a finished call.
func (c *call) writeLog(err error) {
	st, took, cause := status.Convert(err), time.Since(c.start), cmp.Or(c.cause, err)
	attrs := append(make([]slog.Attr, 0, 14),
		slog.String("method", c.method),
		slog.String("code", st.Code().String()),
		slog.String("reason", service.Detail[*errdetails.ErrorInfo](st).GetReason()),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000),
		slog.String("peer", c.origin.peer),
	)
	attrs = append(attrs, c.nameAttrs()...)
	if c.methods[c.method].IsServerStream {
		attrs = append(attrs, slog.Int64("messages", c.messages.Load()))
	}
	if bytes := c.bytes.Load(); bytes > 0 {
		attrs = append(attrs, slog.Int64("bytes", bytes))
	}
	level, code := slog.LevelInfo, st.Code()
	switch {
	case code == codes.Internal, code == codes.Unknown, code == codes.DataLoss, service.LedgerFailed(cause): // logged as errors, because an operator must look at them
		level = slog.LevelError
		if cause != errPanicked { //nolint:errorlint // the panic is already logged
			attrs = append(attrs, slog.String("error", cause.Error()))
		}
	case isPublic(c.method) && code == codes.OK, code == codes.Canceled && (isPublic(c.method) || !c.entered): // health checks, reflection calls, and calls canceled before they passed all checks are too frequent for the level Info
		level = slog.LevelDebug
	}
	c.logger.LogAttrs(c.ctx, level, "call", attrs...)
}
