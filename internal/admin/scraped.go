package admin

import (
	"net/http"

	"github.com/easel-grpc/easel/internal/crossorigin"
)

// NewScraped makes the handler of the listener for those who scrape and probe: the metrics and the probes of the admin
// listener, and nothing that operators see or change. Of the configuration it takes what these need.
func NewScraped(config Config) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", alive)
	mux.HandleFunc("GET /readyz", config.Status.ready)
	if config.Metrics != nil {
		mux.Handle("GET /metrics", config.Metrics)
	}
	hosts := crossorigin.AdminHosts(config.AllowedHosts, config.ConfiguredAddr, config.Addr)
	return hosts.RefuseOthers(crossorigin.RefuseReads(mux, deny), deny)
}
