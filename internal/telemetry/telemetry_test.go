package telemetry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

// startTelemetry starts telemetry. After the test, it restores the global providers.
func startTelemetry(t *testing.T, config Config) (*Telemetry, func(context.Context) error) {
	t.Helper()
	traces, metrics := otel.GetTracerProvider(), otel.GetMeterProvider()
	telemetry, shutdown, err := Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = shutdown(context.Background())
		otel.SetTracerProvider(traces)
		otel.SetMeterProvider(metrics)
	})
	return telemetry, shutdown
}

func TestTelemetryIsExportedOnlyIfTheEnvironmentEnablesIt(t *testing.T) {
	for _, test := range []struct {
		name            string
		env             map[string]string
		traces, metrics bool
	}{
		{name: "no settings"},
		{name: "an endpoint for traces and metrics", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, traces: true, metrics: true},
		{name: "an endpoint for traces", env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318"}, traces: true},
		{name: "an endpoint for metrics", env: map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://collector:4318"}, metrics: true},
		{name: "a setting other than an endpoint", env: map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}},
		{name: "an endpoint for logs", env: map[string]string{"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://collector:4318"}},
		{name: "an exporter by name", env: map[string]string{"OTEL_TRACES_EXPORTER": "console"}, traces: true},
		{name: "traces disabled despite an endpoint", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_TRACES_EXPORTER": "none"}, metrics: true},
		{name: "the Prometheus exporter, which is always enabled", env: map[string]string{"OTEL_METRICS_EXPORTER": "prometheus"}},
		{name: "an empty setting", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": ""}},
		{name: "SDK disabled", env: map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, value := range test.env {
				t.Setenv(name, value)
			}
			if got := traceSignal.isExported(); got != test.traces {
				t.Errorf("traces exported: %v, want %v", got, test.traces)
			}
			if got := metricSignal.isExported(); got != test.metrics {
				t.Errorf("metrics exported: %v, want %v", got, test.metrics)
			}
		})
	}
}

func TestUnresponsiveCollectorDoesNotBlockShutdown(t *testing.T) {
	hang := make(chan struct{})
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer collector.Close()
	defer close(hang)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	_, shutdown := startTelemetry(t, Config{LogOutput: io.Discard})
	_, span := otel.Tracer("test").Start(t.Context(), "work")
	span.End()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := shutdown(ctx)
	if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > shutdownLimit {
		t.Errorf("shutdown took %v and returned %v", took, err)
	}
}

func TestMetricsAreServedWithoutAnExporter(t *testing.T) {
	telemetry, _ := startTelemetry(t, Config{Version: "1.2", LogOutput: io.Discard})
	counter, err := otel.Meter("test").Int64Counter("easel.pushes")
	if err != nil {
		t.Fatal(err)
	}
	counter.Add(t.Context(), 3)
	answer := httptest.NewRecorder()
	telemetry.Metrics.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{"easel_pushes_total 3", "easel_build_info{", "go_goroutine_count", "process_open_fds", `service_name="easel"`, `service_version="1.2"`} {
		if !strings.Contains(answer.Body.String(), want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
}

func TestServiceNameIsReadFromEnvironment(t *testing.T) {
	t.Setenv("OTEL_SERVICE_NAME", "other")
	about, err := newResource(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(about.String(), "service.name=other") {
		t.Errorf("the resource lacks service.name=other: %s", about)
	}
}

func TestLogLineContainsItsTraceAndSpanIDs(t *testing.T) {
	for _, format := range []string{"", "json", "text"} {
		var lines bytes.Buffer
		telemetry, _ := startTelemetry(t, Config{LogOutput: &lines, LogFormat: format})
		ctx, span := otel.Tracer("test").Start(t.Context(), "work")
		telemetry.Logger.With("key", "value").InfoContext(ctx, "done")
		for _, want := range []string{span.SpanContext().TraceID().String(), span.SpanContext().SpanID().String(), "value"} {
			if !strings.Contains(lines.String(), want) {
				t.Errorf("format %q: %s has no %s", format, &lines, want)
			}
		}
		span.End()
	}
}

func TestLogLineWithoutATraceHasNoTraceID(t *testing.T) {
	var lines bytes.Buffer
	telemetry, _ := startTelemetry(t, Config{LogOutput: &lines, LogLevel: slog.LevelWarn})
	telemetry.Logger.Info("too quiet")
	telemetry.Logger.WithGroup("group").Warn("loud", "a", 1)
	if got := lines.String(); strings.Contains(got, "quiet") || strings.Contains(got, "trace_id") || !strings.Contains(got, `"group":{"a":1}`) {
		t.Errorf("logged %s", got)
	}
}

func TestUnknownLogFormatIsRejected(t *testing.T) {
	if _, _, err := Start(t.Context(), Config{LogFormat: "xml"}); err == nil || !strings.Contains(err.Error(), "xml") {
		t.Errorf("Start returned %v", err)
	}
}

func TestUnknownExporterIsRejected(t *testing.T) {
	t.Setenv("OTEL_TRACES_EXPORTER", "pigeon")
	if _, _, err := Start(t.Context(), Config{LogOutput: io.Discard}); err == nil || !strings.Contains(err.Error(), "traces") {
		t.Errorf("Start returned %v", err)
	}
}

func TestCallersSamplingDecisionIsPassedOnWithoutAnExporter(t *testing.T) {
	startTelemetry(t, Config{LogOutput: io.Discard})
	_, span := otel.Tracer("test").Start(t.Context(), "root")
	if span.SpanContext().IsSampled() || !span.SpanContext().TraceID().IsValid() {
		t.Errorf("a root span without an exporter is %+v, want an unsampled one with a trace ID", span.SpanContext())
	}
	caller := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, Remote: true,
	})
	_, span = otel.Tracer("test").Start(trace.ContextWithSpanContext(t.Context(), caller), "child")
	if !span.SpanContext().IsSampled() || span.SpanContext().TraceID() != caller.TraceID() {
		t.Errorf("the child of a sampled span is %+v", span.SpanContext())
	}
}

func TestDisabledSDKLogsFailuresButRecordsNoSpans(t *testing.T) {
	t.Setenv("OTEL_SDK_DISABLED", "true")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector.invalid")
	out := &bytes.Buffer{}
	telemetry, _ := startTelemetry(t, Config{LogOutput: out})
	down := &catalog.Error{Kind: catalog.KindUnavailable, Op: "GET /me"}
	telemetry.Failures.Called(t.Context(), catalog.Forwarded(catalog.NewSecret("one")), down)
	telemetry.Tracer.failures.Polled(t.Context(), watch.Poll{Tenant: "other"}, watch.Outcome{Err: down})
	if lines := failureLines(t, out); len(lines) != 2 {
		t.Errorf("logged %+v", lines)
	}
	telemetry.Tracer.Ordered(t.Context(), "", "m", catalog.Generation{}, nil)
	_, span := otel.Tracer("test").Start(callerContext(t, trace.FlagsSampled), "work")
	if span.IsRecording() || span.SpanContext().TraceID() != (trace.TraceID{1}) {
		t.Errorf("the span records, or lacks the caller's trace ID: %v", span)
	}
	answer := httptest.NewRecorder()
	telemetry.Metrics.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if text := answer.Body.String(); strings.Contains(text, "easel_") || !strings.Contains(text, "process_open_fds") {
		t.Errorf("/metrics returned %s", text)
	}
}
