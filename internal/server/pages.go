package server

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	channelz "google.golang.org/grpc/channelz/service"
	"google.golang.org/grpc/reflection"

	"github.com/easel-grpc/easel/internal/crossorigin"
)

// handlePages adds what is not of the contract to the gateway's routes.
func handlePages(gateway *runtime.ServeMux, config Config) error {
	pages := map[string]http.Handler{}
	maps.Copy(pages, config.Pages)
	if len(config.OpenAPI) > 0 {
		pages["/openapi.json"] = document(config.OpenAPI)
	}
	for path, page := range pages {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			handler := func(w http.ResponseWriter, r *http.Request, _ map[string]string) { page.ServeHTTP(w, r) }
			if err := gateway.HandlePath(method, path, handler); err != nil {
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

// newAdminServer is the HTTP server for operators.
func newAdminServer(config Config, handler http.Handler) *http.Server {
	server := newHTTPServer(config, handler)
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true) // for gRPC, see adminHandler
	return server
}

// adminHandler serves operators: probes, metrics, profiles, and over gRPC channelz.
// Nothing of it is for callers, and none of it needs a credential.
func adminHandler(config Config, health *healthServer, inspect *grpc.Server, addr string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", alive)
	mux.HandleFunc("GET /readyz", health.ready)
	if config.Metrics != nil {
		mux.Handle("GET /metrics", config.Metrics)
	}
	for pattern, handler := range config.Admin {
		mux.Handle(pattern, handler)
	}
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	serve := func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			inspect.ServeHTTP(w, r) // slower than a listener of its own, which nobody minds here
			return
		}
		mux.ServeHTTP(w, r)
	}
	own := crossorigin.AdminHosts(config.AllowedHosts, config.AdminAddr, addr)
	return own.RefuseOthers(crossorigin.RefuseReads(http.HandlerFunc(serve), writeError), writeError)
}
