package admin

import (
	"net/http"

	"github.com/easel-grpc/easel/internal/crossorigin"
)

// NewScraped makes the handler of the listener for those who scrape and probe: the metrics and the probes of the admin
// listener, and nothing else that operators see or change. Its metrics name owners and callers: it is for those who may see
// them. Of the configuration it takes what these need.
func NewScraped(config Config) http.Handler {
	config.Nameless = config.Metrics
	mux := http.NewServeMux()
	for _, r := range config.routes() {
		if r.need == Open {
			mux.Handle(r.pattern, r.serve)
		}
	}
	hosts := crossorigin.AdminHosts(config.AllowedHosts, config.ConfiguredAddr, config.Addr)
	return hosts.RefuseOthers(crossorigin.RefuseReads(mux, deny), deny)
}
