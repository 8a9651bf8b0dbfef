package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/easel-grpc/easel/gen/openapi"
	"github.com/easel-grpc/easel/internal/admin"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/ledger"
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

	telling := newTelling(c.UpstreamURL)
	book, closed, err := c.ledger(ctx, telling.outbox(), observed.Logger)
	if err != nil {
		return err
	}
	defer closed()

	transport := catalog.NewTransportPools(catalog.NewTransport())
	defer transport.CloseIdleConnections()
	var hub *watch.Hub // made below, before anybody can call
	client, err := c.catalog(telemetry.UpstreamTransport(transport), observed, func() *watch.Hub { return hub })
	if err != nil {
		return err
	}

	others, err := c.peering(observed.Logger)
	if err != nil {
		return err
	}
	defer others.end()

	var taken *orders.Orders // made below, before anybody can call
	sighted := func(s watch.Sighting) {
		if taken != nil {
			taken.Sighted(s.Credential, s.Version, s.NotFound)
		}
	}
	if hub, err = c.hub(client, observed, others.peers, sighted); err != nil {
		return err
	}
	defer clock.forPolls(hub.Close)

	unmeasure, err := telemetry.Measure(hub.Stats, others.stats)
	if err != nil {
		return err
	}
	defer unmeasure()

	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	files := settingFiles{}
	held, unguard, err := c.held(ctx, client, book, &files, fail, observed.Logger)
	if err != nil {
		return wrongSetting("EASEL_UPSTREAM_KEY_FILE", err)
	}
	defer unguard()
	known, err := c.callers(ctx, book, telling, observed.Logger)
	if err != nil {
		return wrongSetting("EASEL_CALLERS_FILE", err)
	}
	if known != nil {
		files = append(files, known)
	}
	defer files.follow(ctx)()
	meter := &ledgerMeter{book: book, known: known, owners: held != nil, events: telling.outcomes}
	unmeasureLedger, err := meter.measure(ctx)
	if err != nil {
		return err
	}
	defer unmeasureLedger()

	var leave func()
	taken, leave = c.orders(ctx, client, hub, meter, telling, held, observed, clock)
	defer leave()
	defer telling.send(ctx, book, observed.Logger)()

	services, err := c.services(client, hub, taken, held, known)
	if err != nil {
		return err
	}
	defer services.Close()

	status := admin.Status{Hub: hub.Snapshot, Replicas: others.stats, Troubles: observed.Troubles, Unanswered: observed.Failures.Unanswered, Ledger: meter.page, Files: files.problems}
	front, err := c.frontend(services, status, admin.Config{Orders: operatorsOrders(book, client, held, observed.Logger), Events: operatorsEvents(book, known)}, observed, clock) //nolint:contextcheck // routes are registered without waiting
	if err != nil {
		return err
	}
	if err := front.Listen(); err != nil { //nolint:contextcheck // binding an address does not wait
		return wrongAddress(err)
	}
	c.tellInForce(observed.Logger, &telling.teams)
	if ready != nil {
		ready(front)
	}
	err = front.Serve(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, errOtherAccount) {
		return wrongSetting("EASEL_UPSTREAM_KEY_FILE", cause)
	}
	return err
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

// catalog makes the client of the catalog.
func (c *serveCmd) catalog(transport http.RoundTripper, observed *telemetry.Telemetry, hub func() *watch.Hub) (client *catalog.Client, err error) {
	client, err = catalog.New(catalog.Config{
		BaseURL: c.UpstreamURL, AllowInsecure: c.UpstreamInsecure, Transport: transport,
		Called: func(ctx context.Context, cred catalog.Credential, err error) {
			hub().Called(cred, err)
			observed.Failures.Called(ctx, cred, err)
		},
	})
	if err != nil {
		return nil, wrongSetting("EASEL_UPSTREAM_URL", err)
	}
	if proxy := catalog.Proxy(c.UpstreamURL); proxy != "" {
		observed.Logger.Info("the catalog is reached through a proxy", "proxy", proxy)
	}
	return client, nil
}

// hub makes what polls.
func (c *serveCmd) hub(client *catalog.Client, observed *telemetry.Telemetry, peers watch.Peers, sighted func(watch.Sighting)) (*watch.Hub, error) {
	hub, err := watch.New(watch.Config{
		Upstream: client.Once(), MinInterval: c.PollMinInterval, MaxInterval: c.PollMaxInterval,
		Rate: c.PollRate, RefundWindow: c.RefundWindow, Logger: observed.Logger, Observer: observed.Observer,
		Peers: peers, Sighted: sighted,
	})
	if err != nil {
		return nil, wrongSetting("EASEL_POLL_*", err)
	}
	return hub, nil
}

// orders takes orders through the ledger, and records what becomes of them. Behind a held API key it
// recovers and settles those that nobody comes back for, until ctx ends. leave waits for the orders that are on their way,
// and for what was seen of renders to be recorded.
func (c *serveCmd) orders(ctx context.Context, client *catalog.Client, hub *watch.Hub, meter *ledgerMeter, telling *telling, held *catalog.Credential, observed *telemetry.Telemetry, clock *stopClock) (taken *orders.Orders, leave func()) {
	taken = orders.New(orders.Config{
		Ledger: meter.book, Catalog: client, Logger: observed.Logger, Called: hub.Called,
		Ordered: func(ctx context.Context, cred catalog.Credential, modelID string, g catalog.Generation, err error) {
			hub.Ordered(cred)
			observed.Observer.Ordered(ctx, service.Caller(ctx), modelID, g, err)
		},
		Fault: func() { meter.faults.Add(1) }, Dearer: func() { meter.dearer.Add(1) },
		Share: func(ctx context.Context, cred catalog.Credential, read catalog.Version) { hub.Observe(ctx, cred, read) },
		Gone: func(ctx context.Context, cred catalog.Credential, id string) {
			hub.Gone(ctx, cred, id)
		},
		Told: telling.teams.Names, Watch: watchUntilSettled(hub), KeyFirst: c.UpstreamKeyFirst,
	})
	recording, recorded := context.WithCancel(context.WithoutCancel(ctx))
	var work, record sync.WaitGroup
	record.Go(func() { taken.Record(recording) })
	ctx, cancel := context.WithCancel(ctx)
	work.Go(func() { taken.Tidy(ctx) })
	if held != nil {
		work.Go(func() { taken.Recover(ctx, *held) })
		work.Go(func() { taken.Settle(ctx, *held) })
		work.Go(func() { taken.Follow(ctx, *held) })
	}
	return taken, func() {
		cancel()
		work.Wait() // so that none begins any more
		left, done := clock.forOrders(ctx)
		defer done()
		logFailure(observed.Logger, "left before every outcome was known", taken.Close(left))
		recorded()
		record.Wait()
	}
}

// services puts the services in front of what they stand on.
func (c *serveCmd) services(client *catalog.Client, hub *watch.Hub, taken *orders.Orders, held *catalog.Credential, known *service.Callers) (*service.Service, error) {
	return service.New(service.Config{
		Catalog: client, Hub: hub, Orders: taken, Held: held, Callers: known, MaxStreamAge: c.MaxStreamAge, Certificates: c.TLSClientCAFile != "",
		// Whoever is on this machine may call an unguarded server: see guard.
		AllowAnonymous: c.AllowAnonymous || c.unguarded(),
	})
}

// frontend puts the server in front of the services.
func (c *serveCmd) frontend(services *service.Service, status admin.Status, operators admin.Config, observed *telemetry.Telemetry, clock *stopClock) (*server.Server, error) {
	c.warnOfAnyHost(observed.Logger)
	front, err := server.New(server.Config{
		GRPCAddr: c.GRPCAddr, HTTPAddr: c.HTTPAddr, AdminAddr: c.AdminAddr,
		TLS:     server.TLS{CertFile: c.TLSCertFile, KeyFile: c.TLSKeyFile, ClientCAFile: c.TLSClientCAFile, ClientAuth: server.ClientAuth(c.TLSClientAuth)},
		Service: timedService{services, clock}, Logger: observed.Logger,
		REST: c.rest(services), Admin: c.operators(status, operators, observed), DrainTimeout: clock.calls(),
		Limits: server.Limits{CallerStreams: c.CallerStreams, Streams: c.MaxStreams, Calls: c.MaxCalls, Conns: c.MaxConns},
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
	if c.AllowAnonymous && len(c.HTTPAllowedHosts) == 0 && !cli.IsLoopback(host) {
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
func (c *serveCmd) operators(status admin.Status, operators admin.Config, observed *telemetry.Telemetry) func(*server.Server) (http.Handler, func()) {
	return func(front *server.Server) (http.Handler, func()) {
		this := thisBuild()
		status.Version, status.Revision, status.Began = this.Version, this.Revision, time.Now()
		status.Serving, status.Usage = front.Serving, func() (all []admin.Usage) {
			for _, usage := range front.Usage() {
				all = append(all, admin.Usage(usage))
			}
			return all
		}
		operators.Status, operators.LogLevel, operators.Metrics = status, observed.Level, observed.Metrics
		operators.Addr, operators.ConfiguredAddr, operators.AllowedHosts = front.AdminAddr(), c.AdminAddr, c.HTTPAllowedHosts
		return admin.New(operators)
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
	*files = append(*files, key)
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
