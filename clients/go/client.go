// Package easel is a robust client for Easel. It orders each paid render once, resumes watches after failures, and
// verifies downloaded files.
//
//	client, err := easel.New(ctx) // from EASEL_ADDR and EASEL_API_KEY
//	order, err := client.Order(ctx, easel.Order{Model: "studio/landscape", Inputs: map[string]any{"prompt": "a calm sea"}, Key: row.ID})
//	for render, err := range client.Watch(ctx, order.GenerationID) { ... }
//	err = client.DownloadFile(ctx, order.GenerationID, "sea.png")
//
// The client retries a failed call if a retry may help. Before each retry, it waits for a back-off with jitter or for the delay
// that the server requests, whichever is longer. A call fails when its context is done, its total time has passed or its
// attempts are used up (see [Timeout] and [Attempts]). If a call keeps failing for five seconds, the client logs a warning.
package easel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/health" // enables the health checks in serviceConfig
	"google.golang.org/grpc/keepalive"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// Client calls one Easel deployment. It is safe for concurrent use. Its exported fields are the generated gRPC stubs. Unary
// calls through the stubs return this package's error types, and unary reads are retried.
type Client struct {
	Accounts    easelv1.AccountServiceClient
	Generations easelv1.GenerationServiceClient
	Catalog     easelv1.ModelServiceClient

	conn   *grpc.ClientConn
	forget func() bool // stops New's context from closing conn when the context is done
	warned warned
	settings
}

type settings struct {
	address, apiKey string
	keyFile         string // name of the file with the API key; empty if there is no such file
	tls             *tls.Config
	rootsFile       string // name of the file with trusted PEM certificates; empty if there is no such file
	plaintextKey    bool
	logger          *slog.Logger
	onRetry         func(Retry)
	onHeartbeat     func(Heartbeat)
	onMessage       func(Message)
	heartbeat       time.Duration
	attempts        int           // number of failed attempts after which a read fails
	timeout         time.Duration // total time for a read or an order; zero means 1 minute for a read and 15 minutes for an order
	dialer          func(context.Context, string) (net.Conn, error)
	dial            []grpc.DialOption
}

// Option changes a setting of a new client.
type Option func(*settings)

// WithAddress sets the server's address: host:port, http://host:port or https://host:port. The default is EASEL_ADDR, or
// localhost:50051 if EASEL_ADDR is unset. If the address has no scheme, the connection uses TLS, unless the host is a loopback
// address and neither WithTLS nor EASEL_TLS_CA_FILE is set.
func WithAddress(address string) Option { return func(s *settings) { s.address = address } }

// WithAPIKey sets the API key or token for all calls. If key is empty, calls are sent without a key. Without WithAPIKey, each
// call reads the key from the file at the path in EASEL_API_KEY_FILE. If that variable is unset, the key is the value of
// EASEL_API_KEY.
func WithAPIKey(key string) Option { return func(s *settings) { s.apiKey, s.keyFile = key, "" } }

// WithTLS sets the TLS configuration of the connection. The connection then uses TLS even to a loopback address. Without
// WithTLS, the client trusts the certificates in the file at the path in EASEL_TLS_CA_FILE. If that variable is unset, it
// trusts the system's certificates.
func WithTLS(config *tls.Config) Option {
	return func(s *settings) { s.tls, s.rootsFile = config, "" }
}

// WithPlaintextKey allows the client to send the API key without TLS to a host that is not loopback, for example if a service
// mesh encrypts the connection. EASEL_ALLOW_PLAINTEXT=true does the same.
func WithPlaintextKey() Option { return func(s *settings) { s.plaintextKey = true } }

// WithLogger sets the logger. The client logs a warning if a call keeps failing for five seconds, and a message when the call
// recovers. It also logs each idempotency key that Order creates, unless the key is passed to Order.OnKey. The default is
// slog.Default().
func WithLogger(logger *slog.Logger) Option { return func(s *settings) { s.logger = logger } }

// WithRetryHook sets a function that the client calls before each retry. If calls are retried concurrently, the client also
// calls this function concurrently.
func WithRetryHook(hook func(Retry)) Option { return func(s *settings) { s.onRetry = hook } }

// WithHeartbeatHook sets a function that is called with each heartbeat of a watch, on the goroutine that runs the watch's loop.
func WithHeartbeatHook(hook func(Heartbeat)) Option {
	return func(s *settings) { s.onHeartbeat = hook }
}

// WithMessageHook sets a function that is called with each message of a watch, before the loop receives the state in the message.
func WithMessageHook(hook func(Message)) Option { return func(s *settings) { s.onMessage = hook } }

// WithHeartbeatInterval sets the time without a message after which the server sends a heartbeat: 1 to 60 s, by default 10 s.
// If a watch receives no message for three intervals, it reconnects.
func WithHeartbeatInterval(interval time.Duration) Option {
	return func(s *settings) { s.heartbeat = interval }
}

// WithAttempts sets the number of failed attempts after which a read fails. The default is 5. If the server requests a delay
// after an attempt, this attempt counts toward a separate limit of 10.
func WithAttempts(n int) Option { return func(s *settings) { s.attempts = n } }

// WithTimeout limits the total time of each read and of each order. The default is one minute for a read and 15 minutes for an
// order.
func WithTimeout(total time.Duration) Option { return func(s *settings) { s.timeout = total } }

// WithDialer sets the function that opens network connections to the server. The function receives the server's host:port.
func WithDialer(dial func(context.Context, string) (net.Conn, error)) Option {
	return func(s *settings) { s.dialer = dial }
}

// WithDialOptions passes options, such as a stats handler, to grpc.NewClient.
func WithDialOptions(options ...grpc.DialOption) Option {
	return func(s *settings) { s.dial = append(s.dial, options...) }
}

// serviceConfig distributes calls among the healthy servers at all addresses of the host name. It has no retry policy,
// because this package itself retries calls.
const serviceConfig = `{"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": ""}}`

// maxMessage is the maximum size in bytes of a response that the client accepts. Servers of this version send at most 4 MiB.
const maxMessage = 16 << 20

// New creates a client. It returns an error if a setting, such as the address or the API key, is invalid. The client connects
// at the first call, and closes the connection when ctx is done or Close is called.
func New(ctx context.Context, options ...Option) (*Client, error) {
	s := settings{
		address: os.Getenv("EASEL_ADDR"), apiKey: os.Getenv("EASEL_API_KEY"), keyFile: os.Getenv("EASEL_API_KEY_FILE"), plaintextKey: os.Getenv("EASEL_ALLOW_PLAINTEXT") == "true",
		rootsFile: os.Getenv("EASEL_TLS_CA_FILE"), logger: slog.Default(), heartbeat: 10 * time.Second, attempts: 5, //nolint:forbidigo // a library logs to the default logger of the program that uses it
		onRetry: func(Retry) {}, onHeartbeat: func(Heartbeat) {}, onMessage: func(Message) {},
	}
	for _, option := range options {
		option(&s)
	}
	target, dial, err := s.dialOptions()
	if err != nil {
		return nil, err
	}
	dial = append(dial, s.dial...)
	s.apiKey, s.dial = "", nil // a printed Client must not show its key
	c := &Client{settings: s}
	c.conn, err = grpc.NewClient(target, append([]grpc.DialOption{grpc.WithChainUnaryInterceptor(c.interceptUnary)}, dial...)...)
	if err != nil {
		return nil, err
	}
	c.Accounts, c.Generations, c.Catalog = easelv1.NewAccountServiceClient(c.conn), easelv1.NewGenerationServiceClient(c.conn), easelv1.NewModelServiceClient(c.conn)
	c.forget = context.AfterFunc(ctx, func() { _ = c.conn.Close() })
	return c, nil
}

// Conn returns the client's connection. Use it to call gRPC services other than Easel's.
func (c *Client) Conn() grpc.ClientConnInterface { return c.conn }

// Close fails the calls in progress and closes the connection. Orders that the server has accepted are not canceled. The same
// happens when New's context is done.
func (c *Client) Close() error {
	c.forget()
	return c.conn.Close()
}

// dialOptions returns the target and the options for grpc.NewClient.
func (s *settings) dialOptions() (target string, options []grpc.DialOption, err error) {
	at, err := parseAddress(s.address)
	if err != nil {
		return "", nil, err
	}
	if s.keyFile != "" {
		if s.apiKey, err = readKey(s.keyFile); err != nil {
			return "", nil, err
		}
	}
	s.apiKey = strings.TrimSpace(s.apiKey)
	if s.rootsFile != "" {
		if s.tls, err = readRoots(s.rootsFile); err != nil {
			return "", nil, err
		}
	}
	if err := s.check(at); err != nil {
		return "", nil, err
	}
	transport, encrypted := insecure.NewCredentials(), s.tls != nil || !at.http && (at.https || !at.loopback)
	if encrypted {
		transport = credentials.NewTLS(s.tls)
	}
	options = []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithDefaultServiceConfig(serviceConfig), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
		grpc.WithUserAgent("easel-go/" + version()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second},
			MinConnectTimeout: 10 * time.Second,
		}),
	}
	if s.apiKey != "" {
		options = append(options, grpc.WithPerRPCCredentials(&bearer{file: s.keyFile, encrypted: encrypted, apiKey: s.apiKey}))
	}
	if s.dialer != nil {
		return "passthrough:///" + at.hostPort, append(options, grpc.WithContextDialer(s.dialer)), nil
	}
	return "dns:///" + at.hostPort, options, nil
}

// check returns an error for invalid settings, and for settings that would send the API key without TLS.
func (s *settings) check(at endpoint) error {
	switch {
	case at.http && s.tls != nil:
		return errors.New("easel: the address " + s.address + " has the scheme http, but WithTLS or EASEL_TLS_CA_FILE requires TLS; use https")
	case strings.ContainsFunc(s.apiKey, isForbiddenInKey):
		return errors.New("easel: the API key contains spaces, line breaks or invalid characters")
	case s.apiKey != "" && at.http && !at.loopback && !s.plaintextKey:
		return errors.New("easel: the API key would be sent without TLS to " + at.hostPort + "; use https, or set EASEL_ALLOW_PLAINTEXT=true if a mesh or tunnel encrypts the connection")
	}
	return nil
}

// readRoots returns a TLS configuration that trusts only the PEM certificates in a file.
func readRoots(file string) (*tls.Config, error) {
	text, err := os.ReadFile(file) //nolint:gosec // the path comes from the caller
	if err != nil {
		return nil, fmt.Errorf("easel: EASEL_TLS_CA_FILE: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, errors.New("easel: EASEL_TLS_CA_FILE: no PEM certificate in " + file)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}, nil
}

// bearer adds the API key to every call.
type bearer struct {
	file      string // name of the file with the API key, which each call reads again; empty if there is no such file
	encrypted bool

	mu     sync.Mutex
	apiKey string
}

// GetRequestMetadata returns the header with the API key. If the file can't be read or has no valid key,
// the header contains the last valid key.
func (b *bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	var newest string
	if b.file != "" {
		newest, _ = readKey(b.file)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if newest != "" {
		b.apiKey = newest
	}
	return map[string]string{"authorization": "Bearer " + b.apiKey}, nil
}

// readKey returns the API key in a file.
func readKey(file string) (string, error) {
	text, err := os.ReadFile(file) //nolint:gosec // the path comes from the caller
	if err != nil {
		return "", fmt.Errorf("easel: EASEL_API_KEY_FILE: %w", err)
	}
	key := strings.TrimSpace(string(text))
	if key == "" || strings.ContainsFunc(key, isForbiddenInKey) {
		return "", errors.New("easel: EASEL_API_KEY_FILE: invalid API key: the file is empty, or the key contains spaces, line breaks or invalid characters")
	}
	return key, nil
}

// isForbiddenInKey reports whether r is not allowed in an API key.
func isForbiddenInKey(r rune) bool { return r <= ' ' || r > '~' }

// RequireTransportSecurity reports whether the connection uses TLS. If it returns true, gRPC never sends the key without TLS.
func (b *bearer) RequireTransportSecurity() bool { return b.encrypted }

// version returns the version of this module that is linked into the running program.
func version() string {
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			if module.Path == "github.com/easel-grpc/easel/clients/go" {
				return module.Version
			}
		}
	}
	return "devel"
}
