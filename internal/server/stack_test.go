package server_test

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/events"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/orders"
	"github.com/easel-grpc/easel/internal/rest"
	"github.com/easel-grpc/easel/internal/sandbox"
	"github.com/easel-grpc/easel/internal/server"
	"github.com/easel-grpc/easel/internal/server/servertest"
	"github.com/easel-grpc/easel/internal/service"
	"github.com/easel-grpc/easel/internal/telemetry"
	"github.com/easel-grpc/easel/internal/watch"
)

// stack is a complete Easel server connected to a sandbox, usually over loopback ports. At the end of the test, it
// checks that the sandbox's charges and balance for its API key are exact.
type stack struct {
	*testing.T
	sandbox *sandbox.Sandbox
	hub     *watch.Hub
	key     string
	grpc    *grpc.ClientConn
	http    *http.Client
	restURL string
	ledger  *ledger.Ledger
	catalog string // URL of the catalog to which the ledger belongs
	front   *server.Server
	// The scenario's caller, and the owner of its orders. Both are set only if the API key is shared.
	caller, owner string

	stop    context.CancelFunc // starts the drain
	stopped chan error         // result of Serve
}

// usualSpeed is the default Speed of a stack's sandbox. Render times are divided by it.
const usualSpeed = 200

// options configures a stack. A test can change the defaults.
type options struct {
	sandbox sandbox.Config
	service service.Config
	server  server.Config
	hub     watch.Config
	ledger  string                                    // URL of the ledger
	copied  bool                                      // whether Easel copies results
	events  *ledger.EventConfig                       // event configuration of the ledger; nil if it records no events
	wrap    func(http.RoundTripper) http.RoundTripper // wraps the transport to the catalog
	// memory selects in-memory connections. Tests in virtual time require them.
	memory      bool
	client      *tls.Config       // the clients' TLS configuration; nil means no TLS
	dialOptions []grpc.DialOption // options of the gRPC client
}

func newStack(t *testing.T, change ...func(*options)) *stack {
	t.Helper()
	o := options{
		sandbox: sandbox.Config{Seed: 11, Speed: usualSpeed},
		hub:     watch.Config{MinInterval: 20 * time.Millisecond, MaxInterval: 200 * time.Millisecond, Rate: 1000},
		wrap: func(base http.RoundTripper) http.RoundTripper {
			return telemetry.UpstreamTransport(base, slog.New(slog.DiscardHandler))
		},
		server: server.Config{GRPCAddr: "127.0.0.1:0", HTTPAddr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0", Admin: func(*server.Server) http.Handler { return http.NotFoundHandler() }},
		ledger: ledger.InMemory,
	}
	for _, f := range change {
		f(&o)
	}
	s := &stack{T: t, stopped: make(chan error, 1)}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	s.sandbox, err = sandbox.Open(o.sandbox)
	must(err)
	s.key, err = s.sandbox.CreateKey(t.Context(), sandbox.KeyConfig{BalanceCents: 100_000})
	must(err)
	tracer, err := telemetry.NewTracer()
	must(err)
	transport, stopCatalog := s.upstream(o.memory)
	client, err := catalog.New(catalog.Config{
		BaseURL: s.catalog + sandbox.BasePath, Transport: o.wrap(transport), AttemptTimeout: 2 * time.Second,
	})
	must(err)
	o.hub.Upstream, o.hub.Tracer = client.Polls(), tracer
	s.ledger, err = ledger.Open(t.Context(), ledger.Config{URL: o.ledger, Catalog: s.catalog, ResendWindow: time.Hour, Contents: o.copied, Events: o.events})
	must(err)
	recorder := &orders.Recorder{Ledger: s.ledger, Logger: slog.New(slog.DiscardHandler)}
	o.hub.Recorder = recorder
	s.hub, err = watch.New(o.hub)
	must(err)
	client = client.Reporting(func(_ context.Context, cred catalog.Credential, err error) { s.hub.Called(cred, err) })
	unmeasure, err := telemetry.Measure(telemetry.Readings{Limiters: client.Limiters().States, Hub: s.hub.Stats})
	must(err)
	o.service.Catalog, o.service.Hub = client, s.hub
	o.service.Orders = orders.New(orders.Config{
		Recorder: recorder, Catalog: client, Hub: s.hub,
		Ordered: func(ctx context.Context, cred catalog.Credential, modelID string, g catalog.Generation, err error) {
			tracer.Ordered(ctx, auth.Of(ctx).Caller, modelID, g, err)
		},
	})
	record, stopRecording := context.WithCancel(context.Background())
	var recording sync.WaitGroup
	recording.Go(func() { o.service.Orders.ReadChanges(record) })
	o.service.Feed = events.NewFeed(s.ledger, slog.New(slog.DiscardHandler))
	recording.Go(func() { o.service.Feed.Run(record) })
	services, err := service.New(o.service)
	must(err)
	o.server.Service = services
	o.server.REST = func(front *server.Server, local *server.Local) (http.Handler, error) {
		return rest.New(rest.Config{Calls: local, Content: services.Content, Addr: front.HTTPAddr()})
	}
	dialGRPC, dialHTTP := inMemory(&o)
	srv, err := server.New(o.server)
	must(err)
	must(srv.Listen())
	s.front = srv
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	go func() { s.stopped <- srv.Serve(ctx) }()
	encryption, scheme := insecure.NewCredentials(), "http://"
	if o.client != nil {
		encryption, scheme = credentials.NewTLS(o.client), "https://"
	}
	s.grpc, err = grpc.NewClient("passthrough:///"+srv.GRPCAddr(), append(dialGRPC, append(o.dialOptions, grpc.WithTransportCredentials(encryption))...)...)
	must(err)
	s.http = &http.Client{Transport: &http.Transport{DisableCompression: true, DialContext: dialHTTP, DisableKeepAlives: o.memory, TLSClientConfig: o.client}}
	s.restURL = scheme + srv.HTTPAddr()
	t.Cleanup(func() {
		s.http.CloseIdleConnections()
		s.grpc.Close()
		cancel()
		if err := <-s.stopped; err != nil {
			t.Error("the server did not stop cleanly:", err)
		}
		services.Close()
		_ = o.service.Orders.Close(context.Background())
		unmeasure()
		s.hub.Close()
		s.audit()
		stopCatalog()
		_ = s.sandbox.Close()
		stopRecording()
		recording.Wait()
		_ = s.ledger.Close()
	})
	return s
}

// audit returns the sandbox's audit of the API key's account, and checks that the account's charges and balance are
// exact.
func (s *stack) audit() sandbox.Audit {
	s.Helper()
	audit, err := s.sandbox.Audit(context.Background(), s.key)
	if err == nil {
		err = audit.Check()
	}
	if err != nil {
		s.Error("the audit of the account failed:", err)
	}
	return audit
}

// eventually waits until isMet returns true, and fails the test after 20 s. The string condition appears in the failure
// message.
func eventually(t *testing.T, condition string, isMet func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !isMet(); {
		if time.Now().After(deadline) {
			t.Fatal("condition not met within 20 s:", condition)
		}
		time.Sleep(time.Millisecond)
	}
}

// upstream starts the sandbox's server and stores its URL in s.catalog. It returns a transport to the sandbox, and a
// function that stops the server and closes the transport's idle connections.
func (s *stack) upstream(memory bool) (transport *catalog.TransportPools, stop func()) {
	listening, base := httptest.NewUnstartedServer(s.sandbox), catalog.NewTransport()
	s.catalog = "http://" + listening.Listener.Addr().String()
	if memory {
		listening.Listener.Close()
		pipe := servertest.Pipe()
		listening.Listener = pipe
		base.DialContext = servertest.PipeDialer(pipe)
	}
	listening.Start()
	transport = catalog.NewTransportPools(base)
	return transport, func() { transport.CloseIdleConnections(); listening.Close() }
}

// handled is a transport that passes requests directly to a handler.
type handled struct{ http.Handler }

func (h handled) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	answer := httptest.NewRecorder()
	if strings.HasSuffix(r.URL.Path, "/me") { // accepts every API key
		_, _ = io.WriteString(answer, `{"balanceCents":0}`)
	} else {
		h.ServeHTTP(answer, r)
	}
	result := answer.Result()
	result.Request = r
	return result, nil
}

// inMemory sets in-memory listeners if the options require them, and returns dial options for gRPC and a dial function for
// HTTP. If the stack listens on ports, both are nil.
func inMemory(o *options) (dialGRPC []grpc.DialOption, dialHTTP func(ctx context.Context, network, addr string) (net.Conn, error)) {
	if !o.memory {
		return nil, nil
	}
	calls, rest, admin := servertest.Pipe(), servertest.Pipe(), servertest.Pipe()
	o.server.Listeners = server.Listeners{GRPC: calls, HTTP: rest, Admin: admin}
	return []grpc.DialOption{grpc.WithContextDialer(servertest.GRPCDialer(calls))}, servertest.PipeDialer(rest)
}
