// Package admin serves operators: probes, metrics, the status page, the log level, profiles, and channelz
// over gRPC. It is not for callers. Who may ask which route stands in one table: see [Need].
package admin

import (
	"context"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	channelz "google.golang.org/grpc/channelz/service"
	"google.golang.org/grpc/reflection"
	"google.golang.org/protobuf/encoding/protojson"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/crossorigin"
	"github.com/easel-grpc/easel/internal/service"
	"github.com/easel-grpc/easel/internal/telemetry"
)

// Config says what the admin listener serves.
type Config struct {
	// Status is the source of the probes and of the status page.
	Status Status
	// LogLevel is shown and changed at /loglevel.
	LogLevel *telemetry.Level
	// Metrics is served at /metrics to operators, and Nameless, which names no owner and no caller, to all others. nil serves
	// none.
	Metrics, Nameless http.Handler
	// Prove returns the name of the operator that the authorization of a request proves. Its errors are statuses. If it is nil,
	// every client on this machine is an operator.
	Prove func(ctx context.Context, authorization []string) (name string, err error)
	// Closed means that the status page and the log level need an operator, too.
	Closed bool
	// Orders are those of the ledger.
	Orders Orders
	// Events means that teams may be told of events.
	Events bool
	// Addr is the address that the listener is bound to, and ConfiguredAddr that of the settings. They
	// and AllowedHosts say which hosts a request may name: see crossorigin.AdminHosts.
	Addr, ConfiguredAddr string
	AllowedHosts         []string
}

// New makes the handler of the admin listener. shutdown ends the calls of channelz.
func New(config Config) (handler http.Handler, shutdown func()) {
	pages, inspect := config.pages(), newInspection()
	calls := config.admit(Read, inspect.ServeHTTP) // slower than a listener of its own, which does not matter here
	serve := func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			calls.ServeHTTP(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	}
	hosts := crossorigin.AdminHosts(config.AllowedHosts, config.ConfiguredAddr, config.Addr)
	return hosts.RefuseOthers(crossorigin.RefuseReads(http.HandlerFunc(serve), deny), deny), inspect.Stop
}

// route is what a pattern serves, and who may ask.
type route struct {
	pattern string
	need    Need
	serve   http.HandlerFunc
}

func (c Config) routes() []route {
	level, told := logLevel{c.LogLevel, c.Orders.Ledger}, events{c.Orders.Ledger}
	all := []route{
		{"GET /healthz", Open, alive},
		{"GET /readyz", Open, c.Status.ready},
		{"GET /loglevel", Look, level.show},
		{"PUT /loglevel", Change, level.change},
		{"GET /audit", Read, c.Orders.audit},
		{"GET /orders", Read, c.Orders.list},
		{"POST /orders:resolve", Change, c.Orders.resolve},
		{"POST /orders:erase", Change, c.Orders.erase},
		{"POST /contents:fetch", Change, c.Orders.fetchContent},
		{"POST /contents:adopt", Change, c.Orders.adoptContents},
		{"GET /debug/pprof/", Read, pprof.Index},
		{"GET /debug/pprof/cmdline", Read, pprof.Cmdline},
		{"GET /debug/pprof/profile", Read, pprof.Profile},
		{"GET /debug/pprof/symbol", Read, pprof.Symbol},
		{"POST /debug/pprof/symbol", Read, pprof.Symbol}, // it reads
		{"GET /debug/pprof/trace", Read, pprof.Trace},
	}
	if c.Metrics != nil {
		all = append(all, route{"GET /metrics", Open, c.metrics})
	}
	if c.Events {
		all = append(all, route{"GET /events", Read, told.list}, route{"POST /events:replay", Change, told.replay})
	}
	for pattern, handler := range c.Status.handlers() {
		all = append(all, route{pattern, Look, handler.ServeHTTP})
	}
	return all
}

func (c Config) pages() *http.ServeMux {
	mux := http.NewServeMux()
	for _, r := range c.routes() {
		mux.Handle(r.pattern, c.admit(r.need, r.serve))
	}
	return mux
}

// newInspection is the gRPC server for operators. channelz shows every open connection and call of all
// callers.
func newInspection() *grpc.Server {
	server := grpc.NewServer()
	channelz.RegisterChannelzServiceToServer(server)
	reflection.Register(server)
	return server
}

// deny answers a request of a foreign web page with a status as JSON, as the REST form does.
func deny(w http.ResponseWriter, _ *http.Request, why error) {
	st, code := service.Status(why), http.StatusForbidden
	if service.Reason(st) == easelv1.ErrorReason_HOST_NOT_ALLOWED {
		code = http.StatusMisdirectedRequest
	}
	body, _ := protojson.Marshal(st.Proto()) // its texts are our own
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write(body) // a client that went away needs no error
}

// metrics answers GET /metrics. A proof that is none does no harm: who scrapes may send one that is for another.
func (c Config) metrics(w http.ResponseWriter, r *http.Request) {
	shown := c.Nameless
	if _, err := c.operator(r); err == nil {
		shown = c.Metrics
	}
	shown.ServeHTTP(w, r)
}

// alive answers as long as the process does.
func alive(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok\n") }

func writeText(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text)) // a prober that went away has its answer
}
