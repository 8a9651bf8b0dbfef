package telemetry

import (
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
	troubles []Trouble // the newest last
}

func (r *recent) keep(t Trouble) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.troubles) == maxTroubles {
		r.troubles = slices.Delete(r.troubles, 0, 1)
	}
	r.troubles = append(r.troubles, t)
}

// newest gives the troubles, the newest first.
func (r *recent) newest() []Trouble {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Clone(r.troubles)
	slices.Reverse(all)
	return all
}

// recentHandler keeps the troubles of the log.
type recentHandler struct {
	recent *recent
	attrs  string // of the logger, as text
	group  string // of its next attributes: "a.b."
}

// Enabled implements slog.Handler.
func (h recentHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

// Handle implements slog.Handler.
func (h recentHandler) Handle(ctx context.Context, record slog.Record) error {
	t := Trouble{Time: record.Time, Level: record.Level, Text: record.Message}
	var detail strings.Builder
	detail.WriteString(h.attrs)
	record.Attrs(func(a slog.Attr) bool {
		detail.WriteString(attrText(h.group, a))
		return detail.Len() < longestDetail
	})
	text := strings.TrimSpace(detail.String())
	t.Detail = strings.ToValidUTF8(text[:min(len(text), longestDetail)], "")
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		t.TraceID = span.TraceID().String()
	}
	h.recent.keep(t)
	return nil
}

func attrText(group string, a slog.Attr) string {
	if a.Equal(slog.Attr{}) || a.Key == "stack" || a.Key == "idempotency_key" { // the page, which is open, has no callers' keys
		return ""
	}
	return group + a.Key + "=" + a.Value.Resolve().String() + " "
}

// WithAttrs implements slog.Handler.
func (h recentHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		h.attrs += attrText(h.group, a)
	}
	return h
}

// WithGroup implements slog.Handler.
func (h recentHandler) WithGroup(name string) slog.Handler {
	h.group += name + "."
	return h
}
