package rest

import (
	"context"
	"net/http"

	"github.com/felixge/httpsnoop"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// scope names this package in what it traces.
const scope = "github.com/easel-grpc/easel/internal/rest"

// traceRequests makes a span and a measurement of each REST request with OpenTelemetry's handler. The
// answer names the trace of the request.
func traceRequests(next http.Handler) http.Handler {
	return otelhttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		propagation.TraceContext{}.Inject(r.Context(), propagation.HeaderCarrier(w.Header()))
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), matchedKey{}, &matched{request: r})))
	}), "", otelhttp.WithTracerProvider(otel.GetTracerProvider()))
}

// matched carries the route of a request from the gateway to the handlers around it.
type matched struct {
	request *http.Request // as OpenTelemetry's handler has it
	probe   bool          // only asks whether there is a route, and has no request
	found   bool          // the answer
	refused error         // it is answered with this error
}

type matchedKey struct{}

func matchedOf(ctx context.Context) *matched {
	m, _ := ctx.Value(matchedKey{}).(*matched)
	return m
}

// caller is who has sent the request, by what is known without the server.
func (m *matched) caller() string {
	switch {
	case m == nil:
		return ""
	case m.request.TLS != nil && len(m.request.TLS.PeerCertificates) > 0:
		return string(m.request.TLS.PeerCertificates[0].RawSubject)
	}
	return m.request.Header.Get("Authorization")
}

// serve serves a request whose route is known. The template of the route names the span, never the path:
// ids would make as many names as there are generations. A watch or a wait may be open for an hour, so
// its span ends now, and a second span marks its end.
func (m *matched) serve(w http.ResponseWriter, r *http.Request, template string, serve func(http.ResponseWriter)) {
	pattern := r.Method + " " + template // "GET /v1/generations/{generation_id}"
	m.request.Pattern = pattern          // where OpenTelemetry's handler reads it
	ctx := r.Context()
	span := trace.SpanFromContext(ctx)
	span.SetName(pattern)
	span.SetAttributes(semconv.HTTPRoute(template))
	switch template {
	case watchAccountPath, watchPath, watchAllPath, waitPath:
		span.End()
		answer := httpsnoop.Metrics{Code: http.StatusOK}
		defer func() { endRequest(ctx, pattern+" end", answer.Code) }() // also after a panic, which breaks the connection off
		answer.CaptureMetrics(w, serve)
	default:
		serve(w)
	}
}

func endRequest(ctx context.Context, name string, status int) {
	_, span := otel.Tracer(scope).Start(ctx, name)
	span.SetAttributes(semconv.HTTPResponseStatusCode(status))
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}
