package telemetry

import (
	"context"
	"fmt"
	"net/url"
	"os"
	goruntime "runtime"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/contrib/instrumentation/runtime"
	promexporter "go.opentelemetry.io/otel/exporters/prometheus"
	otelmetric "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
)

// signal is a kind of data to export: "TRACES" or "METRICS".
type signal string

const (
	traceSignal  signal = "TRACES"
	metricSignal signal = "METRICS"
)

// otlpSettings is the prefix of the environment variables of the OTLP exporter.
const otlpSettings = "OTEL_EXPORTER_OTLP_"

// isExported reports whether the environment enables the export of a signal. If the environment selects an exporter for the
// signal, the export is enabled, unless the exporter is "none" or, for metrics, "prometheus". If it selects no exporter, the
// export is enabled if an endpoint is set. isExported returns false if OTEL_SDK_DISABLED is true.
func (s signal) isExported() bool {
	exporter := os.Getenv("OTEL_" + string(s) + "_EXPORTER")
	_, endpoint := s.setting("ENDPOINT")
	switch {
	case isDisabled() || exporter == "none":
		return false
	case exporter == "":
		return endpoint != ""
	}
	return s != metricSignal || exporter != "prometheus" // the exporter "prometheus" exports nothing, because Prometheus metrics are always served
}

// Exported returns the signals that the environment variables enable for export: "traces", "metrics" or both.
func Exported() (names []string) {
	for _, s := range []signal{traceSignal, metricSignal} {
		if s.isExported() {
			names = append(names, strings.ToLower(string(s)))
		}
	}
	return names
}

// isDisabled reports whether the environment disables traces and metrics.
func isDisabled() bool { return strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") }

// setting returns the name and the value of the environment variable for a setting of the OTLP exporter. suffix, such as
// "ENDPOINT", is the end of the variable's name. A variable that applies only to this signal takes precedence over one that
// applies to all signals.
func (s signal) setting(suffix string) (name, value string) {
	name = otlpSettings + string(s) + "_" + suffix
	if value = strings.TrimSpace(os.Getenv(name)); value == "" {
		name = otlpSettings + suffix
		value = strings.TrimSpace(os.Getenv(name))
	}
	return name, value
}

// endpointFault returns an error if OpenTelemetry's exporter would silently replace the endpoint in the environment with
// another address. If the protocol is gRPC, any URL is accepted, even without a scheme or host; without a scheme, the
// exporter uses TLS. The error does not contain the endpoint, which may include a password.
func (s signal) endpointFault() error {
	if exporter := os.Getenv("OTEL_" + string(s) + "_EXPORTER"); !s.isExported() || exporter != "" && exporter != "otlp" {
		return nil
	}
	_, protocol := s.setting("PROTOCOL")
	name, endpoint := s.setting("ENDPOINT")
	u, err := url.Parse(endpoint)
	if endpoint == "" || err == nil && (protocol == "grpc" || u.Host != "" && (strings.EqualFold(u.Scheme, "http") || strings.EqualFold(u.Scheme, "https"))) {
		return nil
	}
	port := "4318"
	if protocol == "grpc" {
		port = "4317"
	}
	return fmt.Errorf("%s must be a URL with a scheme, such as http://localhost:%s", name, port)
}

// newTracerProvider returns the provider that creates spans. It samples them as OTEL_TRACES_SAMPLER specifies. Without an
// exporter, it still creates trace IDs for logs and for the catalog. In that case, a span is sampled only if the caller's
// span is sampled.
func newTracerProvider(ctx context.Context, about *resource.Resource) (*trace.TracerProvider, error) {
	if !traceSignal.isExported() {
		return trace.NewTracerProvider(
			trace.WithResource(about),
			trace.WithSampler(trace.ParentBased(trace.NeverSample())),
		), nil
	}
	exporter, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return nil, err
	}
	return trace.NewTracerProvider(
		trace.WithResource(about),
		trace.WithBatcher(cleanExporter{exporter}),
	), nil
}

// maxSeries is the maximum number of series of a metric. It prevents callers from creating series without limit. Once it is
// reached, all new series are merged into one series with the label otel_metric_overflow.
const maxSeries = 2000

// newMeterProvider returns a provider whose metrics Prometheus can scrape from registry. If the environment enables the export
// of metrics, the provider also sends them to the exporter that the environment selects.
func newMeterProvider(ctx context.Context, about *resource.Resource, build string, registry prometheus.Registerer) (*metric.MeterProvider, error) {
	reader, err := promexporter.New(promexporter.WithRegisterer(registry), promexporter.WithoutScopeInfo())
	if err != nil {
		return nil, err
	}
	options := []metric.Option{metric.WithResource(about), metric.WithReader(reader), metric.WithView(tableView()), metric.WithCardinalityLimit(maxSeries), metric.WithExemplarFilter(exemplar.AlwaysOffFilter)}
	if metricSignal.isExported() {
		exporter, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return nil, err
		}
		options = append(options, metric.WithReader(exporter))
	}
	provider := metric.NewMeterProvider(options...)
	if err := runtime.Start(runtime.WithMeterProvider(provider)); err != nil {
		return nil, err
	}
	if err := measureBuild(ctx, provider.Meter(scope), build); err != nil {
		return nil, err
	}
	return provider, nil
}

// newRegistry creates a registry without the metrics that libraries register globally. The registry measures file descriptors
// and resident memory, which are missing from the metrics of the Go runtime.
func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// withoutNames returns a gatherer for the metrics in registry, without the series that have an owner or a caller as label.
func withoutNames(registry prometheus.Gatherer) prometheus.GathererFunc {
	names := func(one *dto.Metric) bool {
		return slices.ContainsFunc(one.Label, func(l *dto.LabelPair) bool {
			return l.GetName() == owner.Prometheus() || l.GetName() == caller.Prometheus()
		})
	}
	return func() ([]*dto.MetricFamily, error) {
		families, err := registry.Gather()
		for _, family := range families {
			family.Metric = slices.DeleteFunc(family.Metric, names)
		}
		return slices.DeleteFunc(families, func(family *dto.MetricFamily) bool { return len(family.Metric) == 0 }), err
	}
}

// measureBuild records the metric whose labels are the versions of this build and of Go.
func measureBuild(ctx context.Context, meter otelmetric.Meter, build string) error {
	info, err := meter.Int64Gauge("easel.build.info")
	if err == nil {
		info.Record(ctx, 1, otelmetric.WithAttributes(version.is(build), goVersion.is(goruntime.Version())))
	}
	return err
}
