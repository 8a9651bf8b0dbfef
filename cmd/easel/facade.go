package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/content"
	"github.com/easel-grpc/easel/internal/events"
	"github.com/easel-grpc/easel/internal/jobs"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/orders"
	"github.com/easel-grpc/easel/internal/server"
	"github.com/easel-grpc/easel/internal/service"
	"github.com/easel-grpc/easel/internal/telemetry"
	"github.com/easel-grpc/easel/internal/terminal"
	"github.com/easel-grpc/easel/internal/watch"
)

// facade contains the parts of a server, in the order in which they are opened.
type facade struct {
	*serveCmd
	background

	logs      io.Writer
	telemetry *telemetry.Telemetry
	notifier  *notifier
	ledger    *ledger.Ledger
	upstream  *catalog.Client
	client    *catalog.Client // copy of upstream that also reports the result of each request attempt to the hub and to telemetry
	recorder  *orders.Recorder
	hub       *watch.Hub
	files     settingFiles
	sharedKey *catalog.Credential         // nil if callers use their own API keys
	account   func(context.Context) error // repeats the account check of the shared API key in the background; nil if no repetition is needed
	known     *auth.Callers               // callers in the callers file; nil if there is no such file
	meter     *ledger.Meter
	placing   *orders.Orders
	contents  *content.Results
	services  *service.Service
	front     *server.Server
}

// runFacade opens the parts of a facade, serves until ctx is done, and stops the parts in the order that shutdown.go defines.
// If onReady is not nil, runFacade calls it when the addresses are bound.
func runFacade(ctx context.Context, logs io.Writer, c *serveCmd, onReady func(*server.Server)) error {
	c.guardAddresses()
	f := &facade{serveCmd: c, logs: logs, files: settingFiles{}, background: background{limit: c.DrainTimeout}}
	defer f.stop(ctx)
	for _, open := range []func(context.Context) error{
		f.openTelemetry,
		f.openLedger,
		f.openCatalog,
		f.openHub,
		f.openAPIKey,
		f.openCallers,
		f.openOrders,
		f.openResults,
		f.openJobs,
		f.openServices,
		f.openServers,
		f.openMetrics,
		f.listen,
	} {
		if err := open(ctx); err != nil {
			return err
		}
	}
	debug.FreeOSMemory() // returns to the operating system the memory that only startup needed
	if onReady != nil {
		onReady(f.front)
	}
	return f.serve(ctx)
}

// serve serves until ctx is done, or until the account check finds that the shared API key belongs to another account. It
// returns after the servers have drained.
func (f *facade) serve(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, f.beginStop)()
	group.Go(func() error { return f.front.Serve(ctx) })
	if f.account != nil {
		group.Go(func() error { return f.account(ctx) })
	}
	err := group.Wait()
	if errors.Is(err, errOtherAccount) {
		return wrongSetting("EASEL_UPSTREAM_KEY_FILE", err)
	}
	return err
}

func (f *facade) openTelemetry(ctx context.Context) error {
	observed, shutdown, err := telemetry.Start(ctx, telemetry.Config{
		Version: thisBuild().Version, LogLevel: f.level(), LogFormat: f.LogFormat, LogOutput: terminal.SanitizingWriter{Writer: f.logs},
	})
	if err != nil {
		return wrongSetting("OTEL_*", err)
	}
	f.telemetry, f.logger = observed, observed.Logger
	f.closeAt(stopTelemetry, shutdown)
	f.logUnknown(f.logger)
	return nil
}

// openCatalog creates the catalog client.
func (f *facade) openCatalog(context.Context) (err error) {
	transport := catalog.NewTransportPools(catalog.NewTransport())
	f.closeAt(stopJobs, func(context.Context) error { transport.CloseIdleConnections(); return nil })
	f.upstream, err = catalog.New(catalog.Config{
		BaseURL: f.UpstreamURL, AllowInsecure: f.UpstreamInsecure, ContentHosts: f.ContentHosts, Transport: telemetry.UpstreamTransport(transport, f.logger),
	})
	if err != nil {
		return wrongSetting("EASEL_UPSTREAM_URL", err)
	}
	if proxy := catalog.Proxy(f.UpstreamURL); proxy != "" {
		f.logger.Info("catalog requests sent through proxy", "proxy", proxy)
	}
	return nil
}

// openHub starts polling.
func (f *facade) openHub(ctx context.Context) (err error) {
	f.recorder = &orders.Recorder{Ledger: f.ledger, Logger: f.logger}
	f.hub, err = watch.New(watch.Config{
		Upstream: f.upstream.Polls(), MinInterval: f.PollMinInterval, MaxInterval: f.PollMaxInterval,
		Rate: f.PollRate, RefundWindow: f.RefundWindow, Logger: f.logger, Tracer: f.telemetry.Tracer,
		Ledger: f.ledger, Recorder: f.recorder,
	})
	if err != nil {
		return wrongSetting("EASEL_POLL_*", err)
	}
	f.closeAt(stopHub, func(context.Context) error { f.hub.Close(); return nil }) //nolint:contextcheck // Close needs no context, because it limits the time for recording the last states itself
	f.start(ctx, stopHub, f.hub.DivideRate)
	f.client = f.upstream.Reporting(func(ctx context.Context, cred catalog.Credential, err error) {
		f.hub.Called(cred, err)
		f.telemetry.Failures.Called(ctx, cred, err)
	})
	return nil
}

// openAPIKey reads the shared API key, and checks that it belongs to the ledger's account.
func (f *facade) openAPIKey(ctx context.Context) error {
	known := func() catalog.Secret { return catalog.NewSecret(f.devKey) }
	if f.UpstreamKeyFile != "" {
		guard := &accountGuard{client: f.client, ledger: f.ledger, logger: f.logger}
		key, err := openHeldKey(f.UpstreamKeyFile, f.logger, guard.acceptKey) //nolint:contextcheck // the key is reloaded in the background, not during a call
		if err == nil {
			f.account, err = guard.checkAtStart(ctx, key.Known)
		}
		if err != nil {
			return wrongSetting("EASEL_UPSTREAM_KEY_FILE", err)
		}
		f.files["EASEL_UPSTREAM_KEY_FILE"], known = key, key.Known
	}
	if f.holdsKey() {
		f.sharedKey = new(catalog.Shared(known))
	}
	return nil
}

func (f *facade) openCallers(ctx context.Context) (err error) {
	if f.CallersFile == "" {
		return nil
	}
	if f.known, err = loadCallers(ctx, f.CallersFile, f.ledger, f.notifier, f.logger); err != nil {
		return wrongSetting("EASEL_CALLERS_FILE", err)
	}
	f.files["EASEL_CALLERS_FILE"] = f.known
	f.known.ReadKeys(ctx)
	f.start(ctx, stopJobs, f.known.FollowKeys)
	return nil
}

// openOrders creates the service that places orders. With a shared API key, it also starts the recovery of orders that no call
// is waiting for.
func (f *facade) openOrders(ctx context.Context) error {
	f.placing = orders.New(orders.Config{
		Recorder: f.recorder, Catalog: f.client, Hub: f.hub, KeyFirst: f.UpstreamKeyFirst, Weight: f.known.Weight,
		Ordered: func(ctx context.Context, _ catalog.Credential, modelID string, g catalog.Generation, err error) {
			f.telemetry.Tracer.Ordered(ctx, auth.Of(ctx).Caller, modelID, g, err)
		},
	})
	f.closeAt(stopOrders, f.placing.Close)
	f.start(ctx, stopOrders, f.placing.ReadChanges)
	if f.sharedKey != nil {
		f.start(ctx, stopOrders, func(ctx context.Context) { f.placing.ResendAbandoned(ctx, *f.sharedKey) })
	}
	return nil
}

// openJobs starts the loop that runs the ledger's background jobs.
func (f *facade) openJobs(ctx context.Context) error {
	sender := events.New(events.Config{Ledger: f.ledger, Teams: &f.notifier.teams, Logger: f.logger, Count: f.notifier.count})
	kinds := slices.Concat(sender.Kinds(), f.contents.Kinds(), []jobs.Kind{jobs.Prune(f.ledger), jobs.Retention(f.ledger)})
	if f.sharedKey != nil {
		kinds = append(kinds, f.placing.Settle(*f.sharedKey))
	}
	f.start(ctx, stopJobs, jobs.New(f.ledger, f.logger, kinds...).Run)
	return nil
}

func (f *facade) openServices(ctx context.Context) (err error) {
	feed := events.NewFeed(f.ledger, f.logger)
	f.start(ctx, stopJobs, feed.Run)
	f.services, err = service.New(service.Config{
		Feed: feed, Catalog: f.client, Hub: f.hub, Orders: f.placing, Contents: f.contents, MaxStreamAge: f.MaxStreamAge, MaxInputs: f.MaxInputs,
		Auth: auth.Config{
			SharedKey: f.sharedKey, Callers: f.known, Certificates: f.TLSClientCAFile != "",
			AllowAnonymous: f.AllowAnonymous || f.isUnguarded(), // an unguarded server can be reached only from this machine: see the methods unguarded, guard and addressFaults
		},
	})
	if err == nil {
		f.closeAt(stopOrders, func(context.Context) error { f.services.Close(); return nil })
	}
	return err
}

// openMetrics registers the metrics of all parts. It also starts two background jobs: one reloads setting files after they
// have changed, and the other periodically reads the ledger's totals.
func (f *facade) openMetrics(ctx context.Context) error {
	f.meter = ledger.NewMeter(ctx, f.ledger, f.sharedKey != nil)
	f.start(ctx, stopJobs, f.files.follow, f.meter.Run)
	_, err := telemetry.Measure(telemetry.Readings{
		Hub: f.hub.Stats, Limiters: f.upstream.Limiters().States, Ledger: f.meter.Reading, Copies: countsOf(f.contents),
		Settings: f.settingProblems,
	})
	return err
}

// listen binds the server's addresses, and logs the configuration.
func (f *facade) listen(context.Context) error {
	if err := f.front.Listen(); err != nil { //nolint:contextcheck // binding an address does not block
		return wrongAddress(err)
	}
	f.logInForce(f.logger, f.known)
	return nil
}

// level returns the log level, which is info if the setting is empty. The parser has already rejected invalid values.
func (f *tuningFlags) level() (level slog.Level) {
	_ = level.UnmarshalText([]byte(f.LogLevel))
	return level
}

// toUsageProblem converts an error in the command line, a setting or a file to a problem with the exit code ExitUsage.
func toUsageProblem(err error) error {
	return &cli.Problem{Exit: cli.ExitUsage, Text: err.Error(), Err: err}
}

// wrongSetting is like toUsageProblem, but prefixes the error with the name of the setting.
func wrongSetting(name string, err error) error {
	return toUsageProblem(fmt.Errorf("%s: %w", name, err))
}

// wrongAddress returns the problem for an address that can't be bound. If the address is in use, the problem's text suggests
// how to select another one.
func wrongAddress(err error) error {
	refused := (*server.ListenError)(nil)
	if !errors.As(err, &refused) {
		return err
	}
	name := "EASEL_" + strings.ToUpper(refused.Listener) + "_ADDR"
	if errors.Is(err, syscall.EADDRINUSE) {
		return wrongSetting(name, fmt.Errorf("%w; set another address with --%s-addr, or port 0 for any free port", refused.Err, refused.Listener))
	}
	return wrongSetting(name, refused.Err)
}
