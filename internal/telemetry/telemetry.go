// Package telemetry sets up logs, traces and metrics.
//
// It reads OpenTelemetry's settings (OTEL_*) and adds one rule: nothing is sent unless a setting enables the export. A server
// without a collector therefore opens no connections. Metrics are always available at Telemetry.Metrics.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"
	nometric "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	notrace "go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/sync/errgroup"
)

// shutdownLimit is the maximum time for the last export of spans and metrics. An unavailable collector delays the exit by at
// most this time.
const shutdownLimit = 5 * time.Second

// Config contains the program's version and the log settings.
type Config struct {
	// Version is the program's version in traces and metrics, unless OTEL_RESOURCE_ATTRIBUTES sets a version. Empty means no
	// version.
	Version string
	// LogLevel is the minimum level of logged lines. Zero means info.
	LogLevel slog.Level
	// LogFormat is "json" or "text". Empty means "json".
	LogFormat string
	// LogOutput receives the log, with one Write call for each line. Nil means standard error.
	LogOutput io.Writer
}

// Telemetry contains the program's logger, metrics and tracer. Spans and measurements go to OpenTelemetry's global
// providers, which Start sets.
type Telemetry struct {
	// Logger adds the trace ID and the span ID in the context to each line.
	Logger *slog.Logger
	// Metrics serves all metrics in the Prometheus format. Nameless serves the same metrics without the series whose labels
	// contain the name of an owner or a caller.
	Metrics, Nameless http.Handler
	// Failures logs failed requests to the catalog. Tracer reports failed polls to Failures.
	Failures *Failures
	// Tracer records traces and metrics of the hub and the orders.
	Tracer *Tracer
}

// Start sets up logs, traces and metrics. The returned function exports the remaining spans and metrics. It returns after at
// most 5 seconds, or earlier if its context is done.
func Start(ctx context.Context, config Config) (*Telemetry, func(context.Context) error, error) {
	logger, err := newLogger(config)
	if err != nil {
		return nil, nil, err
	}
	otel.SetErrorHandler(newLimitedLog(logger))
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))
	t := &Telemetry{Logger: logger, Failures: &Failures{newLimitedLog(logger)}}
	end, err := t.startExport(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	if t.Tracer, err = NewTracer(); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("metrics: %w", err), end(ctx))
	}
	t.Tracer.failures = t.Failures
	return t, end, nil
}

// startExport enables traces and metrics, unless the environment disables them. The returned function exports the remaining
// data and stops the export. If traces and metrics are disabled, a caller's trace IDs are still forwarded to the catalog
// unchanged, and Metrics serves only the metrics of the process.
func (t *Telemetry) startExport(ctx context.Context, config Config) (end func(context.Context) error, err error) {
	registry := newRegistry()
	t.Metrics, t.Nameless = newScrapeHandler(registry), newScrapeHandler(withoutNames(registry))
	if isDisabled() {
		otel.SetTracerProvider(notrace.NewTracerProvider())
		otel.SetMeterProvider(nometric.NewMeterProvider())
		return func(context.Context) error { return nil }, nil
	}
	for _, s := range []signal{traceSignal, metricSignal} {
		if err := s.endpointFault(); err != nil {
			return nil, err
		}
	}
	about, err := newResource(ctx, config)
	if err != nil {
		t.Logger.Warn("OpenTelemetry resource settings partly unreadable", "error", err)
	}
	traces, err := newTracerProvider(ctx, about)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	metrics, err := newMeterProvider(ctx, about, config.Version, registry)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("metrics: %w", err), traces.Shutdown(ctx))
	}
	otel.SetTracerProvider(traces)
	otel.SetMeterProvider(metrics)
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, shutdownLimit)
		defer cancel()
		var both errgroup.Group
		both.Go(func() error { return traces.Shutdown(ctx) })
		both.Go(func() error { return metrics.Shutdown(ctx) })
		return both.Wait()
	}, nil
}

// Limits on scrapes: scrapesAtOnce is the maximum number of concurrent scrapes, and scrapeTime is the maximum time for sending
// a response.
const (
	scrapesAtOnce = 4
	scrapeTime    = 30 * time.Second
)

// newScrapeHandler returns a handler that serves metrics. It responds with status 503 if scrapesAtOnce scrapes are already in
// progress.
func newScrapeHandler(gatherer prometheus.Gatherer) http.Handler {
	serve := promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{MaxRequestsInFlight: scrapesAtOnce})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connection := http.NewResponseController(w)
		_ = connection.SetWriteDeadline(time.Now().Add(scrapeTime)) // an error means only that the connection does not support deadlines, as in tests
		serve.ServeHTTP(w, r)
		_ = connection.SetWriteDeadline(time.Time{}) // removes the deadline, because it must not apply to the next response on this connection
	})
}

// newResource returns the OpenTelemetry resource of this program. The environment can override its attributes.
func newResource(ctx context.Context, config Config) (*resource.Resource, error) {
	return resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(
			semconv.ServiceName("easel"),
			semconv.ServiceVersion(config.Version),
		),
		resource.WithFromEnv(),
	)
}
