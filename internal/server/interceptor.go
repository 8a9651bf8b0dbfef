package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// interceptor authenticates, admits, checks, traces and logs every call: unary and streaming, over gRPC
// and over REST.
type interceptor struct {
	service   Service
	rules     rules
	admission *admission
	// mostBytes is how many bytes a message may take while it is being received.
	mostBytes int
	tracing   *tracing
	stats     stats.Handler // also gets the events of Local.Call, which has no connection
	logger    *slog.Logger
	// origin says who calls: the peer of a connection, or the client of a REST request.
	origin func(context.Context) origin
}

func newInterceptor(config Config) (interceptor, error) {
	rules, rulesErr := newRules()
	tracing, tracingErr := newTracing()
	return interceptor{
		service: config.Service, rules: rules, tracing: tracing, stats: newCallStats(), logger: config.logger(),
		admission: newAdmission(config.Limits, config.Service.Accepted), mostBytes: config.Limits.messageBytes() + largeRequest,
	}, errors.Join(rulesErr, tracingErr)
}

// from is the interceptor of calls whose origin is read by origin.
func (i interceptor) from(origin func(context.Context) origin) *interceptor {
	i.origin = origin
	return &i
}

// unary is the handler of a unary call.
func (i *interceptor) unary(method string, handler grpc.MethodHandler) grpc.StreamHandler {
	return func(srv any, stream grpc.ServerStream) error {
		var answer any
		entered := false
		err := i.around(stream.Context(), method, false, func(ctx context.Context, c *call) (err error) {
			request := func(req any) error {
				err := c.request(ctx, stream, req)
				entered = err == nil
				return err
			}
			if answer, err = handler(srv, ctx, request, nil); err == nil {
				c.span.answered(answer)
			}
			return err
		})
		switch {
		case err == nil:
			return stream.SendMsg(answer)
		case method == easelv1.GenerationService_CreateGeneration_FullMethodName:
			return service.OrderFailure(err, entered)
		}
		return err
	}
}

func (i *interceptor) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if srv == nil { // a made-up method: no log line and no metric carries its name
		return handler(srv, stream)
	}
	return i.around(stream.Context(), info.FullMethod, true, func(ctx context.Context, c *call) error {
		return handler(srv, &checkedStream{ServerStream: stream, ctx: ctx, call: c})
	})
}

// around makes one call. An error or a panic becomes a status, and one log line records the call.
func (i *interceptor) around(ctx context.Context, method string, streams bool, handle func(context.Context, *call) error) error {
	if ended := ctx.Err(); ended != nil {
		return service.Status(ended).Err() // cancelled before it began: no work, and no line, for a flood of such
	}
	ctx, span := i.tracing.begin(ctx, method)
	c := &call{interceptor: i, method: method, streams: streams, start: time.Now(), ctx: ctx, span: span}
	cause := c.caught(func() error { return c.serve(ctx, handle) })
	st, took := c.status(cause), time.Since(c.start)
	i.log(c, st, cause, took)
	c.span.end(st, took)
	return st.Err()
}

// errPanicked ends a call that has panicked. The caller does not get the value of the panic, which may
// hold anything.
var errPanicked = service.Fail(easelv1.ErrorReason_INTERNAL, "internal error")

// panicked logs a panic.
func (i *interceptor) panicked(c *call, value any) error {
	i.logger.ErrorContext(c.ctx, "panic in a call", "method", c.method, "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
	return errPanicked
}

func (i *interceptor) log(c *call, st *status.Status, cause error, took time.Duration) {
	attrs := append(make([]slog.Attr, 0, 10),
		slog.String("method", c.method),
		slog.String("code", st.Code().String()),
		slog.String("reason", service.Detail[*errdetails.ErrorInfo](st).GetReason()),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000),
		slog.String("peer", c.from.peer),
	)
	for _, who := range [][2]string{{"caller", service.Caller(c.ctx)}, {"key", service.APIKey(c.ctx)}} {
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
	level, code := slog.LevelInfo, st.Code()
	switch {
	case code == codes.Internal, code == codes.Unknown, code == codes.DataLoss, service.LedgerFailed(cause): // somebody has to look
		level = slog.LevelError
		if !errors.Is(cause, errPanicked) {
			attrs = append(attrs, slog.String("error", cause.Error()))
		}
	case code == codes.OK:
		if public(c.method) { // probes come every few seconds and say nothing
			level = slog.LevelDebug
		}
	}
	i.logger.LogAttrs(c.ctx, level, "call", attrs...)
}
