// Package server puts the services on the network: listeners, TLS, the chain that every call passes,
// health and the drain.
//
// Every call takes one path. Package rest turns requests of the REST form into calls of a second gRPC
// server, which it reaches in memory through Local. Both gRPC servers have the same chain.
//
//	gRPC client ── TLS ──▶ public gRPC server ───────────┐
//	                                                     ├─▶ chain ─▶ service
//	HTTP client ── TLS ──▶ rest ──▶ in-memory gRPC server ┘
//
// A stop tells every open stream, waits a while, and then cuts off what is left.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/easel-grpc/easel/internal/reload"
	"github.com/easel-grpc/easel/internal/service"
)

// Server serves one configuration once: New, Listen, Serve.
type Server struct {
	config       Config
	logger       *slog.Logger
	chain        *chain // shared by both gRPC servers
	health       *healthServer
	certificates *reload.Value[*tls.Config] // nil without TLS

	grpcListener, httpListener, adminListener net.Listener
	metricsListener                           net.Listener // nil without an address
}

// New checks the configuration and reads what it names. Nothing runs yet.
func New(config Config) (*Server, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	rules, rulesErr := newRules()
	tracing, tracingErr := newTracing()
	err := errors.Join(rulesErr, tracingErr)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	s := &Server{
		config: config, logger: config.logger(), chain: newChain(config, rules, tracing), health: newHealthServer(),
	}
	if config.TLS.enabled() {
		if s.certificates, err = loadCertificates(config.TLS, s.logger); err != nil {
			return nil, fmt.Errorf("server: %w", err)
		}
		s.chain.certificates = s.certificates
	}
	return s, nil
}

// Listen binds the addresses and logs each. On an error, which is a
// *ListenError, none stays bound.
// Serve calls it where the caller has not.
func (s *Server) Listen() error {
	listeners := s.config.listeners()
	for n := range listeners {
		l := &listeners[n]
		if l.ready != nil {
			continue
		}
		bound, err := bind(l.addr)
		if err != nil {
			closeAll(listeners[:n])
			return &ListenError{Listener: l.name, Err: err}
		}
		l.ready = bound
	}
	s.grpcListener, s.httpListener, s.adminListener = listeners[0].ready, listeners[1].ready, listeners[2].ready
	if len(listeners) > 3 {
		s.metricsListener = listeners[3].ready
	}
	for _, l := range listeners {
		s.logger.Info("listening", "server", l.name, "addr", l.ready.Addr().String())
	}
	if s.config.TLS.enabled() {
		s.logger.Info("TLS", "client_auth", string(s.config.TLS.clientAuth()))
	}
	if limits := s.config.Limits; limits.MaxInputs > service.DefaultMaxInputs {
		s.logger.Warn("large inputs allowed", "max_inputs_bytes", limits.MaxInputs, "memory_bytes_per_connection", int64(limits.streamsPerConn())*int64(limits.MaxInputs))
	}
	return nil
}

// GRPCAddr is the address that the gRPC listener is bound to, "" before Listen.
func (s *Server) GRPCAddr() string { return boundAddr(s.grpcListener) }

// HTTPAddr is the address that the HTTP listener is bound to, "" before Listen.
func (s *Server) HTTPAddr() string { return boundAddr(s.httpListener) }

// AdminAddr is the address that the admin listener is bound to, "" before Listen.
func (s *Server) AdminAddr() string { return boundAddr(s.adminListener) }

// MetricsAddr is the address that the metrics listener is bound to, "" before Listen and where there is none.
func (s *Server) MetricsAddr() string { return boundAddr(s.metricsListener) }

func boundAddr(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}

// Serve serves until ctx ends or a listener fails, then stops in order, and returns
// nil if it was told to stop. It listens first where Listen was not called.
func (s *Server) Serve(ctx context.Context) error {
	if s.grpcListener == nil {
		if err := s.Listen(); err != nil { //nolint:contextcheck // binding an address waits for nothing
			return err
		}
	}
	run, err := s.assemble()
	if err != nil {
		closeAll(s.bound())
		return err
	}
	defer func() { _ = run.local.Close() }() // every call over it has ended

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return named("grpc", run.public.Serve(netutil.LimitListener(s.grpcListener, s.config.Limits.conns())))
	})
	group.Go(func() error { return named("rest", run.rest.Serve(run.pipe)) })
	group.Go(func() error {
		return named("http", serveHTTP(run.http, netutil.LimitListener(s.httpListener, s.config.Limits.conns())))
	})
	group.Go(func() error {
		return named("admin", serveHTTP(run.admin, netutil.LimitListener(s.adminListener, operatorConns)))
	})
	if run.metrics != nil {
		group.Go(func() error {
			return named("metrics", serveHTTP(run.metrics, netutil.LimitListener(s.metricsListener, operatorConns)))
		})
	}
	group.Go(func() error {
		<-ctx.Done()
		s.stop(run) //nolint:contextcheck // the context has ended, and calls in progress get time of their own
		return nil
	})
	s.health.start()
	return group.Wait()
}

// bound are the listeners that Listen has bound.
func (s *Server) bound() []listener {
	all := []listener{{ready: s.grpcListener}, {ready: s.httpListener}, {ready: s.adminListener}}
	if s.metricsListener != nil {
		all = append(all, listener{ready: s.metricsListener})
	}
	return all
}

func named(server string, err error) error {
	if err == nil || errors.Is(err, grpc.ErrServerStopped) { // stopped before it began
		return nil
	}
	return fmt.Errorf("serve %s: %w", server, err)
}

// assemble makes the servers.
func (s *Server) assemble() (*servers, error) {
	pipe := bufconn.Listen(localPipe)
	local, err := newLocal(pipe, s.chain)
	if err != nil {
		return nil, fmt.Errorf("connect in memory: %w", err)
	}
	// First, because they register their methods with the chain.
	public, restGRPC := newPublicGRPC(s.config, s.chain, s.health, s.certificates), newRESTGRPC(s.config, s.chain)
	rest, err := s.config.rest(s, local)
	if err != nil {
		_ = local.Close() // it was never used
		return nil, err
	}
	run := &servers{
		public: public,
		rest:   restGRPC,
		http:   newHTTPServer(s.config, limitReads(s.chain.certified(rest))),
		admin:  newAdminServer(s.config, s.config.admin(s)),
		pipe:   pipe,
		local:  local,
	}
	if s.metricsListener != nil {
		run.metrics = newHTTPServer(s.config, s.config.Metrics(s))
	}
	if s.certificates != nil {
		run.http.TLSConfig = newestCertificates(s.certificates)
	}
	return run, nil
}

// stop ends everything in order: the health check fails, open streams get their closing message, and
// calls may end.
func (s *Server) stop(run *servers) {
	// Not the context of Serve: that has ended, and calls must have time.
	ctx, cancel := context.WithTimeout(context.Background(), s.config.drainTimeout())
	defer cancel()
	s.logger.Info("draining", "timeout_ms", s.config.drainTimeout().Milliseconds())
	s.health.shutdown()
	go s.config.Service.Drain() // a service that hangs must not outlast the drain timeout
	run.stop(ctx, s.logger)
	s.logger.Info("stopped")
}

// Usage is how much of one of the limits for all callers together is used.
type Usage struct {
	Limit     string // "streams" or "calls"
	Used, Max int
}

// Usage tells how much of each limit is used now.
func (s *Server) Usage() []Usage {
	calls, streams := s.chain.calls, s.chain.streams
	return []Usage{{"streams", streams.inUse(), streams.all}, {"calls", calls.inUse(), calls.all}}
}

// Certificates are those of the listeners, which are read again when their files change; nil without TLS.
func (s *Server) Certificates() *reload.Value[*tls.Config] { return s.certificates }

// Serving reports whether calls should be sent here: not before Serve, nor in a drain.
func (s *Server) Serving(ctx context.Context) bool { return s.health.serving(ctx) }

// servers run between the start of Serve and its end.
type servers struct {
	public, rest *grpc.Server
	http, admin  *http.Server
	metrics      *http.Server      // nil without an address
	pipe         *bufconn.Listener // between local and rest
	local        *Local
}

// stop lets calls end until ctx does, and then cuts off the others. The listeners of operators stop last.
func (run *servers) stop(ctx context.Context, logger *slog.Logger) {
	var group errgroup.Group
	group.Go(func() error { stopGRPC(ctx, logger, "grpc", run.public); return nil })
	group.Go(func() error {
		stopHTTP(ctx, logger, "http", run.http)
		stopGRPC(ctx, logger, "rest", run.rest) // requests make its calls, so it stops after them
		return nil
	})
	_ = group.Wait() // the steps log what they have to say
	stopHTTP(ctx, logger, "admin", run.admin)
	if run.metrics != nil {
		stopHTTP(ctx, logger, "metrics", run.metrics)
	}
}

// stopGRPC lets calls end until ctx does.
func stopGRPC(ctx context.Context, logger *slog.Logger, name string, server *grpc.Server) {
	cut := context.AfterFunc(ctx, func() {
		logger.Warn("calls were cut off", "server", name)
		server.Stop()
	})
	defer cut()
	server.GracefulStop()
}

// stopHTTP lets requests end until ctx does.
func stopHTTP(ctx context.Context, logger *slog.Logger, name string, server *http.Server) {
	if err := server.Shutdown(ctx); err != nil {
		logger.Warn("requests were cut off", "server", name, "error", err)
		_ = server.Close() // the failure was logged
	}
}
