// Package admin serves the admin listener: probes, metrics, the status page, orders and profiles. Every client that can connect
// may request the probes, the files of the status page, and the metrics without the names of owners and callers. All other
// routes require an operator.
package admin

import (
	"context"
	"net/http"
	_ "net/http/pprof" //nolint:gosec // only operators can reach the handlers that the package registers

	"github.com/easel-grpc/easel/internal/crossorigin"
	"github.com/easel-grpc/easel/internal/service"
)

// Config is the configuration of the admin listener.
type Config struct {
	// Status provides the data for the probes and the status page.
	Status Status
	// Metrics handles GET /metrics for operators, and Nameless handles it for all other clients. Nameless omits the names of
	// owners and callers.
	Metrics, Nameless http.Handler
	// Prove authenticates an operator from a request's authorization headers, and returns the operator's name. Its errors are
	// gRPC statuses. If Prove is nil, every client on this machine is an operator.
	Prove func(ctx context.Context, authorization []string) (name string, err error)
	// Orders handles the requests about the ledger's orders and events.
	Orders Orders
	// Addr is the listener's bound address, and ConfiguredAddr is the listener's address in the settings. Together with
	// AllowedHosts, they determine the accepted Host headers; see crossorigin.AdminHosts.
	Addr, ConfiguredAddr string
	AllowedHosts         []string
}

// New returns the handler of the admin listener.
func New(config Config) http.Handler {
	mux := http.NewServeMux()
	for _, r := range config.routes() {
		serve := r.serve
		if !r.open {
			serve = config.forOperators(serve)
		}
		mux.Handle(r.pattern, serve)
	}
	return config.guardHandler(mux)
}

// NewScraped returns the handler of the metrics listener. It serves the probes and all metrics, including those labeled with an
// owner or a caller.
func NewScraped(config Config) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", serveHealth)
	mux.HandleFunc("GET /readyz", config.Status.serveReady)
	mux.Handle("GET /metrics", config.Metrics)
	return config.guardHandler(mux)
}

// guardHandler returns a handler that rejects requests from web pages of other origins, and requests whose Host header is not
// allowed. It passes all other requests to the given handler.
func (c Config) guardHandler(handler http.Handler) http.Handler {
	hosts := crossorigin.AdminHosts(c.AllowedHosts, c.ConfiguredAddr, c.Addr)
	deny := func(w http.ResponseWriter, _ *http.Request, why error) { refuseRequest(w, service.Status(why).Err()) }
	return hosts.RefuseOthers(crossorigin.RefuseReads(handler, deny), deny)
}

// route is a pattern and its handler. An open route does not require an operator.
type route struct {
	pattern string
	open    bool
	serve   http.HandlerFunc
}

// Values of [route.open].
const (
	isOpen      = true
	forOperator = false
)

func (c Config) routes() []route {
	return []route{
		{"GET /healthz", isOpen, serveHealth},
		{"GET /readyz", isOpen, c.Status.serveReady},
		{"GET /metrics", isOpen, c.serveMetrics},
		{"GET /{$}", isOpen, file("text/html; charset=utf-8", page)},
		{"GET /status.js", isOpen, file("text/javascript; charset=utf-8", script)},
		{"GET /status.css", isOpen, file("text/css; charset=utf-8", style)},
		{"GET /status.json", forOperator, c.Status.serveReport},
		{"GET /audit", forOperator, handleJSON(c.Orders.serveAudit)},
		{"GET /orders", forOperator, handleJSON(c.Orders.serveList)},
		{"POST /orders:resolve", forOperator, handleJSON(c.Orders.serveResolution)},
		{"POST /orders:erase", forOperator, handleJSON(c.Orders.serveErasure)},
		{"GET /events", forOperator, handleJSON(c.Orders.listEvents)},
		{"POST /events:replay", forOperator, handleJSON(c.Orders.serveReplay)},
		{"POST /contents:fetch", forOperator, handleJSON(c.Orders.fetchContent)},
		{"POST /contents:adopt", forOperator, handleJSON(c.Orders.adoptContents)},
		{"GET /debug/pprof/", forOperator, http.DefaultServeMux.ServeHTTP}, // net/http/pprof registers its handlers with this mux
	}
}

// serveMetrics serves GET /metrics. A client that is not an operator receives the metrics without the names of owners and
// callers. An invalid token is not rejected, because a scraper may send a token for another server.
func (c Config) serveMetrics(w http.ResponseWriter, r *http.Request) {
	shown := c.Nameless
	if _, err := c.operator(r); err == nil {
		shown = c.Metrics
	}
	shown.ServeHTTP(w, r)
}

// serveHealth serves GET /healthz. Every response is a success, because only a running process can respond.
func serveHealth(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok\n") }

func writeText(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text)) // fails if the client has disconnected, which does not matter
}
