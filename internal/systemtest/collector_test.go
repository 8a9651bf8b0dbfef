package systemtest

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// collector receives OTLP over gRPC, as the OpenTelemetry Collector does. It stores spans and the names of
// metrics.
type collector struct {
	collectortrace.UnimplementedTraceServiceServer
	collectormetrics.UnimplementedMetricsServiceServer
	addr string
	lags time.Duration // delay after which an export is accepted

	mu      sync.Mutex
	spans   []*otlp.Span
	metrics map[string]bool // names of the received metrics
}

// startCollector starts a collector, which runs until the end of the test. Before it accepts an export, the collector
// waits for the given duration.
func startCollector(t *testing.T, lags time.Duration) *collector {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &collector{addr: l.Addr().String(), lags: lags, metrics: map[string]bool{}}
	server := grpc.NewServer()
	collectortrace.RegisterTraceServiceServer(server, c)
	collectormetrics.RegisterMetricsServiceServer(server, metricsOf{c})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		<-ended
	})
	return c
}

// Export stores the exported spans.
func (c *collector) Export(_ context.Context, req *collectortrace.ExportTraceServiceRequest) (*collectortrace.ExportTraceServiceResponse, error) {
	time.Sleep(c.lags)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range req.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
	return &collectortrace.ExportTraceServiceResponse{}, nil
}

// exportedSpans returns the received spans.
func (c *collector) exportedSpans() []*otlp.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// metricsOf is the metrics service of a collector.
type metricsOf struct{ *collector }

// Export stores the names of the exported metrics.
func (c metricsOf) Export(_ context.Context, req *collectormetrics.ExportMetricsServiceRequest) (*collectormetrics.ExportMetricsServiceResponse, error) {
	time.Sleep(c.lags)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range req.GetResourceMetrics() {
		for _, scope := range resource.GetScopeMetrics() {
			for _, m := range scope.GetMetrics() {
				c.metrics[m.GetName()] = true
			}
		}
	}
	return &collectormetrics.ExportMetricsServiceResponse{}, nil
}
