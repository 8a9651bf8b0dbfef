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

// Service is what the server serves. Package service implements it.
type Service interface {
	// Register adds the services of the contract to a gRPC server. It is called
	// once for the public server and once for the one in memory.
	Register(grpc.ServiceRegistrar)
	// Admit refuses a call without a credential that may be one. It only looks at maps. The metadata of ctx and certificate
	// are as in Authenticate.
	Admit(ctx context.Context, certificate *auth.Certificate) error
	// Authenticate returns the context of a call with its caller, or refuses the call. It reads the metadata
	// "authorization"; certificate is the caller's verified one.
	Authenticate(ctx context.Context, certificate *auth.Certificate) (context.Context, error)
	// Drain tells every open watch and wait that the server goes down. Downloads go on
	// until the time of the drain is over.
	Drain()
}

// Config says what to serve, where and how.
type Config struct {
	// GRPCAddr, HTTPAddr and AdminAddr are "host:port" of the three listeners. An
	// empty host is every address, port 0 takes a free port. Each is required,
	// unless Listeners has the listener.
	GRPCAddr, HTTPAddr, AdminAddr string
	// MetricsAddr is the address of a fourth listener, for those who scrape and probe. Empty: there is none.
	MetricsAddr string
	// Listeners are used instead of addresses where they are set; the server
	// closes them. The zero value binds the addresses.
	Listeners Listeners
	// TLS encrypts the gRPC and HTTP listeners. The zero value is plaintext.
	TLS TLS
	// Service is required.
	Service Service
	// Logger takes the server's logs. nil discards them.
	Logger *slog.Logger
	// REST creates the handler of the HTTP listener, and Admin the handler of the admin listener. Serve calls both when the
	// addresses are bound. Nil serves nothing.
	REST  func(*Server, *Local) (http.Handler, error)
	Admin func(*Server) http.Handler
	// Metrics makes the handler of the fourth listener. Required where that has an address.
	Metrics func(*Server) http.Handler
	// DrainTimeout is how long a stop waits for calls to end before it cuts them
	// off. 0 means 10 s.
	DrainTimeout time.Duration
	// Limits bound what one caller can take. The zero value has good defaults.
	Limits Limits
}

// Listeners are ready-made listeners; tests run the server over in-memory ones.
type Listeners struct {
	GRPC, HTTP, Admin net.Listener
}

// Limits bound what one caller can take from the others.
type Limits struct {
	// CallerStreams is how many watches, waits and downloads one caller may have open
	// at once. One more is refused. 0 means 1,000.
	CallerStreams int
	// Streams is the same for all callers together. 0 means 50,000.
	Streams int
	// CallerCalls is the maximum number of other calls of one caller under way. Zero means 320.
	CallerCalls int
	// Calls is the maximum number of other calls of all callers under way. Zero means 480.
	Calls int
	// Conns is the maximum number of connections of the gRPC and of the HTTP listener, each. Further ones wait. Zero means
	// 10,000.
	Conns int
	// MaxInputs is the maximum size of the inputs of a request, in bytes. Zero means [service.DefaultMaxInputs].
	MaxInputs int
	// StreamsPerConn is how many calls one connection may have open. The client's library holds back
	// any further call, in silence, until another one ends. So the limit must be above
	// CallerStreams. 0 means 250 more than CallerStreams.
	StreamsPerConn uint32
	// ConnAge is when a gRPC connection is asked to be replaced, so that load
	// spreads over new replicas. Open calls go on for as long as they like. 0 means
	// 30 minutes.
	ConnAge time.Duration
}

// Limits without a setting.
const (
	// keepaliveIdle and keepaliveTimeout free what a vanished client holds within
	// 45 s.
	keepaliveIdle    = 30 * time.Second
	keepaliveTimeout = 15 * time.Second
	// keepaliveMinimum is how often a client may ping. Common client settings ping
	// every 10 s; half of that allows for jitter.
	keepaliveMinimum = 5 * time.Second
	// handshakeTimeout and headerTimeout end connections that never ask for anything.
	handshakeTimeout = 10 * time.Second
	headerTimeout    = 10 * time.Second
	// messageMargin is the size that a request may have in addition to its inputs, in bytes.
	messageMargin = 256 << 10
	// headerBytes is the most that the headers of one request may take.
	headerBytes = 32 << 10

	// idleTimeout is how long an HTTP connection is kept for the next request.
	idleTimeout = 2 * time.Minute
	// requestTimeout is the time that the body of a REST request may take to arrive.
	requestTimeout = 10 * time.Second
	// streamWindow is how many bytes a call may send before they are read.
	streamWindow = 64 << 10
	// readBuffer is of a gRPC connection: as large as that of HTTP, since silent connections keep theirs.
	readBuffer = 4 << 10
	// connWindow is how many bytes a gRPC client may send ahead on one connection: a request of the
	// largest size in one go. The windows of the calls limit the unread bytes.
	connWindow = 4 << 20
	// writeTimeout is how long a client may take no byte while bytes wait for it.
	// It holds for each chunk written, as a stream has no total.
	writeTimeout = service.DefaultSendTimeout
	// callsPerConn is how many calls a connection may have open beside the streams of a
	// caller. Each open call takes some 20 KB, even a call that does no work: a client that opens
	// and cancels calls without a pause reaches this limit, and over HTTP/2 the standard library
	// queues four times as many.
	callsPerConn = 250
	// callerWatched and allWatched are the maximum numbers of renders that the open watches of one caller, and of all, may
	// name. A watch of everything names none.
	callerWatched, allWatched = 20_000, 200_000
	// operatorConns is the maximum number of connections to the admin address, and to that of metrics.
	operatorConns = 256
)

func (c Config) drainTimeout() time.Duration { return cmp.Or(c.DrainTimeout, 10*time.Second) }

func (c Config) rest(s *Server, local *Local) (http.Handler, error) {
	if c.REST == nil {
		return http.NotFoundHandler(), nil
	}
	return c.REST(s, local)
}

func (c Config) admin(s *Server) http.Handler {
	if c.Admin == nil {
		return http.NotFoundHandler()
	}
	return c.Admin(s)
}

func (c Config) logger() *slog.Logger { return cmp.Or(c.Logger, slog.New(slog.DiscardHandler)) }

func (l Limits) callerStreams() int { return cmp.Or(l.CallerStreams, 1000) }
func (l Limits) streams() int       { return cmp.Or(l.Streams, 50_000) }
func (l Limits) calls() int         { return cmp.Or(l.Calls, 480) }
func (l Limits) callerCalls() int   { return cmp.Or(l.CallerCalls, 320) }
func (l Limits) conns() int         { return cmp.Or(l.Conns, 10_000) }

// message returns the maximum size of a request: of a gRPC message after decompression, or of the body of a REST request.
func (l Limits) message() int { return cmp.Or(l.MaxInputs, service.DefaultMaxInputs) + messageMargin }

func (l Limits) streamsPerConn() uint32 {
	return cmp.Or(l.StreamsPerConn, uint32(l.callerStreams()+callsPerConn))
}
func (l Limits) connAge() time.Duration { return cmp.Or(l.ConnAge, 30*time.Minute) }

// listener is one of the server's.
type listener struct {
	name  string       // as it stands in logs
	addr  string       // to bind
	ready net.Listener // to use instead, and what was bound
}

func (c Config) listeners() []listener {
	all := []listener{
		{name: "grpc", addr: c.GRPCAddr, ready: c.Listeners.GRPC},
		{name: "http", addr: c.HTTPAddr, ready: c.Listeners.HTTP},
		{name: "admin", addr: c.AdminAddr, ready: c.Listeners.Admin},
	}
	if c.MetricsAddr != "" {
		all = append(all, listener{name: "metrics", addr: c.MetricsAddr})
	}
	return all
}

// Validate reports every fault of the configuration together.
func (c Config) Validate() error {
	var faults []error
	fault := func(broken bool, format string, args ...any) {
		if broken {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	for _, l := range c.listeners() {
		fault(l.ready == nil && l.addr == "", "the %s listener has no address", l.name)
		if l.ready == nil && l.addr != "" {
			_, _, err := net.SplitHostPort(l.addr)
			fault(err != nil, "the address of the %s listener: %w", l.name, err)
		}
	}
	fault(c.Service == nil, "there is no service to serve")
	fault(c.MetricsAddr != "" && c.Metrics == nil, "the metrics listener has nothing to serve")
	fault((c.TLS.CertFile == "") != (c.TLS.KeyFile == ""), "TLS needs both a certificate file and a key file")
	fault(c.TLS.ClientCAFile != "" && !c.TLS.enabled(), "a client CA file needs a certificate file and a key file")
	fault(c.TLS.ClientAuth != "" && c.TLS.ClientCAFile == "", "what is asked of client certificates needs a client CA file")
	fault(!slices.Contains([]ClientAuth{"", RequireClientCert, VerifyClientCertIfGiven}, c.TLS.ClientAuth), "unknown client authentication %q", c.TLS.ClientAuth)
	fault(c.DrainTimeout < 0, "the drain timeout is negative: %v", c.DrainTimeout)
	c.Limits.check(fault)
	return errors.Join(faults...)
}

func (l Limits) check(fault func(broken bool, format string, args ...any)) {
	fault(l.ConnAge < 0, "the connection age is negative: %v", l.ConnAge)
	fault(l.CallerStreams < 0, "the streams of a caller are negative: %d", l.CallerStreams)
	fault(l.Streams < 0, "the streams of all callers are negative: %d", l.Streams)
	fault(l.Calls < 0, "the calls at once are negative: %d", l.Calls)
	fault(l.CallerCalls < 0, "the calls of a caller are negative: %d", l.CallerCalls)
	fault(l.MaxInputs < 0 || l.MaxInputs > service.LargestMaxInputs, "the maximum size of inputs is not from 1 to %d bytes: %d", service.LargestMaxInputs, l.MaxInputs)
	fault(l.Conns < 0, "the connections are negative: %d", l.Conns)
	fault(int64(l.callerStreams()) >= int64(l.streamsPerConn()),
		"a connection takes %d calls, so a caller with %d streams would wait in silence for its next", l.streamsPerConn(), l.callerStreams())
}
