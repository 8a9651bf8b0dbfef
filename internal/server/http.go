package server

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"time"
)

// newHTTPServer is an HTTP server with every limit that does not end a stream: there
// is no total for an answer, its handler limits each write instead.
func newHTTPServer(config Config, handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytes,
		ErrorLog:          slog.NewLogLogger(config.logger().Handler(), slog.LevelWarn),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: int(config.Limits.streamsPerConn()),
			SendPingTimeout:      keepaliveIdle,
			PingTimeout:          keepaliveTimeout,
			WriteByteTimeout:     writeTimeout,
		},
	}
}

// newAdminServer is the HTTP server for operators.
func newAdminServer(config Config, handler http.Handler) *http.Server {
	server := newHTTPServer(config, handler)
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true) // for gRPC
	return server
}

// skipAbandoned does nothing for a request that was cancelled before its handler ran. A
// client that asks and takes back without a pause costs little that way: the standard
// library keeps thousands of such requests for each connection while handlers are busy.
// To let others go first gives the frame that takes it back, which stands right behind, time
// to be read: a flood took at most 26 MiB so, in ten runs, and 58 without.
func skipAbandoned(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		runtime.Gosched()
		if r.Context().Err() == nil {
			next.ServeHTTP(w, r)
		}
	})
}

// limitReads gives every body its time from the beginning, whoever refuses it.
func limitReads(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			// A connection that knows no deadline goes without: only tests have such.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(requestTimeout))
		}
		next.ServeHTTP(w, r)
	})
}

// serveHTTP serves until the server is shut down.
func serveHTTP(server *http.Server, l net.Listener) error {
	serve := server.Serve
	if server.TLSConfig != nil {
		serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	if err := serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
