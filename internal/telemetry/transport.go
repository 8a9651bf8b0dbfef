package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/easel-grpc/easel/internal/catalog"
)

// scope is the instrumentation scope of this package's spans and metrics.
const scope = "github.com/easel-grpc/easel/internal/telemetry"

// UpstreamTransport returns a transport that traces and measures every request that base sends, and propagates the trace to
// the catalog. A span ends when the response body has been read. Its name is the request's Pattern, such as "GET
// /generations/{id}", because a name with an ID would be different for each generation.
//
// Headers never become attributes, so traces do not contain the API key. Each request is also logged at the debug level.
func UpstreamTransport(base http.RoundTripper, logger *slog.Logger) http.RoundTripper {
	return otelhttp.NewTransport(describedTransport{base, logger},
		otelhttp.WithTracerProvider(otel.GetTracerProvider()),
		otelhttp.WithPropagators(traceIDsOnly{}),
		otelhttp.WithSpanNameFormatter(spanName),
	)
}

func spanName(_ string, r *http.Request) string { return cmp.Or(r.Pattern, r.Method) }

// describedTransport records data that OpenTelemetry's transport does not record. It adds the route to the attributes of the
// request's span and measurement, and the number of earlier attempts to those of the span. OpenTelemetry's transport wraps
// it.
type describedTransport struct {
	base   http.RoundTripper
	logger *slog.Logger
}

// RoundTrip implements http.RoundTripper.
func (t describedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	template := semconv.URLTemplate(strings.TrimPrefix(r.Pattern, r.Method+" "))
	labels, _ := otelhttp.ClientLabelerFromContext(ctx)
	labels.Add(template)
	span := trace.SpanFromContext(ctx)
	span.SetAttributes(template)
	if earlier := catalog.Attempt(ctx) - 1; earlier > 0 {
		span.SetAttributes(semconv.HTTPRequestResendCount(earlier))
	}
	began := time.Now()
	answer, err := t.base.RoundTrip(r)
	t.logAttempt(r, answer, err, time.Since(began))
	return answer, err
}

// logAttempt logs the result of an attempt. It omits the text of an error, because the text may repeat received data.
func (t describedTransport) logAttempt(r *http.Request, answer *http.Response, err error, took time.Duration) {
	if ctx := r.Context(); t.logger.Enabled(ctx, slog.LevelDebug) {
		about := []slog.Attr{slog.String("request", r.Pattern), slog.String("path", r.URL.Path), slog.Int("attempt", max(1, catalog.Attempt(ctx))), slog.Float64("duration_ms", milliseconds(took))}
		if err != nil {
			about = append(about, slog.String("error_type", fmt.Sprintf("%T", err)))
		} else {
			about = append(about, slog.Int("status", answer.StatusCode))
		}
		t.logger.LogAttrs(ctx, slog.LevelDebug, "catalog request finished", about...)
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// traceIDsOnly sends only the trace IDs to the catalog. It omits baggage and tracestate, which are for the caller's own
// systems and may contain, for example, a customer's name.
type traceIDsOnly struct{ propagation.TraceContext }

// Inject implements propagation.TextMapPropagator.
func (p traceIDsOnly) Inject(ctx context.Context, carrier propagation.TextMapCarrier) {
	if ids := trace.SpanContextFromContext(ctx); ids.TraceState().Len() > 0 {
		ctx = trace.ContextWithSpanContext(ctx, ids.WithTraceState(trace.TraceState{}))
	}
	p.TraceContext.Inject(ctx, carrier)
}
