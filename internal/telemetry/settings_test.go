package telemetry

import (
	"compress/gzip"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
)

// received is a request that a collector has received.
type received struct {
	path, key, encoding string
	spans               *collectorpb.ExportTraceServiceRequest
}

// collector receives spans over gRPC and over HTTP.
type collector struct {
	collectorpb.UnimplementedTraceServiceServer
	mu  sync.Mutex
	got []received
}

func (c *collector) take(one received) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, one)
}

// Export implements collectorpb.TraceServiceServer.
func (c *collector) Export(ctx context.Context, spans *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	c.take(received{key: strings.Join(md.Get("key"), ","), spans: spans})
	return &collectorpb.ExportTraceServiceResponse{}, nil
}

// ServeHTTP implements http.Handler.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	one := received{path: r.URL.Path, key: r.Header.Get("key"), encoding: r.Header.Get("Content-Encoding"), spans: &collectorpb.ExportTraceServiceRequest{}}
	body := io.Reader(r.Body)
	if one.encoding == "gzip" {
		body, _ = gzip.NewReader(r.Body)
	}
	bytes, err := io.ReadAll(body)
	if err != nil || proto.Unmarshal(bytes, one.spans) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.take(one)
}

func TestOTLPEndpointErrorNamesEnvironmentVariable(t *testing.T) {
	for _, test := range []struct {
		settings []string
		refused  string // environment variable and hint that the error must contain; empty if the settings are valid
	}{
		{[]string{"ENDPOINT=localhost:4318"}, "OTEL_EXPORTER_OTLP_ENDPOINT http://localhost:4318"},
		{[]string{"ENDPOINT=collector", "PROTOCOL=http/protobuf"}, "OTEL_EXPORTER_OTLP_ENDPOINT http://localhost:4318"},
		{[]string{"ENDPOINT=127.0.0.1:4318"}, "OTEL_EXPORTER_OTLP_ENDPOINT http://localhost:4318"},
		{[]string{"ENDPOINT=http://"}, "OTEL_EXPORTER_OTLP_ENDPOINT http://localhost:4318"},
		{[]string{"ENDPOINT=127.0.0.1:4317", "PROTOCOL=grpc"}, "OTEL_EXPORTER_OTLP_ENDPOINT http://localhost:4317"},
		{[]string{"ENDPOINT=http://collector:4318", "TRACES_ENDPOINT=me:hunter2@collector"}, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT http://localhost:4318"},
		{[]string{"METRICS_ENDPOINT=collector:4318"}, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT http://localhost:4318"},
		{[]string{"ENDPOINT= HTTP://127.0.0.1:1 "}, ""},
		{[]string{"ENDPOINT=localhost:1", "PROTOCOL=grpc"}, ""},
		{[]string{"LOGS_ENDPOINT=collector:4318"}, ""},
		{[]string{"ENDPOINT=localhost:4318", "TRACES_ENDPOINT=https://127.0.0.1:1", "METRICS_ENDPOINT=https://127.0.0.1:1"}, ""},
	} {
		t.Run(strings.Join(test.settings, " "), func(t *testing.T) {
			for _, setting := range test.settings {
				name, value, _ := strings.Cut(setting, "=")
				t.Setenv(otlpSettings+name, value)
			}
			var fault error
			for _, s := range []signal{traceSignal, metricSignal} {
				fault = errors.Join(fault, s.endpointFault())
			}
			if test.refused == "" {
				if fault != nil {
					t.Error("the settings are rejected:", fault)
				}
				return
			}
			variable, cure, _ := strings.Cut(test.refused, " ")
			_, _, err := Start(t.Context(), Config{LogOutput: io.Discard})
			if err == nil || !strings.HasPrefix(err.Error(), variable+" ") || !strings.HasSuffix(err.Error(), " "+cure) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error is %v, want the variable, a remedy and no secret", err)
			}
		})
	}
}

func TestOpenTelemetryExporterSettingsTakeEffect(t *testing.T) {
	c := &collector{}
	plain, secure := httptest.NewServer(c), httptest.NewTLSServer(c)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	certificate := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	collectorpb.RegisterTraceServiceServer(server, c)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	for name, test := range map[string]struct {
		settings []string
		want     received
	}{
		"an endpoint":            {[]string{"ENDPOINT=" + plain.URL}, received{path: "/v1/traces"}},
		"an endpoint for traces": {[]string{"ENDPOINT=http://127.0.0.1:1", "TRACES_ENDPOINT=" + plain.URL + "/other", "HEADERS=key=all", "TRACES_HEADERS=key=traces"}, received{path: "/other", key: "traces"}},
		"compression":            {[]string{"ENDPOINT=" + plain.URL + "/below", "COMPRESSION=gzip", "PROTOCOL=http/protobuf"}, received{path: "/below/v1/traces", encoding: "gzip"}},
		"a certificate":          {[]string{"ENDPOINT=" + secure.URL, "CERTIFICATE=" + certificate, "HEADERS=key=secret"}, received{path: "/v1/traces", key: "secret"}},
		"gRPC":                   {[]string{"ENDPOINT=http://" + l.Addr().String(), "PROTOCOL=grpc", "HEADERS=key=secret"}, received{key: "secret"}},
		"gRPC without a scheme":  {[]string{"ENDPOINT=localhost:" + strings.TrimPrefix(l.Addr().String(), "127.0.0.1:"), "PROTOCOL=grpc", "INSECURE=true"}, received{}},
		"gRPC for traces":        {[]string{"TRACES_ENDPOINT=http://" + l.Addr().String(), "TRACES_PROTOCOL=grpc", "PROTOCOL=http/protobuf", "COMPRESSION=gzip"}, received{}},
		"HTTP for traces only":   {[]string{"TRACES_ENDPOINT=" + plain.URL, "PROTOCOL=grpc", "TRACES_PROTOCOL=http/protobuf"}, received{path: "/"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_METRICS_EXPORTER", "none")
			for _, setting := range test.settings {
				name, value, _ := strings.Cut(setting, "=")
				t.Setenv(otlpSettings+name, value)
			}
			c.got = nil
			exportSpan(t, attribute.String("a", "b"))
			if len(c.got) != 1 || c.got[0].path != test.want.path || c.got[0].key != test.want.key || c.got[0].encoding != test.want.encoding {
				t.Fatalf("the collector received %+v, want %+v", c.got, test.want)
			}
			if span := c.got[0].spans.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans()[0]; span.GetName() != "call" || span.GetAttributes()[0].GetKey() != "a" {
				t.Errorf("the span is %v, want the name call and the attribute a", span)
			}
		})
	}
}

// exportSpan starts telemetry, records one span with the given attributes, and stops telemetry.
func exportSpan(t *testing.T, attributes ...attribute.KeyValue) {
	t.Helper()
	_, shutdown := startTelemetry(t, Config{LogOutput: io.Discard})
	_, span := otel.Tracer("calls").Start(t.Context(), "call", trace.WithAttributes(attributes...))
	span.SetStatus(codes.Error, "caf\xe9")
	span.End()
	if err := shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestInvalidUTF8InASpanIsReplaced(t *testing.T) {
	c := &collector{}
	plain := httptest.NewServer(c)
	t.Cleanup(plain.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", plain.URL)
	exportSpan(t, attribute.String("user_agent.original", "\xff browser"), attribute.String("url.path", "/v1"))
	if len(c.got) != 1 {
		t.Fatalf("the collector received %+v, want one request", c.got)
	}
	span := c.got[0].spans.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans()[0]
	got := []string{span.GetStatus().GetMessage()}
	for _, a := range span.GetAttributes() {
		got = append(got, a.GetValue().GetStringValue())
	}
	if want := []string{"caf\uFFFD", "\uFFFD browser", "/v1"}; !slices.Equal(got, want) {
		t.Errorf("the exported strings are %q, want %q", got, want)
	}
}
