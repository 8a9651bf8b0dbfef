package telemetry

import (
	"net/http"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
)

// UpstreamTransport makes a span of every request that base sends, and lets the trace
// go on in the catalog. The span is named by the request's Pattern, which the sender
// sets as in "GET /generations/{id}": ids would make as many names as there are
// renders. A nil base is http.DefaultTransport.
//
// Headers never become attributes, so a key that travels in one stays out of traces.
func UpstreamTransport(base http.RoundTripper) http.RoundTripper {
	return otelhttp.NewTransport(base, otelhttp.WithSpanNameFormatter(upstreamSpanName))
}

func upstreamSpanName(_ string, r *http.Request) string {
	if r.Pattern != "" {
		return r.Pattern
	}
	return r.Method
}
