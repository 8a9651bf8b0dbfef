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

// nameRoute names the span of a request after its route. For a probe it only records whether the route exists.
func nameRoute(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		template, m := routeTemplate(r), matchedOf(r.Context())
		if m.probe {
			m.found = !refuses(r.Method, template)
			return
		}
		m.name(r, template)
		next(w, r, params)
	}
}

// refuses reports whether a route only rejects requests. Without such a route, DELETE of the path of a watch would delete a
// generation with an id that ends in ":watch".
func refuses(method, template string) bool {
	return method == http.MethodDelete && (template == waitPath || template == watchPath)
}

// methodNotTaken returns the handler of a route that only rejects requests.
func methodNotTaken(mux *runtime.ServeMux) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, _ map[string]string) {
		handleRoutingError(r.Context(), mux, nil, w, r, http.StatusMethodNotAllowed)
	}
}

func routeTemplate(r *http.Request) string {
	pattern, _ := runtime.HTTPPattern(r.Context())
	return strings.ReplaceAll(pattern.String(), "=*}", "}")
}

// tidyPath sets the path that the gateway unescapes, so that each segment is unescaped exactly once. In
// the ID of a model, which is the remainder of the path, it unescapes slashes.
func tidyPath(r *http.Request) {
	r.URL.RawPath = r.URL.EscapedPath()
	if strings.HasPrefix(r.URL.RawPath, "/v1/models/") {
		r.URL.RawPath = strings.NewReplacer("%2F", "/", "%2f", "/").Replace(r.URL.RawPath)
	}
}

// handleRoutingError responds to requests that match no route.
func handleRoutingError(ctx context.Context, mux *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, code int) {
	if matchedOf(ctx).probe {
		return
	}
	if code != http.StatusMethodNotAllowed {
		writeError(w, r, service.Fail(easelv1.ErrorReason_ROUTE_NOT_FOUND, "there is nothing at this path; /openapi.json lists what there is"))
		return
	}
	w.Header().Set("Allow", strings.Join(allowed(mux, r), ", "))
	writeError(w, r, service.Fail(easelv1.ErrorReason_METHOD_NOT_ALLOWED, "this path does not take "+r.Method))
}

// allowed returns the methods of a path, according to the routes of the gateway.
func allowed(mux *runtime.ServeMux, r *http.Request) (methods []string) {
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

// annotate returns the context for a call by a handler of this package, with the credential, origin and deadline of the request.
func annotate(ctx context.Context, mux *runtime.ServeMux, r *http.Request, method, path string) (context.Context, error) {
	return runtime.AnnotateContext(ctx, mux, r, method, runtime.WithHTTPPathPattern(path))
}

// traceRequests creates a span and a measurement of each REST request with OpenTelemetry's handler. The response has the trace
// of the request in its headers.
func traceRequests(next http.Handler) http.Handler {
	return otelhttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		propagation.TraceContext{}.Inject(r.Context(), propagation.HeaderCarrier(w.Header()))
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), matchedKey{}, &matched{request: r})))
	}), "", otelhttp.WithTracerProvider(otel.GetTracerProvider()))
}

// matched carries the route of a request from the gateway to the handlers around it.
type matched struct {
	request *http.Request // request of OpenTelemetry's handler
	probe   bool          // only checks whether the route exists, without a request
	found   bool          // result of the probe
}

type matchedKey struct{}

func matchedOf(ctx context.Context) *matched {
	m, _ := ctx.Value(matchedKey{}).(*matched)
	return m
}

// name names the span of a request after the template of its route. The path itself contains IDs.
func (m *matched) name(r *http.Request, template string) {
	m.request.Pattern = r.Method + " " + template // read by OpenTelemetry's handler
	span := trace.SpanFromContext(r.Context())
	span.SetName(m.request.Pattern)
	span.SetAttributes(semconv.HTTPRoute(template))
}
