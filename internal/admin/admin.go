// Package admin serves operators: probes, metrics, the status page, the log level, profiles, and channelz
// over gRPC. It is not for callers, and needs no credential.
package admin

import (
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
	// Metrics is served at /metrics. nil serves none.
	Metrics http.Handler
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
	serve := func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			inspect.ServeHTTP(w, r) // slower than a listener of its own, which does not matter here
			return
		}
		pages.ServeHTTP(w, r)
	}
	hosts := crossorigin.AdminHosts(config.AllowedHosts, config.ConfiguredAddr, config.Addr)
	return hosts.RefuseOthers(crossorigin.RefuseReads(http.HandlerFunc(serve), deny), deny), inspect.Stop
}

func (c Config) pages() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", alive)
	mux.HandleFunc("GET /readyz", c.Status.ready)
	if c.Metrics != nil {
		mux.Handle("GET /metrics", c.Metrics)
	}
	mux.Handle("/loglevel", logLevel{c.LogLevel})
	mux.HandleFunc("GET /orders", c.Orders.list)
	mux.HandleFunc("POST /orders:resolve", c.Orders.resolve)
	mux.HandleFunc("POST /orders:erase", c.Orders.erase)
	if c.Events {
		mux.HandleFunc("GET /events", events{c.Orders.Ledger}.list)
		mux.HandleFunc("POST /events:replay", events{c.Orders.Ledger}.replay)
	}
	for pattern, handler := range c.Status.handlers() {
		mux.Handle(pattern, handler)
	}
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
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

// alive answers as long as the process does.
func alive(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok\n") }

func writeText(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text)) // a prober that went away has its answer
}
