package main

import (
	"context"
	"net/http"
	"time"

	"github.com/easel-grpc/easel/gen/openapi"
	"github.com/easel-grpc/easel/internal/admin"
	"github.com/easel-grpc/easel/internal/rest"
	"github.com/easel-grpc/easel/internal/rest/page"
	"github.com/easel-grpc/easel/internal/server"
)

// openServers creates the gRPC, HTTP, admin and metrics servers.
func (f *facade) openServers(context.Context) (err error) {
	f.front, err = server.New(server.Config{
		GRPCAddr: f.GRPCAddr, HTTPAddr: f.HTTPAddr, AdminAddr: f.AdminAddr, MetricsAddr: f.MetricsAddr,
		TLS: server.TLS{
			CertFile: f.TLSCertFile, KeyFile: f.TLSKeyFile, ClientCAFile: f.TLSClientCAFile, ClientAuth: server.ClientAuth(f.TLSClientAuth),
		},
		Service: f.services, Logger: f.logger, DrainTimeout: f.DrainTimeout * callShare / 100,
		REST:  f.newHTTPHandler,
		Admin: func(s *server.Server) http.Handler { return admin.New(f.operatorConfig(s, s.AdminAddr(), f.AdminAddr)) },
		Metrics: func(s *server.Server) http.Handler {
			return admin.NewScraped(f.operatorConfig(s, s.MetricsAddr(), f.MetricsAddr))
		},
		Limits: server.Limits{CallerStreams: f.CallerStreams, Streams: f.MaxStreams, CallerCalls: f.CallerCalls, Calls: f.MaxCalls, Conns: f.MaxConns, MaxInputs: f.MaxInputs},
	})
	if err != nil {
		return wrongSetting("EASEL_TLS_*", err)
	}
	if certificates := f.front.Certificates(); certificates != nil {
		f.files["EASEL_TLS_CERT_FILE"] = certificates
	}
	return nil
}

// newHTTPHandler creates the handler for the HTTP listener.
func (f *facade) newHTTPHandler(front *server.Server, local *server.Local) (http.Handler, error) {
	return rest.New(rest.Config{
		Calls: local, Content: f.services.Content, OpenAPI: openapi.Document, Pages: page.Handlers(front.GRPCAddr()),
		Addr: front.HTTPAddr(), AllowedHosts: f.HTTPAllowedHosts,
	})
}

// operatorConfig returns the configuration of the handler for an operators' listener: the admin listener or the metrics
// listener. addr is the address to which the listener is bound, and configuredAddr is its address in the settings.
func (f *facade) operatorConfig(front *server.Server, addr, configuredAddr string) admin.Config {
	config := admin.Config{
		Status: admin.Status{
			Version: thisBuild().Version, Revision: thisBuild().Revision, Began: time.Now(), Hub: f.hub.Snapshot, Limiters: f.upstream.Limiters().States,
			Ledger: f.meter.Reading, Copies: f.contents.Keeps(), Serving: front.Serving, Problems: f.settingProblems,
			Usage: func() (all []admin.Usage) {
				for _, usage := range front.Usage() {
					all = append(all, admin.Usage(usage))
				}
				return all
			},
		},
		Orders:  admin.Orders{Ledger: f.ledger, Catalog: f.client, SharedKey: f.sharedKey, Contents: f.contents},
		Metrics: f.telemetry.Metrics, Nameless: f.telemetry.Nameless, Addr: addr, ConfiguredAddr: configuredAddr, AllowedHosts: f.HTTPAllowedHosts,
	}
	if f.known != nil {
		config.Prove = f.services.Operator
	}
	return config
}
