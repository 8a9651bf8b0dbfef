package server

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"google.golang.org/grpc"
	channelz "google.golang.org/grpc/channelz/service"
	"google.golang.org/grpc/reflection"
)

// handlePages adds what is not of the contract to the gateway's routes.
func (s *Server) handlePages(g *gateway) error {
	pages := maps.Clone(s.config.Pages)
	if len(s.config.OpenAPI) > 0 {
		if pages == nil {
			pages = map[string]http.Handler{}
		}
		pages["/openapi.json"] = document(s.config.OpenAPI)
	}
	for path, page := range pages {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			handler := func(w http.ResponseWriter, r *http.Request, _ map[string]string) { page.ServeHTTP(w, r) }
			if err := g.mux.HandlePath(method, path, handler); err != nil {
				return fmt.Errorf("route %s: %w", path, err)
			}
		}
	}
	return nil
}

// document serves JSON that is the same for everybody.
func document(body []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Type", "application/json")
		header.Set("Cache-Control", "no-cache")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	})
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
	for pattern, handler := range s.config.Admin {
		mux.Handle(pattern, handler)
	}
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	operate := s.keepPagesOut(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			inspect.ServeHTTP(w, r) // slower than a listener of its own, which nobody minds here
			return
		}
		operate.ServeHTTP(w, r)
	})
}

// keepPagesOut keeps web pages of elsewhere from what is for operators, as far as a browser
// tells: nothing there asks for a credential.
func (s *Server) keepPagesOut(next http.Handler) http.Handler {
	next = refuseCrossOrigin(next)
	if loopbackHost(s.AdminAddr()) {
		next = refuseOtherHosts(next)
	}
	return next
}
