package server

import (
	"context"
	"net/http"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/grpc/codes"
)

// The routes of the calls that have handlers of our own.
const (
	waitPath     = "/v1/generations/{generation_id}:wait"
	watchPath    = "/v1/generations/{generation_id}:watch"
	watchAllPath = "/v1/generations:watch"
	contentPath  = "/v1/generations/{generation_id}/content"
)

func pathFilter(fields []string) *utilities.DoubleArray {
	paths := make([][]string, 0, len(fields))
	for _, field := range fields {
		paths = append(paths, []string{field})
	}
	return utilities.NewDoubleArray(paths)
}

// matched is where nameRoute leaves the route of a request, for what lies outside
// of the gateway.
type matched struct {
	pattern string        // "GET /v1/generations/{generation_id}"
	probe   bool          // only asks which route it would be, and has no request
	request *http.Request // as OpenTelemetry's handler has it
}

type matchedKey struct{}

func matchedOf(ctx context.Context) *matched {
	m, _ := ctx.Value(matchedKey{}).(*matched)
	return m
}

// nameRoute tells what lies outside of the gateway the route of a request.
func nameRoute(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		template := routeTemplate(r)
		m := matchedOf(r.Context())
		if m != nil && m.probe && refuses(r.Method, template) {
			return
		}
		if m != nil {
			m.pattern = r.Method + " " + template
		}
		if m != nil && m.probe {
			return
		}
		if m == nil {
			next(w, r, params)
			return
		}
		m.serve(w, r, template, func(w http.ResponseWriter) { next(w, r, params) })
	}
}

// refuses reports whether a route is there to refuse: DELETE of a call's path would reach
// the render whose id ends like that.
func refuses(method, template string) bool {
	return method == http.MethodDelete && (template == waitPath || template == watchPath)
}

// notTaken is the handler of a route that is there to refuse.
func (g *gateway) notTaken(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	g.handleRoutingError(r.Context(), g.mux, nil, w, r, http.StatusMethodNotAllowed)
}

func routeTemplate(r *http.Request) string {
	pattern, _ := runtime.HTTPPattern(r.Context())
	return strings.ReplaceAll(pattern.String(), "=*}", "}")
}

// tidyPath makes the gateway read each path segment exactly once unescaped. It would
// unescape again what the standard library has unescaped already, and another id
// would come out. In a model's id an escaped slash is a slash: the id is the whole
// rest of the path.
func tidyPath(r *http.Request) {
	r.URL.RawPath = r.URL.EscapedPath()
	if strings.HasPrefix(r.URL.RawPath, "/v1/models/") {
		r.URL.RawPath = strings.NewReplacer("%2F", "/", "%2f", "/").Replace(r.URL.RawPath)
	}
}

// handleRoutingError answers requests that no route takes.
func (g *gateway) handleRoutingError(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, code int) {
	if m := matchedOf(ctx); m != nil && m.probe {
		return
	}
	if code != http.StatusMethodNotAllowed {
		writeError(w, r, refusal(codes.NotFound, reasonNoRoute, "there is nothing at this path; /openapi.json lists what there is"))
		return
	}
	w.Header().Set("Allow", strings.Join(g.allowed(r), ", "))
	writeError(w, r, refusal(codes.Unimplemented, reasonMethod, "this path does not take "+r.Method))
}

// allowed asks the gateway itself which methods a path takes.
func (g *gateway) allowed(r *http.Request) (methods []string) {
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete} {
		m := &matched{probe: true}
		probe := r.Clone(context.WithValue(r.Context(), matchedKey{}, m))
		probe.Method = method
		g.mux.ServeHTTP(nil, probe)
		if m.pattern != "" {
			methods = append(methods, method)
		}
	}
	return methods
}
