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

	gocmp "github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
)

// received is what a collector gets.
type received struct {
	path, key, encoding string
	spans               *collectorpb.ExportTraceServiceRequest
}

// collector takes spans over both protocols.
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

func port(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func TestAnEndpointThatTheStockClientWouldNotCallIsRefusedByItsName(t *testing.T) {
	for _, test := range []struct {
		settings []string
		refused  string // the variable and the cure, "" where it is taken
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
					t.Error("refused:", fault)
				}
				return
			}
			variable, cure, _ := strings.Cut(test.refused, " ")
			_, _, err := Start(t.Context(), Config{LogOutput: io.Discard})
			if err == nil || !strings.HasPrefix(err.Error(), variable+" ") || !strings.HasSuffix(err.Error(), " "+cure) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("it says %v", err)
			}
		})
	}
}

func TestSettingsOfTheStockExporterHold(t *testing.T) {
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
	for name, settings := range map[string][]string{
		"an endpoint":          {"ENDPOINT=" + plain.URL},
		"one of traces":        {"ENDPOINT=http://127.0.0.1:1", "TRACES_ENDPOINT=" + plain.URL + "/other", "HEADERS=key=all", "TRACES_HEADERS=key=traces"},
		"compression":          {"ENDPOINT=" + plain.URL + "/below", "COMPRESSION=gzip", "PROTOCOL=http/protobuf"},
		"a certificate":        {"ENDPOINT=" + secure.URL, "CERTIFICATE=" + certificate, "HEADERS=key=secret"},
		"gRPC":                 {"ENDPOINT=http://" + l.Addr().String(), "PROTOCOL=grpc", "HEADERS=key=secret"},
		"gRPC, with no scheme": {"ENDPOINT=localhost:" + port(l), "PROTOCOL=grpc", "INSECURE=true"},
		"gRPC for traces":      {"TRACES_ENDPOINT=http://" + l.Addr().String(), "TRACES_PROTOCOL=grpc", "PROTOCOL=http/protobuf", "COMPRESSION=gzip"},
		"HTTP for traces only": {"TRACES_ENDPOINT=" + plain.URL, "PROTOCOL=grpc", "TRACES_PROTOCOL=http/protobuf"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, setting := range settings {
				name, value, _ := strings.Cut(setting, "=")
				t.Setenv("OTEL_EXPORTER_OTLP_"+name, value)
			}
			stock, err := autoexport.NewSpanExporter(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			own, err := newSpanExporter(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := own.(*otlp); !ok {
				t.Errorf("the exporter is %T", own)
			}
			c.got = nil
			spans := tracetest.SpanStubs{{Name: "call", Resource: shop, Attributes: []attribute.KeyValue{attribute.String("a", "b")}}}.Snapshots()
			for _, exporter := range []trace.SpanExporter{stock, own} {
				if err := exporter.ExportSpans(t.Context(), spans); err != nil {
					t.Fatal(err)
				}
				if err := exporter.Shutdown(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := own.ExportSpans(t.Context(), nil); err != nil {
				t.Error("no spans:", err)
			}
			want := slices.Repeat(c.got[:1], 2)
			if diff := gocmp.Diff(want, c.got, gocmp.AllowUnexported(received{}), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
