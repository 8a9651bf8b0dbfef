// Package server serves the contract's gRPC services over the network. It contains the listeners, TLS, the health service,
// the graceful shutdown, and the chain of steps that every call passes through.
//
// Package rest converts REST requests to calls of a second gRPC server, which it reaches in memory through Local. Both gRPC
// servers have the same chain.
//
//	gRPC client ── TLS ──▶ public gRPC server ───────────┐
//	                                                     ├─▶ chain ─▶ service
//	HTTP client ── TLS ──▶ rest ──▶ in-memory gRPC server ┘
//
// During a shutdown, open watches and waits end first. Other calls can continue until the drain timeout. After that, open calls
// are aborted.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/easel-grpc/easel/internal/reload"
	"github.com/easel-grpc/easel/internal/service"
)

// Server is a server that can run only once. Call New, Listen and Serve, in this order.
type Server struct {
	config       Config
	logger       *slog.Logger
	chain        *chain // shared by both gRPC servers
	health       healthServer
	certificates *reload.Value[*tls.Config] // nil without TLS
	bound        map[string]net.Listener    // listeners by name; nil before Listen
}

// New returns a server with the given configuration. It checks the configuration and reads the certificate files, but does not
// start the server.
func New(config Config) (*Server, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	rules, rulesErr := newRules()
	tracing, tracingErr := newTracing()
	if err := errors.Join(rulesErr, tracingErr); err != nil {
		return nil, err
	}
	s := &Server{config: config, logger: config.logger(), chain: newChain(config, rules, tracing), health: newHealthServer()}
	if !config.TLS.enabled() {
		return s, nil
	}
	var err error
	s.certificates, err = loadCertificates(config.TLS, s.logger)
	s.chain.certificates = s.certificates
	return s, err
}

// Listen binds the addresses and logs each of them. If it fails, it returns a *ListenError, and no address remains bound.
func (s *Server) Listen() error {
	bound := map[string]net.Listener{}
	for _, l := range s.config.listeners() {
		if l.ready == nil {
			var err error
			if l.ready, err = bind(l.addr); err != nil {
				closeAll(bound)
				return &ListenError{Listener: l.name, Err: err}
			}
		}
		bound[l.name] = l.ready
	}
	s.bound = bound
	for _, l := range s.config.listeners() {
		s.logger.Info("listening", "server", l.name, "addr", s.addr(l.name))
	}
	if s.config.TLS.enabled() {
		s.logger.Info("TLS enabled", "client_auth", string(s.config.TLS.clientAuth()))
	}
	if limits := s.config.Limits; limits.MaxInputs > service.DefaultMaxInputs {
		s.logger.Warn("large inputs allowed", "max_inputs_bytes", limits.MaxInputs, "memory_bytes_per_connection", int64(limits.streamsPerConn())*int64(limits.MaxInputs))
	}
	return nil
}

// GRPCAddr returns the address of the gRPC listener, or "" before Listen.
func (s *Server) GRPCAddr() string { return s.addr("grpc") }

// HTTPAddr returns the address of the HTTP listener, or "" before Listen.
func (s *Server) HTTPAddr() string { return s.addr("http") }

// AdminAddr returns the address of the admin listener, or "" before Listen.
func (s *Server) AdminAddr() string { return s.addr("admin") }

// MetricsAddr returns the address of the metrics listener. It returns "" before Listen and if there is no such listener.
func (s *Server) MetricsAddr() string { return s.addr("metrics") }

func (s *Server) addr(name string) string {
	if l := s.bound[name]; l != nil {
		return l.Addr().String()
	}
	return ""
}

// Serve serves until ctx is done or a listener fails, and then stops the servers. It returns nil if ctx was done. Call Listen
// first.
func (s *Server) Serve(ctx context.Context) error {
	run, err := s.assemble()
	if err != nil {
		closeAll(s.bound)
		return err
	}
	defer func() { _ = run.local.Close() }() // the error does not matter, because all calls have ended
	group, ctx := errgroup.WithContext(ctx)
	for name, serve := range s.serving(run) {
		group.Go(func() error {
			if err := serve(); err != nil && !errors.Is(err, grpc.ErrServerStopped) && !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve %s: %w", name, err)
			}
			return nil
		})
	}
	group.Go(func() error {
		<-ctx.Done()
		s.stop(run) //nolint:contextcheck // ctx is done, but open calls need more time
		return nil
	})
	s.health.setServing()
	return group.Wait()
}

// Server.serving returns functions that run the servers, keyed by server name. Each function blocks until its server stops.
func (s *Server) serving(run *servers) map[string]func() error {
	limited := func(name string, limit int) net.Listener { return netutil.LimitListener(s.bound[name], limit) }
	conns := s.config.Limits.conns()
	all := map[string]func() error{
		"grpc":  func() error { return run.public.Serve(limited("grpc", conns)) },
		"rest":  func() error { return run.rest.Serve(run.pipe) },
		"http":  func() error { return serveHTTP(run.http, limited("http", conns)) },
		"admin": func() error { return serveHTTP(run.admin, limited("admin", operatorConns)) },
	}
	if run.metrics != nil {
		all["metrics"] = func() error { return serveHTTP(run.metrics, limited("metrics", operatorConns)) }
	}
	return all
}

// assemble creates the servers.
func (s *Server) assemble() (*servers, error) {
	pipe := bufconn.Listen(localPipe)
	local, err := newLocal(pipe, s.chain)
	if err != nil {
		return nil, fmt.Errorf("connect to the in-memory server: %w", err)
	}
	run := &servers{public: newPublicGRPC(s.config, s.chain, s.health, s.certificates), rest: newRESTGRPC(s.config, s.chain), pipe: pipe, local: local}
	rest, err := s.config.REST(s, local) // the gRPC servers must be created first, because creating them registers their methods with the chain
	if err != nil {
		_ = local.Close() // the error does not matter, because the connection was never used
		return nil, err
	}
	run.http = newHTTPServer(s.config, s.chain.checkCertificate(rest))
	run.admin = newAdminServer(s.config, s.config.Admin(s))
	if s.config.MetricsAddr != "" {
		run.metrics = newHTTPServer(s.config, s.config.Metrics(s))
	}
	if s.certificates != nil {
		run.http.TLSConfig = newestCertificates(s.certificates)
	}
	return run, nil
}

// Usage is the current usage of a limit that applies to all callers together.
type Usage struct {
	Limit     string // "streams" or "calls"
	Used, Max int
}

// Usage returns the current usage of the limits on streams and calls.
func (s *Server) Usage() []Usage {
	calls, streams := s.chain.calls, s.chain.streams
	return []Usage{{"streams", streams.inUse(), streams.all}, {"calls", calls.inUse(), calls.all}}
}

// Certificates returns the TLS configuration of the listeners, or nil without TLS. The returned value reloads the
// certificates when their files change.
func (s *Server) Certificates() *reload.Value[*tls.Config] { return s.certificates }

// Serving reports whether this server accepts new calls. It returns false before Serve is called and during a drain.
func (s *Server) Serving(ctx context.Context) bool { return s.health.serving(ctx) }

// servers contains the servers of one run of Serve.
type servers struct {
	public, rest *grpc.Server
	http, admin  *http.Server
	metrics      *http.Server      // nil if MetricsAddr is empty
	pipe         *bufconn.Listener // in-memory listener of the gRPC server for REST requests; the field local connects to it
	local        *Local
}

// stop stops the servers. First, the health check reports NOT_SERVING, and open watches and waits end. Other calls can continue
// until the drain timeout. The admin and metrics servers stop last.
func (s *Server) stop(run *servers) {
	// The context of Serve is already done, but open calls need time to complete.
	ctx, cancel := context.WithTimeout(context.Background(), s.config.drainTimeout())
	defer cancel()
	s.logger.Info("draining", "timeout_ms", s.config.drainTimeout().Milliseconds())
	s.health.Shutdown()
	go s.config.Service.Drain() // runs in a goroutine, because Drain has no timeout
	var group sync.WaitGroup
	group.Go(func() { s.stopGRPC(ctx, "grpc", run.public) })
	group.Go(func() {
		s.stopHTTP(ctx, "http", run.http)
		s.stopGRPC(ctx, "rest", run.rest) // stopped after the HTTP server, because REST requests call this server
	})
	group.Wait()
	s.stopHTTP(ctx, "admin", run.admin)
	if run.metrics != nil {
		s.stopHTTP(ctx, "metrics", run.metrics)
	}
	s.logger.Info("stopped")
}

// stopGRPC waits until all calls have ended. When ctx is done, it aborts the remaining calls.
func (s *Server) stopGRPC(ctx context.Context, name string, server *grpc.Server) {
	cut := context.AfterFunc(ctx, func() {
		s.logger.Warn("calls aborted", "server", name)
		server.Stop()
	})
	defer cut()
	server.GracefulStop()
}

// stopHTTP waits until all requests have ended. When ctx is done, it aborts the remaining requests.
func (s *Server) stopHTTP(ctx context.Context, name string, server *http.Server) {
	if err := server.Shutdown(ctx); err != nil {
		s.logger.Warn("requests aborted", "server", name, "error", err)
		_ = server.Close() // ignores the error, because Shutdown's error was already logged
	}
}
