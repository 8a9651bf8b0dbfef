// Package server puts the services on the network: gRPC, the REST form of the same
// calls, and what operators look at.
//
// Every call takes one path. REST requests become calls of a second gRPC server that
// is reached in memory, with the same interceptors as the public one. The event streams have
// handlers of their own, over the same calls. The bytes of a download alone take no way through
// that server: their handler passes the interceptors, and copies them from the service.
//
//	gRPC client ── TLS ──▶ public gRPC server ─┐
//	                                           ├─▶ interceptor ─▶ service
//	HTTP client ── TLS ──▶ gateway ─▶ in-memory┘
//	                                gRPC server
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

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/easel-grpc/easel/internal/reload"
)

// Server serves one configuration once: New, Listen, Serve.
type Server struct {
	config       Config
	logger       *slog.Logger
	rules        rules
	gates        *gates
	tracing      *tracing
	calls        callStats
	health       *healthServer
	certificates *reload.Value[*tls.Config] // nil without TLS

	grpcListener, httpListener, adminListener net.Listener
	grpcRoom, httpRoom                        chan struct{} // a token for each open connection
}

// New checks the configuration and reads what it names. Nothing runs yet.
func New(config Config) (*Server, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	rules, err := newRules()
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	tracing, err := newTracing()
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	conns := config.Limits.conns()
	s := &Server{
		config: config, logger: config.logger(), rules: rules, gates: newGates(config.Limits), tracing: tracing, calls: newCallStats(), health: newHealthServer(),
		grpcRoom: make(chan struct{}, conns), httpRoom: make(chan struct{}, conns),
	}
	if config.TLS.enabled() {
		if s.certificates, err = loadCertificates(config.TLS, s.logger); err != nil {
			return nil, fmt.Errorf("server: %w", err)
		}
	}
	return s, nil
}

// servers are what runs between the start of Serve and its end.
type servers struct {
	public, rest  *grpc.Server
	http, admin   *http.Server
	pipe          *bufconn.Listener // between the gateway and rest
	gatewayClient *grpc.ClientConn
}

// Serve serves until ctx ends or a listener fails, then stops in order, and returns
// nil if it was told to stop. It listens first where Listen was not called.
func (s *Server) Serve(ctx context.Context) error {
	if s.grpcListener == nil {
		if err := s.Listen(); err != nil { //nolint:contextcheck // binding an address waits for nothing
			return err
		}
	}
	run, err := s.assemble(ctx)
	if err != nil {
		closeAll([]listener{{ready: s.grpcListener}, {ready: s.httpListener}, {ready: s.adminListener}})
		return err
	}
	defer func() { _ = run.gatewayClient.Close() }() // every call over it has ended

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return named("grpc", run.public.Serve(s.roomy(s.grpcListener, s.grpcRoom))) })
	group.Go(func() error { return named("rest", run.rest.Serve(run.pipe)) })
	group.Go(func() error { return named("http", serveHTTP(run.http, s.roomy(s.httpListener, s.httpRoom))) })
	group.Go(func() error { return named("admin", serveHTTP(run.admin, s.adminListener)) })
	group.Go(func() error {
		<-ctx.Done()
		s.stop(run) //nolint:contextcheck // the context has ended, and calls in progress get time of their own
		return nil
	})
	s.health.start()
	return group.Wait()
}

func named(server string, err error) error {
	if err == nil || errors.Is(err, grpc.ErrServerStopped) { // stopped before it began
		return nil
	}
	return fmt.Errorf("serve %s: %w", server, err)
}

// assemble makes the servers.
func (s *Server) assemble(ctx context.Context) (*servers, error) {
	pipe := bufconn.Listen(gatewayPipe)
	conn, err := dialGateway(pipe)
	if err != nil {
		return nil, fmt.Errorf("connect the gateway: %w", err)
	}
	gateway, err := newGateway(ctx, conn, s.config.Service, s.interceptor(restOrigin))
	if err == nil {
		err = s.handlePages(gateway)
	}
	if err != nil {
		_ = conn.Close() // it was never used
		return nil, fmt.Errorf("route the gateway: %w", err)
	}
	inspect := newInspection()
	run := &servers{
		public:        s.newPublicGRPC(),
		rest:          s.newRESTGRPC(),
		http:          s.newHTTPServer(s.publicHandler(gateway)),
		admin:         s.newHTTPServer(s.adminHandler(inspect)),
		pipe:          pipe,
		gatewayClient: conn,
	}
	run.admin.RegisterOnShutdown(inspect.Stop)
	run.admin.Protocols = new(http.Protocols)
	run.admin.Protocols.SetHTTP1(true)
	run.admin.Protocols.SetUnencryptedHTTP2(true) // for gRPC, see adminHandler
	if s.certificates != nil {
		run.http.TLSConfig = newestCertificates(s.certificates)
	}
	return run, nil
}
