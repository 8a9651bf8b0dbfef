package telemetry

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// Limits of the last warnings and errors that are kept.
const (
	maxTroubles   = 50
	longestDetail = 500 // bytes
)

// Trouble is a warning or an error of the log.
type Trouble struct {
	Time    time.Time
	Level   slog.Level
	Text    string // the message
	Detail  string // its attributes, as in text logs
	TraceID string // "" outside of a trace
}

// recent keeps the last troubles, also those below the level of the log.
type recent struct {
	mu       sync.Mutex
	troubles []Trouble    // the newest last
	detail   bytes.Buffer // of the trouble that is kept now
}

// newest gives the troubles, the newest first.
func (r *recent) newest() []Trouble {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Clone(r.troubles)
	slices.Reverse(all)
	return all
}

// handler is what keeps the troubles of a log.
func (r *recent) handler() slog.Handler {
	return recentHandler{slog.NewTextHandler(&r.detail, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: detailAlone}), r}
}

// detailAlone leaves out what a trouble has beside its detail, the stack, which is long, and callers' keys: the page is open.
func detailAlone(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && slices.Contains([]string{slog.TimeKey, slog.LevelKey, slog.MessageKey}, a.Key) || a.Key == "stack" || a.Key == "idempotency_key" {
		return slog.Attr{}
	}
	return a
}

// recentHandler keeps the troubles of the log. The handler in it writes the detail.
type recentHandler struct {
	slog.Handler
	recent *recent
}

// Handle implements slog.Handler.
func (h recentHandler) Handle(ctx context.Context, record slog.Record) error {
	r := h.recent
	r.mu.Lock()
	defer r.mu.Unlock()
	r.detail.Reset()
	err := h.Handler.Handle(ctx, record)
	text := strings.TrimSpace(r.detail.String())
	t := Trouble{Time: record.Time, Level: record.Level, Text: record.Message, Detail: strings.ToValidUTF8(text[:min(len(text), longestDetail)], "")}
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		t.TraceID = span.TraceID().String()
	}
	if r.troubles = append(r.troubles, t); len(r.troubles) > maxTroubles {
		r.troubles = slices.Delete(r.troubles, 0, 1)
	}
	return err
}

// WithAttrs implements slog.Handler.
func (h recentHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return recentHandler{h.Handler.WithAttrs(attrs), h.recent}
}

// WithGroup implements slog.Handler.
func (h recentHandler) WithGroup(name string) slog.Handler {
	return recentHandler{h.Handler.WithGroup(name), h.recent}
}
