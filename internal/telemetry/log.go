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

// newLogger returns a logger that adds the IDs of the trace.
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

// tracedHandler adds the IDs of the context's trace, so that log lines and spans can be matched.
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

// WithGroup implements slog.Handler. The IDs are in the innermost group.
func (h tracedHandler) WithGroup(name string) slog.Handler {
	return tracedHandler{h.Handler.WithGroup(name)}
}

// errorInterval is the minimum interval between two lines about OpenTelemetry's own errors.
const errorInterval = 30 * time.Second

// errorHandler logs OpenTelemetry's own errors. If a collector is down, there is an error for each batch, so lines are
// limited.
type errorHandler struct {
	logger     *slog.Logger
	sometimes  rate.Sometimes
	suppressed atomic.Int64
}

func newErrorHandler(logger *slog.Logger) *errorHandler {
	return &errorHandler{logger: logger, sometimes: rate.Sometimes{Interval: errorInterval}}
}

// Handle implements otel.ErrorHandler.
func (h *errorHandler) Handle(err error) {
	h.suppressed.Add(1)
	h.sometimes.Do(func() {
		h.logger.Warn("OpenTelemetry reports an error", "error", err, "suppressed", h.suppressed.Swap(0)-1)
	})
}
