package rest

import (
	"context"
	"net/http"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// nameRoute returns a handler that names the span of a request after its route, and then calls next. For a probe (see
// [allowedMethods]), the handler instead records whether the route supports the method.
func nameRoute(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		template, m := routeTemplate(r), matchedOf(r.Context())
		if m.probe {
			m.found = !isRejecting(r.Method, template)
			return
		}
		m.setSpanName(r, template)
		next(w, r, params)
	}
}

// isRejecting reports whether a route exists only to reject requests. Without such a route, DELETE
// /v1/generations/x:watch would delete the generation with the ID "x:watch".
func isRejecting(method, template string) bool {
	return method == http.MethodDelete && (template == waitPath || template == watchPath)
}

// methodNotAllowed returns the handler of a route that only rejects requests.
func methodNotAllowed(mux *runtime.ServeMux) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, _ map[string]string) {
		handleRoutingError(r.Context(), mux, nil, w, r, http.StatusMethodNotAllowed)
	}
}

func routeTemplate(r *http.Request) string {
	pattern, _ := runtime.HTTPPattern(r.Context())
	return strings.ReplaceAll(pattern.String(), "=*}", "}")
}

// tidyPath sets the raw path of a request, so that the gateway unescapes each segment exactly once. A model ID can contain
// slashes, because it extends to the end of the path. So tidyPath unescapes the slashes in the paths of models.
func tidyPath(r *http.Request) {
	r.URL.RawPath = r.URL.EscapedPath()
	if strings.HasPrefix(r.URL.RawPath, "/v1/models/") {
		r.URL.RawPath = strings.NewReplacer("%2F", "/", "%2f", "/").Replace(r.URL.RawPath)
	}
}

// handleRoutingError responds to a request that matches no route, or only routes with other methods.
func handleRoutingError(ctx context.Context, mux *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, code int) {
	if matchedOf(ctx).probe {
		return
	}
	if code != http.StatusMethodNotAllowed {
		writeError(w, r, service.Fail(easelv1.ErrorReason_ROUTE_NOT_FOUND, "unknown path; /openapi.json lists the paths"))
		return
	}
	w.Header().Set("Allow", strings.Join(allowedMethods(mux, r), ", "))
	writeError(w, r, service.Fail(easelv1.ErrorReason_METHOD_NOT_ALLOWED, "this path does not support "+r.Method))
}

// allowedMethods returns the methods that the gateway supports at the path of a request. It sends the gateway a probe with
// each method. A probe is a request that only checks whether the gateway supports its method and path.
func allowedMethods(mux *runtime.ServeMux, r *http.Request) (methods []string) {
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete} {
		m := &matched{probe: true}
		probe := r.Clone(context.WithValue(r.Context(), matchedKey{}, m))
		probe.Method = method
		mux.ServeHTTP(nil, probe)
		if m.found {
			methods = append(methods, method)
		}
	}
	return methods
}

// annotate returns the context for a gRPC call that a handler in this package sends for a request. The context carries the
// credential, the origin and the deadline of that request.
func annotate(ctx context.Context, mux *runtime.ServeMux, r *http.Request, method, path string) (context.Context, error) {
	return runtime.AnnotateContext(ctx, mux, r, method, runtime.WithHTTPPathPattern(path))
}

// traceRequests returns a handler that traces and measures each request with OpenTelemetry. It also adds the trace context to
// the response headers.
func traceRequests(next http.Handler) http.Handler {
	return otelhttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		propagation.TraceContext{}.Inject(r.Context(), propagation.HeaderCarrier(w.Header()))
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), matchedKey{}, &matched{request: r})))
	}), "", otelhttp.WithTracerProvider(otel.GetTracerProvider()))
}

// matched is a context value in which the gateway stores the route of a request, for the handlers around the gateway.
type matched struct {
	request *http.Request // request whose Pattern is set to the route, for OpenTelemetry's handler
	probe   bool          // whether the request only checks which methods a path supports; see allowedMethods
	found   bool          // result of a probe: whether its method and path are supported
}

type matchedKey struct{}

func matchedOf(ctx context.Context) *matched {
	m, _ := ctx.Value(matchedKey{}).(*matched)
	return m
}

// setSpanName sets the name of a request's span to the HTTP method and the route template. The path is not used, because it
// contains IDs.
func (m *matched) setSpanName(r *http.Request, template string) {
	m.request.Pattern = r.Method + " " + template // OpenTelemetry's handler reads this field
	span := trace.SpanFromContext(r.Context())
	span.SetName(m.request.Pattern)
	span.SetAttributes(semconv.HTTPRoute(template))
}
