package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/service"
)

// Service is the service behind the chain. Package service implements it.
type Service interface {
	// Register adds the services of the contract to a gRPC server: to the public one and to the one in memory.
	Register(grpc.ServiceRegistrar)
	// Admit refuses a call without a credential that may be one. It only looks at maps. The metadata of ctx and certificate
	// are as in Authenticate.
	Admit(ctx context.Context, certificate *auth.Certificate) error
	// Authenticate returns the context of a call with its caller, or refuses the call. It reads the metadata
	// "authorization". certificate is the verified one of the caller, or nil.
	Authenticate(ctx context.Context, certificate *auth.Certificate) (context.Context, error)
	// Drain ends every open watch and wait. Downloads continue until the drain timeout.
	Drain()
}

// Config is the configuration of a server. Service, REST and Admin are required.
type Config struct {
	// GRPCAddr, HTTPAddr and AdminAddr are "host:port" of the three listeners. An empty host is every address, port 0 a free
	// port. Each is required, unless Listeners has the listener.
	GRPCAddr, HTTPAddr, AdminAddr string
	// MetricsAddr is the address of a fourth listener for metrics and probes. Empty means none.
	MetricsAddr string
	Listeners   Listeners // instead of addresses; the server closes them
	TLS         TLS       // configuration of the gRPC and HTTP listeners
	Service     Service
	Logger      *slog.Logger // nil discards the lines
	// REST and Admin create the handlers of the HTTP and of the admin listener after the addresses are bound. Metrics creates
	// that of the fourth listener, and is required if it has an address.
	REST           func(*Server, *Local) (http.Handler, error)
	Admin, Metrics func(*Server) http.Handler
	// DrainTimeout is the time that a stop waits for calls to end before it cuts them off. Zero means 10 s.
	DrainTimeout time.Duration
	Limits       Limits
}

// Listeners are listeners that are open already.
type Listeners struct {
	GRPC, HTTP, Admin net.Listener
}

// Limits bound the load by one caller and by all of them. The zero value has the defaults.
type Limits struct {
	// CallerStreams and Streams are the maximum numbers of open watches, waits and downloads of one caller and of all. Zero
	// means 1,000 and 50,000.
	CallerStreams, Streams int
	// CallerCalls and Calls are the maximum numbers of other calls of one caller and of all. Zero means 320 and 480.
	CallerCalls, Calls int
	// Conns is the maximum number of connections of the gRPC and of the HTTP listener, each. Further ones wait. Zero means
	// 10,000.
	Conns int
	// MaxInputs is the maximum size of the inputs of a request, in bytes. Zero means [service.DefaultMaxInputs].
	MaxInputs int
	// StreamsPerConn is the maximum number of calls on one connection. The client's library holds the next one back in
	// silence, so the limit must be above CallerStreams. Zero means 250 more than CallerStreams.
	StreamsPerConn uint32
	// ConnAge is the age at which a gRPC client is asked for a new connection, so that load spreads over new replicas. Open
	// calls continue. Zero means 30 minutes.
	ConnAge time.Duration
}

// Limits without a setting.
const (
	// keepaliveIdle and keepaliveTimeout end the connection of a vanished client within 45 s.
	keepaliveIdle    = 30 * time.Second
	keepaliveTimeout = 15 * time.Second
	// keepaliveMinimum is the minimum time between two pings of a client. Common client settings ping every 10 s; half of that
	// allows for jitter.
	keepaliveMinimum = 5 * time.Second
	// handshakeTimeout and headerTimeout end connections that never send a request.
	handshakeTimeout = 10 * time.Second
	headerTimeout    = 10 * time.Second
	messageMargin    = 256 << 10       // maximum size of a request in addition to its inputs, in bytes
	headerBytes      = 32 << 10        // maximum size of the headers of a request
	idleTimeout      = 2 * time.Minute // time that an HTTP connection is kept for the next request
	streamWindow     = 64 << 10        // bytes that a call may send before they are read
	readBuffer       = 4 << 10         // bytes; silent connections keep theirs
	// connWindow is the number of bytes that a gRPC client may send ahead on one connection: a request of the largest size in
	// one go. The windows of the calls limit the unread bytes.
	connWindow = 4 << 20
	// writeTimeout is the time in which a client must read some of the bytes that wait for it.
	writeTimeout = service.DefaultSendTimeout
	// callsPerConn is the number of calls on a connection in addition to the streams of a caller. Each open call takes some
	// 20 KB: a client that opens and cancels calls without a pause reaches this limit, and over HTTP/2 the standard library
	// queues four times as many.
	callsPerConn = 250
	// callerWatched and allWatched are the maximum numbers of renders that the open watches of one caller, and of all, may
	// name. A watch of everything names none.
	callerWatched, allWatched = 20_000, 200_000
	connProbes                = 8   // maximum number of health watches and reflection streams on a connection
	operatorConns             = 256 // maximum number of connections of the admin and of the metrics listener, each
)

func (c Config) drainTimeout() time.Duration { return cmp.Or(c.DrainTimeout, 10*time.Second) }

func (c Config) logger() *slog.Logger { return cmp.Or(c.Logger, slog.New(slog.DiscardHandler)) }

func (l Limits) callerStreams() int { return cmp.Or(l.CallerStreams, 1000) }
func (l Limits) streams() int       { return cmp.Or(l.Streams, 50_000) }
func (l Limits) calls() int         { return cmp.Or(l.Calls, 480) }
func (l Limits) callerCalls() int   { return cmp.Or(l.CallerCalls, 320) }
func (l Limits) conns() int         { return cmp.Or(l.Conns, 10_000) }

// message returns the maximum size of a request: of a gRPC message after decompression, or of the body of a REST request.
func (l Limits) message() int { return cmp.Or(l.MaxInputs, service.DefaultMaxInputs) + messageMargin }

func (l Limits) connAge() time.Duration { return cmp.Or(l.ConnAge, 30*time.Minute) }
func (l Limits) streamsPerConn() uint32 {
	return cmp.Or(l.StreamsPerConn, uint32(l.callerStreams()+callsPerConn))
}

// listener is one of the server's.
type listener struct {
	name, addr string
	ready      net.Listener // nil if the address has to be bound
}

func (c Config) listeners() []listener {
	all := []listener{{"grpc", c.GRPCAddr, c.Listeners.GRPC}, {"http", c.HTTPAddr, c.Listeners.HTTP}, {"admin", c.AdminAddr, c.Listeners.Admin}}
	if c.MetricsAddr != "" {
		all = append(all, listener{name: "metrics", addr: c.MetricsAddr})
	}
	return all
}

// Validate reports all faults of the configuration together.
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
	fault(l.MaxInputs < 0 || l.MaxInputs > service.LargestMaxInputs, "maximum size of inputs %d is not from 1 to %d bytes", l.MaxInputs, service.LargestMaxInputs)
	fault(int64(l.callerStreams()) >= int64(l.streamsPerConn()),
		"%d calls on a connection are not more than the %d streams of a caller, whose next one would wait in silence", l.streamsPerConn(), l.callerStreams())
	return errors.Join(faults...)
}
