package admin

import "net/http"

// NewScraped returns the handler of the metrics listener: the probes, and the metrics with the names of owners and callers.
func NewScraped(config Config) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", alive)
	mux.HandleFunc("GET /readyz", config.Status.ready)
	mux.Handle("GET /metrics", config.Metrics)
	return config.guard(mux)
}
