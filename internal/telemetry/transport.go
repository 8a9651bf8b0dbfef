package telemetry

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/easel-grpc/easel/internal/catalog"
)

// scope names this package in what it traces and measures.
const scope = "github.com/easel-grpc/easel/internal/telemetry"

// UpstreamTransport makes a span and a measurement of every request that base sends, and lets
// the trace go on in the catalog. The span ends with the body of the answer. It is named by the
// request's Pattern, which the sender sets as in "GET /generations/{id}": ids would make as many
// names as there are renders.
//
// Headers never become attributes, so a key that travels in one stays out of traces.
func UpstreamTransport(base http.RoundTripper) http.RoundTripper {
	return otelhttp.NewTransport(describedTransport{base},
		otelhttp.WithTracerProvider(otel.GetTracerProvider()),
		otelhttp.WithPropagators(idsOnly{}),
		otelhttp.WithSpanNameFormatter(spanName),
	)
}

func spanName(_ string, r *http.Request) string { return cmp.Or(r.Pattern, r.Method) }

// describedTransport adds to the span and the measurement of a request what OpenTelemetry's
// transport, which stands around it, does not know: its route, and which attempt it is of those
// for one call.
type describedTransport struct{ base http.RoundTripper }

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
	return t.base.RoundTrip(r)
}

// idsOnly tells the catalog the ids of the trace and nothing else: baggage and tracestate are
// what callers wrote for systems of their own, such as the name of a customer.
type idsOnly struct{ propagation.TraceContext }

// Inject implements propagation.TextMapPropagator.
func (p idsOnly) Inject(ctx context.Context, carrier propagation.TextMapCarrier) {
	if ids := trace.SpanContextFromContext(ctx); ids.TraceState().Len() > 0 {
		ctx = trace.ContextWithSpanContext(ctx, ids.WithTraceState(trace.TraceState{}))
	}
	p.TraceContext.Inject(ctx, carrier)
}
