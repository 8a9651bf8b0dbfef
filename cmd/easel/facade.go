package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/easel-grpc/easel/gen/openapi"
	"github.com/easel-grpc/easel/internal/admin"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/events"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/limiter"
	"github.com/easel-grpc/easel/internal/orders"
	"github.com/easel-grpc/easel/internal/rest"
	"github.com/easel-grpc/easel/internal/rest/page"
	"github.com/easel-grpc/easel/internal/server"
	"github.com/easel-grpc/easel/internal/service"
	"github.com/easel-grpc/easel/internal/telemetry"
	"github.com/easel-grpc/easel/internal/terminal"
	"github.com/easel-grpc/easel/internal/watch"
)

// runFacade serves until ctx ends. The start is a list of steps, each undone by the
// defer below it, so that the stop is the same list read upwards. ready is called when
// the addresses are bound; it may be nil.
func runFacade(ctx context.Context, logs io.Writer, c *serveCmd, ready func(*server.Server)) error {
	c.guard()
	clock := &stopClock{limit: c.DrainTimeout}
	observed, flush, err := c.observed(ctx, logs, clock)
	if err != nil {
		return err
	}
	defer flush()

	notifier := newNotifier(service.EventData{Catalog: c.UpstreamURL, Results: c.PublicURL, Texts: c.ContentURL != ""})
	book, closed, err := c.ledger(ctx, notifier.outbox(), observed.Logger)
	if err != nil {
		return err
	}
	defer closed()

	gates := limiter.NewSet(limiter.Config{})
	transport := catalog.NewTransportPools(catalog.NewTransport())
	defer transport.CloseIdleConnections()
	upstream, err := c.catalog(transport, gates, observed.Logger)
	if err != nil {
		return err
	}

	recorder := orders.NewRecorder(book, observed.Logger)
	defer begin(context.WithoutCancel(ctx), recorder.Record)()
	hub, err := c.hub(upstream, gates, observed, book, recorder)
	if err != nil {
		return err
	}
	defer clock.forWork(hub.Close)
	defer begin(ctx, hub.DivideRate)()
	client := upstream.Reporting(func(ctx context.Context, cred catalog.Credential, err error) {
		hub.Called(cred, err)
		observed.Failures.Called(ctx, cred, err)
	})

	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	files := settingFiles{}
	held, unguard, err := c.held(ctx, client, book, &files, fail, observed.Logger)
	if err != nil {
		return wrongSetting("EASEL_UPSTREAM_KEY_FILE", err)
	}
	defer unguard()
	known, err := c.callers(ctx, book, notifier, observed.Logger)
	if err != nil {
		return wrongSetting("EASEL_CALLERS_FILE", err)
	}
	if known != nil {
		files = append(files, settingFile{"EASEL_CALLERS_FILE", known})
		defer begin(ctx, known.Issuers.Run)()
		awaitKeys(ctx, known.Issuers)
	}
	meter := ledger.NewMeter(ctx, book, held != nil)
	defer begin(ctx, meter.Run)()

	placing, leave := c.orders(ctx, orders.Config{Recorder: recorder, Catalog: client, Hub: hub, KeyFirst: c.UpstreamKeyFirst, Weight: known.Weight}, held, observed, clock)
	defer leave()
	defer begin(ctx, events.New(events.Config{Ledger: book, Teams: &notifier.teams, Logger: observed.Logger, Count: notifier.count}).Run)()

	contents, err := c.contents(ctx, client, book, held, observed.Logger)
	if err != nil {
		return err
	}
	defer clock.forWork(begin(ctx, contents.Run))

	services, err := service.New(service.Config{
		Catalog: client, Hub: hub, Orders: placing, Contents: contents, Held: held, Callers: known, MaxStreamAge: c.MaxStreamAge, Certificates: c.TLSClientCAFile != "",
		AllowAnonymous: c.AllowAnonymous || c.unguarded(), // whoever is on this machine may call an unguarded server: see guard
	})
	if err != nil {
		return err
	}
	defer services.Close()

	asked := placedOrders{book, client, held}
	operators := admin.Config{
		Status: admin.Status{
			Version: thisBuild().Version, Revision: thisBuild().Revision, Began: time.Now(), Hub: hub.Snapshot, Gates: gates.States, Copies: contents.Keeps(),
			Troubles: observed.Troubles, Unanswered: observed.Failures.Unanswered, Ledger: meter.Fresh, Files: func() []string { return files.problems() },
		},
		Orders: admin.Orders{Ledger: book, Contents: contents, Differs: asked.differs}, Events: known != nil, Closed: c.AdminAuth,
		LogLevel: observed.Level, Metrics: observed.Metrics, Nameless: observed.Nameless, AllowedHosts: c.HTTPAllowedHosts,
	}
	if held != nil {
		operators.Orders.APIKey, operators.Orders.Delete = held.APIKeySum(), asked.delete
	}
	if known != nil {
		operators.Status.Issuers, operators.Prove = known.Issuers.Problems, services.Operator
		operators.Orders.Owners = func() []string { return known.List().Owners() }
	}
	front, err := c.frontend(services, operators, observed.Logger, clock) //nolint:contextcheck // routes are registered without waiting
	if err != nil {
		return err
	}
	if certificates := front.Certificates(); certificates != nil {
		files = append(files, settingFile{"EASEL_TLS_CERT_FILE", certificates})
	}
	defer begin(ctx, files.follow)()
	unmeasure, err := telemetry.Measure(telemetry.Readings{
		Hub: hub.Stats, Gates: gates.States, Ledger: meter.Reading, Events: notifier.outcomes, Copies: countsOf(contents),
		Settings: func() map[string]int { return files.broken(known) },
	})
	if err != nil {
		return err
	}
	defer unmeasure()
	if err := c.auditStart(ctx, book, known, held); err != nil {
		return err
	}
	if err := front.Listen(); err != nil { //nolint:contextcheck // binding an address does not wait
		return wrongAddress(err)
	}
	c.tellInForce(observed.Logger, &notifier.teams, known)
	giveMemoryBack()
	if ready != nil {
		ready(front)
	}
	err = front.Serve(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, errOtherAccount) {
		return wrongSetting("EASEL_UPSTREAM_KEY_FILE", cause)
	}
	return err
}

// giveMemoryBack returns the memory of the startup to the kernel.
func giveMemoryBack() {
	runtime.GC()
	debug.FreeOSMemory()
}

// observed starts what tells of the facade. flush sends what is left.
func (c *serveCmd) observed(ctx context.Context, logs io.Writer, clock *stopClock) (observed *telemetry.Telemetry, flush func(), err error) {
	observed, shutdown, err := telemetry.Start(ctx, telemetry.Config{
		Version: thisBuild().Version, LogLevel: c.level(), LogFormat: c.LogFormat, LogOutput: terminal.SanitizingWriter{Writer: logs},
	})
	if err != nil {
		return nil, nil, wrongSetting("OTEL_*", err)
	}
	c.logUnknown(observed.Logger)
	return observed, func() {
		ctx, cancel := clock.forTelemetry(ctx)
		defer cancel()
		logFailure(observed.Logger, "telemetry was not sent in full", shutdown(ctx))
	}, nil
}

// begin begins works that go on until they are stopped, or ctx ends.
func begin(ctx context.Context, works ...func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	for _, work := range works {
		done.Go(func() { work(ctx) })
	}
	return func() {
		cancel()
		done.Wait()
	}
}

// catalog makes the client of the catalog.
func (c *serveCmd) catalog(transport http.RoundTripper, gates *limiter.Set, logger *slog.Logger) (*catalog.Client, error) {
	trace := func(base http.RoundTripper) http.RoundTripper { return telemetry.UpstreamTransport(base, logger) }
	client, err := catalog.New(catalog.Config{BaseURL: c.UpstreamURL, AllowInsecure: c.UpstreamInsecure, ContentHosts: c.ContentHosts, Transport: transport, Trace: trace, Gates: gates})
	if err != nil {
		return nil, wrongSetting("EASEL_UPSTREAM_URL", err)
	}
	if proxy := catalog.Proxy(c.UpstreamURL); proxy != "" {
		logger.Info("the catalog is reached through a proxy", "proxy", proxy)
	}
	return client, nil
}

// hub makes what polls.
func (c *serveCmd) hub(upstream *catalog.Client, gates *limiter.Set, observed *telemetry.Telemetry, book *ledger.Ledger, recorder *orders.Recorder) (*watch.Hub, error) {
	hub, err := watch.New(watch.Config{
		Upstream: upstream.Polls(), Gates: gates, MinInterval: c.PollMinInterval, MaxInterval: c.PollMaxInterval,
		Rate: c.PollRate, RefundWindow: c.RefundWindow, Logger: observed.Logger, Observer: observed.Observer,
		Ledger: book, Sighted: recorder.Sighted,
	})
	if err != nil {
		return nil, wrongSetting("EASEL_POLL_*", err)
	}
	return hub, nil
}

// orders takes orders through the ledger. Behind a held API key it recovers and settles those that nobody comes back for,
// until ctx ends. leave waits for the orders that are on their way.
func (c *serveCmd) orders(ctx context.Context, cfg orders.Config, held *catalog.Credential, observed *telemetry.Telemetry, clock *stopClock) (placing *orders.Orders, leave func()) {
	cfg.Ordered = func(ctx context.Context, cred catalog.Credential, modelID string, g catalog.Generation, err error) {
		observed.Observer.Ordered(ctx, service.Caller(ctx), modelID, g, err)
	}
	placing = orders.New(cfg)
	works := []func(context.Context){placing.Tidy}
	if held != nil {
		for _, unattended := range []func(context.Context, catalog.Credential){placing.Recover, placing.Settle, placing.Follow} {
			works = append(works, func(ctx context.Context) { unattended(ctx, *held) })
		}
	}
	stop := begin(ctx, works...)
	return placing, func() {
		stop() // so that no order begins any more
		left, done := clock.forOrders(ctx)
		defer done()
		logFailure(observed.Logger, "left before every outcome was known", placing.Close(left))
	}
}

// frontend puts the server in front of the services.
func (c *serveCmd) frontend(services *service.Service, operators admin.Config, logger *slog.Logger, clock *stopClock) (*server.Server, error) {
	c.warnOfAnyHost(logger)
	front, err := server.New(server.Config{
		GRPCAddr: c.GRPCAddr, HTTPAddr: c.HTTPAddr, AdminAddr: c.AdminAddr, MetricsAddr: c.MetricsAddr,
		TLS: server.TLS{
			CertFile: c.TLSCertFile, KeyFile: c.TLSKeyFile, ClientCAFile: c.TLSClientCAFile, ClientAuth: server.ClientAuth(c.TLSClientAuth),
		},
		Service: timedService{services, clock}, Logger: logger,
		REST: c.rest(services), Admin: c.operators(operators), Metrics: c.scraped(operators), DrainTimeout: clock.calls(),
		Limits: server.Limits{CallerStreams: c.CallerStreams, Streams: c.MaxStreams, CallerCalls: c.CallerCalls, Calls: c.MaxCalls, Conns: c.MaxConns},
	})
	if err != nil {
		return nil, wrongSetting("EASEL_TLS_*", err)
	}
	return front, nil
}

// warnOfAnyHost tells of a server that a web page could order from, by DNS rebinding: no credential
// and no Host keep it out.
func (c *serveCmd) warnOfAnyHost(logger *slog.Logger) {
	host, _, _ := net.SplitHostPort(c.HTTPAddr) // it has been checked
	if c.AllowAnonymous && len(c.HTTPAllowedHosts) == 0 && !isLoopback(host) {
		logger.Warn("anybody may call under any host name, a web page by DNS rebinding too: EASEL_HTTP_ALLOWED_HOSTS lists the hosts that are answered")
	}
}

// rest makes what the HTTP listener serves.
func (c *serveCmd) rest(services *service.Service) func(*server.Server, *server.Local) (http.Handler, error) {
	return func(front *server.Server, local *server.Local) (http.Handler, error) {
		return rest.New(rest.Config{
			Calls: local, Content: services.Content, OpenAPI: openapi.Document, Pages: page.Handlers(front.GRPCAddr()),
			Addr: front.HTTPAddr(), AllowedHosts: c.HTTPAllowedHosts,
		})
	}
}

// operators makes what the admin listener serves, once the server is there that it tells of.
func (c *serveCmd) operators(config admin.Config) func(*server.Server) (http.Handler, func()) {
	return func(front *server.Server) (http.Handler, func()) {
		config.Status.Serving, config.Status.Usage = front.Serving, func() (all []admin.Usage) {
			for _, usage := range front.Usage() {
				all = append(all, admin.Usage(usage))
			}
			return all
		}
		config.Addr, config.ConfiguredAddr = front.AdminAddr(), c.AdminAddr
		return admin.New(config)
	}
}

// scraped makes what the metrics listener serves.
func (c *serveCmd) scraped(config admin.Config) func(*server.Server) http.Handler {
	return func(front *server.Server) http.Handler {
		config.Status.Serving, config.Addr, config.ConfiguredAddr = front.Serving, front.MetricsAddr(), c.MetricsAddr
		return admin.NewScraped(config)
	}
}

// held is the credential of a key that this server holds, nil where callers bring theirs. One of another account than
// that of the ledger is refused, also later: then fail ends the server.
func (c *serveCmd) held(ctx context.Context, client *catalog.Client, book *ledger.Ledger, files *settingFiles, fail func(error), logger *slog.Logger) (credential *catalog.Credential, unguard func(), err error) {
	if c.heldKey != "" {
		credential := catalog.Held(func() catalog.Secret { return catalog.NewSecret(c.heldKey) })
		return &credential, func() {}, nil
	}
	if c.UpstreamKeyFile == "" {
		return nil, func() {}, nil
	}
	guard := &accountGuard{client: client, book: book, logger: logger}
	key, err := openHeldKey(c.UpstreamKeyFile, logger, guard.accept) //nolint:contextcheck // a later read has no call that waits for it
	if err != nil {
		return nil, nil, err
	}
	if unguard, err = guard.begin(ctx, key.Known, fail); err != nil {
		return nil, nil, err
	}
	*files = append(*files, settingFile{"EASEL_UPSTREAM_KEY_FILE", key})
	held := catalog.Held(key.Known)
	return &held, unguard, nil
}

// level is the log level; its name has been checked.
func (f *tuningFlags) level() (level slog.Level) {
	_ = level.UnmarshalText([]byte(f.LogLevel))
	return level
}

// wrongSetting ends a start because of a setting.
func wrongSetting(name string, err error) error {
	return &cli.Problem{Exit: cli.ExitUsage, Text: fmt.Sprintf("%s: %v", name, err), Err: err}
}

// wrongAddress names the address that can't be had, and the way out where another program has it.
func wrongAddress(err error) error {
	refused := (*server.ListenError)(nil)
	if !errors.As(err, &refused) {
		return err
	}
	name := "EASEL_" + strings.ToUpper(refused.Listener) + "_ADDR"
	if errors.Is(err, syscall.EADDRINUSE) {
		return wrongSetting(name, fmt.Errorf("%w; --%s-addr takes another, and port 0 is a free one", refused.Err, refused.Listener))
	}
	return wrongSetting(name, refused.Err)
}

func logFailure(logger *slog.Logger, message string, err error) {
	if err != nil {
		logger.Warn(message, "error", err)
	}
}
