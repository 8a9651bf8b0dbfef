package server

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	channelz "google.golang.org/grpc/channelz/service"
	"google.golang.org/grpc/reflection"
)

// landingPage is for people who open the address in a browser. It loads nothing.
var landingPage = template.Must(template.New("landing").Parse(`<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Easel</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:3rem auto;padding:0 1rem}code{font-size:.9em}</style>
<h1>Easel</h1>
<p>A gRPC facade over a generation catalog, and its REST form.</p>
{{if .OpenAPI}}<p><a href="/openapi.json">openapi.json</a> describes it.</p>
{{end}}<ul>
{{range .Routes}}<li><code>{{.}}</code></li>
{{end}}</ul>
</html>
`))

// handlePages adds what is not of the contract to the gateway's routes.
func (s *Server) handlePages(g *gateway) error {
	var page bytes.Buffer
	err := landingPage.Execute(&page, struct {
		Routes  []string
		OpenAPI bool
	}{routes(), len(s.config.OpenAPI) > 0})
	if err != nil {
		return fmt.Errorf("write the landing page: %w", err)
	}
	pages := map[string]runtime.HandlerFunc{
		"/": content(page.Bytes(), "text/html; charset=utf-8"),
	}
	if len(s.config.OpenAPI) > 0 {
		pages["/openapi.json"] = content(s.config.OpenAPI, "application/json")
	}
	for path, handler := range pages {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			if err := g.mux.HandlePath(method, path, handler); err != nil {
				return fmt.Errorf("route %s: %w", path, err)
			}
		}
	}
	return nil
}

// content serves bytes that are the same for everybody.
func content(body []byte, mediaType string) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, _ map[string]string) {
		header := w.Header()
		header.Set("Content-Type", mediaType)
		header.Set("Cache-Control", "no-cache")
		if strings.HasPrefix(mediaType, "text/html") {
			header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	}
}

// newInspection is the gRPC server for operators. channelz tells of every connection and
// every call that is open, of all callers.
func newInspection() *grpc.Server {
	server := grpc.NewServer()
	channelz.RegisterChannelzServiceToServer(server)
	reflection.Register(server)
	return server
}

// adminHandler serves operators: probes, metrics, profiles, and over gRPC channelz.
// Nothing of it is for callers, and none of it needs a credential.
func (s *Server) adminHandler(inspect *grpc.Server) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", alive)
	mux.HandleFunc("GET /readyz", s.health.ready)
	if s.config.Metrics != nil {
		mux.Handle("GET /metrics", s.config.Metrics)
	}
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			inspect.ServeHTTP(w, r) // slower than a listener of its own, which nobody minds here
			return
		}
		mux.ServeHTTP(w, r)
	})
}
