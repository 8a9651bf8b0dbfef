package telemetry

import (
	"context"
	"net/http"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
)

// UpstreamTransport makes a span of every request that base sends, and lets the trace
// go on in the catalog. The span is named by the request's Pattern, which the sender
// sets as in "GET /generations/{id}": ids would make as many names as there are
// renders. A nil base is http.DefaultTransport.
//
// The catalog is told the ids of the trace and nothing else: baggage and tracestate are
// what callers wrote for systems of their own, such as the name of a customer.
//
// Headers never become attributes, so a key that travels in one stays out of traces.
func UpstreamTransport(base http.RoundTripper) http.RoundTripper {
	return otelhttp.NewTransport(base,
		otelhttp.WithSpanNameFormatter(upstreamSpanName), otelhttp.WithPropagators(idsOnly{}))
}

const traceparent = "traceparent"

// idsOnly is the W3C trace context without the state that callers can add to it.
type idsOnly struct{ propagation.TraceContext }

// Inject implements propagation.TextMapPropagator.
func (p idsOnly) Inject(ctx context.Context, carrier propagation.TextMapCarrier) {
	all := propagation.MapCarrier{}
	p.TraceContext.Inject(ctx, all)
	if ids := all.Get(traceparent); ids != "" {
		carrier.Set(traceparent, ids)
	}
}

// Fields implements propagation.TextMapPropagator.
func (idsOnly) Fields() []string { return []string{traceparent} }

func upstreamSpanName(_ string, r *http.Request) string {
	if r.Pattern != "" {
		return r.Pattern
	}
	return r.Method
}
