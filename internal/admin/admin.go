// Package admin serves operators: probes, metrics, the status page, orders and profiles. It does not serve callers.
// Probes, metrics without names and the files of the page are open to every client that can connect. All other routes
// need an operator.
package admin

import (
	"context"
	"net/http"
	"net/http/pprof"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/crossorigin"
	"github.com/easel-grpc/easel/internal/service"
)

// Config is the configuration of the admin listener.
type Config struct {
	// Status is the source of the probes and of the status page.
	Status Status
	// Metrics is served at /metrics to operators, and Nameless, which has no owner and no caller, to all others. Nil
	// means no metrics.
	Metrics, Nameless http.Handler
	// Prove authenticates an operator by the authorization of a request and returns the name. Its errors are statuses.
	// If it is nil, every client on this machine is an operator.
	Prove func(ctx context.Context, authorization []string) (name string, err error)
	// Orders serves the orders of the ledger.
	Orders Orders
	// Events reports whether teams can subscribe to events.
	Events bool
	// Addr is the bound address of the listener, and ConfiguredAddr the address in the settings. With AllowedHosts they
	// determine the accepted hosts of requests: see crossorigin.AdminHosts.
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
	return config.guard(mux)
}

// guard rejects requests of other web pages and requests for other hosts.
func (c Config) guard(handler http.Handler) http.Handler {
	hosts := crossorigin.AdminHosts(c.AllowedHosts, c.ConfiguredAddr, c.Addr)
	return hosts.RefuseOthers(crossorigin.RefuseReads(handler, deny), deny)
}

// route is a pattern and its handler. An open route needs no operator.
type route struct {
	pattern string
	open    bool
	serve   http.HandlerFunc
}

// The values of [route.open].
const (
	isOpen      = true
	forOperator = false
)

func (c Config) routes() []route {
	told := events{c.Orders.Ledger}
	all := []route{
		{"GET /healthz", isOpen, alive},
		{"GET /readyz", isOpen, c.Status.ready},
		{"GET /{$}", isOpen, file("text/html; charset=utf-8", page)},
		{"GET /status.js", isOpen, file("text/javascript; charset=utf-8", script)},
		{"GET /status.css", isOpen, file("text/css; charset=utf-8", style)},
		{"GET /status.json", forOperator, c.Status.serveReport},
		{"GET /audit", forOperator, c.Orders.audit},
		{"GET /orders", forOperator, c.Orders.list},
		{"POST /orders:resolve", forOperator, c.Orders.resolve},
		{"POST /orders:erase", forOperator, c.Orders.erase},
		{"POST /contents:fetch", forOperator, c.Orders.fetchContent},
		{"POST /contents:adopt", forOperator, c.Orders.adoptContents},
		{"GET /debug/pprof/", forOperator, pprof.Index},
		{"GET /debug/pprof/cmdline", forOperator, pprof.Cmdline},
		{"GET /debug/pprof/profile", forOperator, pprof.Profile},
		{"GET /debug/pprof/symbol", forOperator, pprof.Symbol},
		{"POST /debug/pprof/symbol", forOperator, pprof.Symbol},
		{"GET /debug/pprof/trace", forOperator, pprof.Trace},
	}
	if c.Metrics != nil {
		all = append(all, route{"GET /metrics", isOpen, c.metrics})
	}
	if c.Events {
		all = append(all, route{"GET /events", forOperator, told.list}, route{"POST /events:replay", forOperator, told.replay})
	}
	return all
}

// deny rejects a request of another web page with a status as JSON, like the REST API.
func deny(w http.ResponseWriter, _ *http.Request, why error) {
	st, code := service.Status(why), http.StatusForbidden
	if service.Reason(st) == easelv1.ErrorReason_HOST_NOT_ALLOWED {
		code = http.StatusMisdirectedRequest
	}
	body, _ := protojson.Marshal(st.Proto()) // cannot fail for these strings
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write(body) // the client may have disconnected
}

// metrics serves GET /metrics. An invalid token is harmless, because a scraper may send the token of another server.
func (c Config) metrics(w http.ResponseWriter, r *http.Request) {
	shown := c.Nameless
	if _, err := c.operator(r); err == nil {
		shown = c.Metrics
	}
	shown.ServeHTTP(w, r)
}

// alive responds while the process runs.
func alive(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok\n") }

func writeText(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text)) // the prober may have disconnected
}
