package server

import (
	"log/slog"
	"net"
	"net/http"
)

// newHTTPServer returns an HTTP server. It sets no timeouts for complete requests and responses, because such timeouts would
// abort streams. Instead, package rest sets a deadline for each read and write.
func newHTTPServer(config Config, handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytes,
		ErrorLog:          slog.NewLogLogger(config.logger().Handler(), slog.LevelWarn),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:      int(config.Limits.streamsPerConn()),
			MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: 4 * streamWindow,
			SendPingTimeout: keepaliveIdle, PingTimeout: keepaliveTimeout, WriteByteTimeout: writeTimeout,
		},
	}
}

// newAdminServer returns the HTTP server for operators.
func newAdminServer(config Config, handler http.Handler) *http.Server {
	server := newHTTPServer(config, handler)
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true) // gRPC clients need HTTP/2
	return server
}

// serveHTTP serves connections from l until the server is shut down. It uses TLS if the server has a TLS configuration.
func serveHTTP(server *http.Server, l net.Listener) error {
	if server.TLSConfig == nil {
		return server.Serve(l)
	}
	return server.ServeTLS(l, "", "")
}
