package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/service"
)

// Service authenticates callers, and handles the calls that pass all checks of the server (see chain). Package service
// implements it.
type Service interface {
	// Register adds the services of the contract to a gRPC server. It is called once for the public server and once for the
	// in-memory server.
	Register(grpc.ServiceRegistrar)
	// Admit rejects a call if its credential is missing or cannot be valid. While it runs, the other calls on the connection are
	// blocked. It must therefore be fast, and may do no more than read maps. It has the same parameters as Authenticate.
	Admit(ctx context.Context, certificate *auth.Certificate) error
	// Authenticate adds the caller's identity to the context of a call, or rejects the call. It reads the credential from the
	// "authorization" metadata. certificate is the caller's verified certificate, or nil.
	Authenticate(ctx context.Context, certificate *auth.Certificate) (context.Context, error)
	// Drain ends every open watch, wait and event stream. Downloads continue until the drain timeout.
	Drain()
}

// Config is the configuration of a server. Service, REST and Admin are required.
type Config struct {
	// GRPCAddr, HTTPAddr and AdminAddr are the addresses of the three listeners, in the form "host:port". An empty host means all
	// local addresses, and port 0 means a free port. An address may be empty only if Listeners contains an open listener for it.
	GRPCAddr, HTTPAddr, AdminAddr string
	// MetricsAddr is the address of a fourth listener, which serves metrics and probes. Empty means that there is no such listener.
	MetricsAddr string
	Listeners   Listeners // open listeners to use instead of binding the addresses; the server closes them
	TLS         TLS       // TLS configuration of the gRPC and HTTP listeners
	Service     Service
	Logger      *slog.Logger // nil means no logging
	// REST and Admin create the handlers of the HTTP listener and the admin listener, after the addresses are bound. Metrics
	// creates the handler of the metrics listener. Metrics is required if MetricsAddr is set.
	REST           func(*Server, *Local) (http.Handler, error)
	Admin, Metrics func(*Server) http.Handler
	// DrainTimeout is the time that a shutdown waits for calls to end before it aborts them. Zero means 10 s.
	DrainTimeout time.Duration
	Limits       Limits
}

// Listeners contains listeners that are already open. If a listener is nil, the server binds its address instead.
type Listeners struct {
	GRPC, HTTP, Admin net.Listener
}

// Limits contains limits on the load from each caller and from all callers together. Fields that are zero have default values.
type Limits struct {
	// CallerStreams and Streams are the maximum numbers of open watches, waits and downloads for one caller and for all callers
	// together. The default values are 1,000 and 50,000.
	CallerStreams, Streams int
	// CallerCalls and Calls are the maximum numbers of concurrent calls, except watches, waits and downloads, for one caller and
	// for all callers together. The default values are 320 and 480.
	CallerCalls, Calls int
	// Conns is the maximum number of connections to each of the two listeners, gRPC and HTTP. Further connections wait. Zero
	// means 10,000.
	Conns int
	// MaxInputs is the maximum size of a request's inputs, in bytes. Zero means [service.DefaultMaxInputs].
	MaxInputs int
	// ConnAge is the age at which the server asks a client to replace a gRPC connection, so that load spreads to new replicas.
	// Open calls continue on the old connection. Zero means 30 minutes.
	ConnAge time.Duration
}

// Limits that no setting can change.
const (
	// After keepaliveIdle without traffic, the server pings a client. It closes the connection if it receives nothing within
	// keepaliveTimeout after the ping. The server therefore detects a vanished client within 45 s.
	keepaliveIdle    = 30 * time.Second
	keepaliveTimeout = 15 * time.Second
	// keepaliveMinimum is the minimum time that a client must wait between two pings. Clients usually ping every 10 s. The
	// minimum is half as long, so that pings with jitter are accepted.
	keepaliveMinimum = 5 * time.Second
	// handshakeTimeout limits the time for the handshake of a new gRPC connection. headerTimeout limits the time for the headers of
	// an HTTP request.
	handshakeTimeout = 10 * time.Second
	headerTimeout    = 10 * time.Second
	messageMargin    = 256 << 10       // maximum size of all parts of a request except its inputs, in bytes
	headerBytes      = 32 << 10        // maximum size of the headers of a request, in bytes
	idleTimeout      = 2 * time.Minute // time after which an idle HTTP connection is closed
	streamWindow     = 64 << 10        // flow-control window of a call: maximum number of bytes that the receiver has not read yet
	readBuffer       = 4 << 10         // size of a connection's read buffer in bytes; small, because every connection has one, even if it is idle
	// connWindow is the flow-control window of a gRPC connection, for all its calls together. streamWindow is the window of
	// each call.
	connWindow = 4 << 20
	// writeTimeout is the time after which a connection is closed if its client reads none of the pending bytes.
	writeTimeout = service.DefaultSendTimeout
	// extraStreamsPerConn is added to the maximum number of streams of one caller. The sum is the maximum number of calls on
	// one connection. It limits the memory for a connection, because an open call needs about 20 KB. A client that repeatedly
	// opens and cancels calls can reach this maximum. The HTTP server queues up to four times as many further calls.
	extraStreamsPerConn = 250
	// connProbes is the maximum number of health watches and reflection streams on a connection. It is high, because a proxy can
	// send the streams of many clients over few connections.
	connProbes = 1000
	// callerWatched is the maximum number of renders that the open watches of one caller may name. allWatched is the maximum for
	// the open watches of all callers together. A watch of all renders names none, so it is not counted.
	callerWatched, allWatched = 20_000, 200_000
	operatorConns             = 256 // maximum number of connections to the admin listener; also applies to the metrics listener
)

func (c Config) drainTimeout() time.Duration { return cmp.Or(c.DrainTimeout, 10*time.Second) }

func (c Config) logger() *slog.Logger { return cmp.Or(c.Logger, slog.New(slog.DiscardHandler)) }

func (l Limits) callerStreams() int { return cmp.Or(l.CallerStreams, 1000) }
func (l Limits) streams() int       { return cmp.Or(l.Streams, 50_000) }
func (l Limits) calls() int         { return cmp.Or(l.Calls, 480) }
func (l Limits) callerCalls() int   { return cmp.Or(l.CallerCalls, 320) }
func (l Limits) conns() int         { return cmp.Or(l.Conns, 10_000) }

// maxRequest returns the maximum size of a request in bytes. It applies to a gRPC message after decompression, and to the body
// of a REST request.
func (l Limits) maxRequest() int {
	return cmp.Or(l.MaxInputs, service.DefaultMaxInputs) + messageMargin
}

func (l Limits) connAge() time.Duration { return cmp.Or(l.ConnAge, 30*time.Minute) }

// streamsPerConn returns the maximum number of calls on one connection. If a client reaches it, the client's library delays
// further calls without an error.
func (l Limits) streamsPerConn() uint32 {
	return uint32(min(l.callerStreams()+extraStreamsPerConn, math.MaxUint32))
}

// listener is the configuration of one listener.
type listener struct {
	name, addr string
	ready      net.Listener // open listener; nil if the server must bind the address
}

func (c Config) listeners() []listener {
	all := []listener{{"grpc", c.GRPCAddr, c.Listeners.GRPC}, {"http", c.HTTPAddr, c.Listeners.HTTP}, {"admin", c.AdminAddr, c.Listeners.Admin}}
	if c.MetricsAddr != "" {
		all = append(all, listener{name: "metrics", addr: c.MetricsAddr})
	}
	return all
}

// Validate returns an error that joins all errors in the configuration. It returns nil if the configuration is valid.
func (c Config) Validate() error {
	var faults []error
	fault := func(broken bool, format string, args ...any) {
		if broken {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	for _, l := range c.listeners() {
		if l.ready == nil {
			_, _, err := net.SplitHostPort(l.addr)
			fault(err != nil, "address of the %s listener: %w", l.name, err)
		}
	}
	fault(c.Service == nil || c.REST == nil || c.Admin == nil || c.MetricsAddr != "" && c.Metrics == nil, "missing service or handler")
	fault((c.TLS.CertFile == "") != (c.TLS.KeyFile == ""), "TLS needs both a certificate file and a key file")
	fault(c.TLS.ClientCAFile != "" && !c.TLS.enabled(), "a client CA file needs a certificate file and a key file")
	fault(c.TLS.ClientAuth != "" && c.TLS.ClientCAFile == "", "client authentication needs a client CA file")
	fault(!slices.Contains([]ClientAuth{"", RequireClientCert, VerifyClientCertIfGiven}, c.TLS.ClientAuth), "unknown client authentication %q", c.TLS.ClientAuth)
	fault(c.DrainTimeout < 0, "negative drain timeout %v", c.DrainTimeout)
	l := c.Limits
	fault(l.ConnAge < 0 || min(l.CallerStreams, l.Streams, l.CallerCalls, l.Calls, l.Conns) < 0, "negative limit in %+v", l)
	fault(l.MaxInputs < 0 || l.MaxInputs > service.LargestMaxInputs, "maximum size of inputs %d must be from 1 to %d bytes", l.MaxInputs, service.LargestMaxInputs)
	return errors.Join(faults...)
}
