package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"
)

// newLogger returns a logger that adds the trace ID and the span ID in the context to each line.
func newLogger(config Config) (*slog.Logger, error) {
	output, options := cmp.Or[io.Writer](config.LogOutput, os.Stderr), &slog.HandlerOptions{Level: config.LogLevel}
	var handler slog.Handler
	switch config.LogFormat {
	case "", "json":
		handler = slog.NewJSONHandler(output, options)
	case "text":
		handler = slog.NewTextHandler(output, options)
	default:
		return nil, fmt.Errorf("the log format %q is neither json nor text", config.LogFormat)
	}
	return slog.New(tracedHandler{handler}), nil
}

// tracedHandler adds the trace ID and the span ID in the context to each log line, so that log lines and spans can be
// matched.
type tracedHandler struct {
	slog.Handler
}

// Handle implements slog.Handler.
func (h tracedHandler) Handle(ctx context.Context, record slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		record.AddAttrs(
			slog.String("trace_id", span.TraceID().String()),
			slog.String("span_id", span.SpanID().String()),
		)
	}
	return h.Handler.Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (h tracedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return tracedHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler. The trace ID and the span ID are added to the innermost group.
func (h tracedHandler) WithGroup(name string) slog.Handler {
	return tracedHandler{h.Handler.WithGroup(name)}
}

// Limits on log lines about repeated failures.
const (
	limitedInterval = 10 * time.Second // interval at which one more log line is allowed
	limitedBurst    = 10               // maximum number of log lines in a burst
)

// limitedLog logs repeated failures, but drops lines that exceed a rate limit. The next line that is logged contains the
// number of dropped lines.
type limitedLog struct {
	logger     *slog.Logger
	lines      *rate.Limiter
	suppressed atomic.Int64
}

func newLimitedLog(logger *slog.Logger) *limitedLog {
	return &limitedLog{logger: logger, lines: rate.NewLimiter(rate.Every(limitedInterval), limitedBurst)}
}

func (l *limitedLog) warn(ctx context.Context, message string, attributes ...any) {
	if l.lines.Allow() {
		l.logger.WarnContext(ctx, message, append(attributes, "suppressed", l.suppressed.Swap(0))...)
	} else {
		l.suppressed.Add(1)
	}
}

// Handle implements otel.ErrorHandler. While a collector is down, every batch causes an error, so Handle limits the
// number of log lines.
func (l *limitedLog) Handle(err error) {
	l.warn(context.Background(), "OpenTelemetry reports an error", "error", err)
}
