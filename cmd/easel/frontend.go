package main

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/easel-grpc/easel/gen/openapi"
	"github.com/easel-grpc/easel/internal/admin"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/rest"
	"github.com/easel-grpc/easel/internal/rest/page"
	"github.com/easel-grpc/easel/internal/server"
)

// openServers creates the servers in front of the services.
func (f *facade) openServers(ctx context.Context) (err error) {
	f.warnOfAnyHost()
	f.meter = ledger.NewMeter(ctx, f.ledger, f.held != nil)
	operators := f.operators()
	f.front, err = server.New(server.Config{ //nolint:contextcheck // routes are registered without waiting
		GRPCAddr: f.GRPCAddr, HTTPAddr: f.HTTPAddr, AdminAddr: f.AdminAddr, MetricsAddr: f.MetricsAddr,
		TLS: server.TLS{
			CertFile: f.TLSCertFile, KeyFile: f.TLSKeyFile, ClientCAFile: f.TLSClientCAFile, ClientAuth: server.ClientAuth(f.TLSClientAuth),
		},
		Service: f.services, Logger: f.logger,
		REST: f.rest, Admin: f.admin(operators), Metrics: f.scraped(operators), DrainTimeout: f.DrainTimeout * callShare / 100,
		Limits: server.Limits{CallerStreams: f.CallerStreams, Streams: f.MaxStreams, CallerCalls: f.CallerCalls, Calls: f.MaxCalls, Conns: f.MaxConns, MaxInputs: f.MaxInputs},
	})
	if err != nil {
		return wrongSetting("EASEL_TLS_*", err)
	}
	if certificates := f.front.Certificates(); certificates != nil {
		f.files = append(f.files, settingFile{"EASEL_TLS_CERT_FILE", certificates})
	}
	return nil
}

// warnOfAnyHost warns if a web page could order by DNS rebinding, because neither a credential nor a host name is required.
func (f *facade) warnOfAnyHost() {
	host, _, _ := net.SplitHostPort(f.HTTPAddr) // it was checked
	if f.AllowAnonymous && len(f.HTTPAllowedHosts) == 0 && !isLoopback(host) {
		f.logger.Warn("any host name accepted", "effect", "a web page may order by DNS rebinding", "hint", "EASEL_HTTP_ALLOWED_HOSTS lists the hosts to serve")
	}
}

// rest creates the handler of the HTTP listener.
func (f *facade) rest(front *server.Server, local *server.Local) (http.Handler, error) {
	return rest.New(rest.Config{
		Calls: local, Content: f.services.Content, OpenAPI: openapi.Document, Pages: page.Handlers(front.GRPCAddr()),
		Addr: front.HTTPAddr(), AllowedHosts: f.HTTPAllowedHosts,
	})
}

// operators returns the configuration of the listeners for operators.
func (f *facade) operators() admin.Config {
	asked := placedOrders{f.ledger, f.client, f.held}
	config := admin.Config{
		Status: admin.Status{
			Version: thisBuild().Version, Revision: thisBuild().Revision, Began: time.Now(), Hub: f.hub.Snapshot, Limiters: f.upstream.Limiters().States, Copies: f.contents.Keeps(),
			Ledger: f.meter.Reading, Files: func() []string { return f.files.problems() },
		},
		Orders: admin.Orders{Ledger: f.ledger, Contents: f.contents, Differs: asked.differs}, Events: f.known != nil,
		Metrics: f.telemetry.Metrics, Nameless: f.telemetry.Nameless, AllowedHosts: f.HTTPAllowedHosts,
	}
	if f.held != nil {
		config.Orders.APIKey = f.held.APIKeySum()
	}
	if f.known != nil {
		config.Status.Issuers, config.Prove = f.known.KeyProblems, f.services.Operator
		config.Orders.Owners = func() []string { return f.known.List().Owners() }
	}
	return config
}

// admin returns a function that creates the handler of the admin listener when the addresses are bound.
func (f *facade) admin(config admin.Config) func(*server.Server) http.Handler {
	return func(front *server.Server) http.Handler {
		config.Status.Serving, config.Status.Usage = front.Serving, func() (all []admin.Usage) {
			for _, usage := range front.Usage() {
				all = append(all, admin.Usage(usage))
			}
			return all
		}
		config.Addr, config.ConfiguredAddr = front.AdminAddr(), f.AdminAddr
		return admin.New(config)
	}
}

// scraped returns a function that creates the handler of the metrics listener.
func (f *facade) scraped(config admin.Config) func(*server.Server) http.Handler {
	return func(front *server.Server) http.Handler {
		config.Status.Serving, config.Addr, config.ConfiguredAddr = front.Serving, front.MetricsAddr(), f.MetricsAddr
		return admin.NewScraped(config)
	}
}
