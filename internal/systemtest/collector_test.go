package systemtest

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// collector receives OTLP over gRPC, like the OpenTelemetry Collector, and stores the spans.
type collector struct {
	collectortrace.UnimplementedTraceServiceServer
	collectormetrics.UnimplementedMetricsServiceServer
	addr string
	lags time.Duration // delay before it accepts an export

	mu      sync.Mutex
	spans   []*otlp.Span
	metrics map[string]bool // names of received metrics
}

// startCollector starts a collector until the end of the test.
func startCollector(t *testing.T) *collector {
	t.Helper()
	return startSlowCollector(t, 0)
}

// startSlowCollector starts a collector with a delay.
func startSlowCollector(t *testing.T, lags time.Duration) *collector {
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

// Export stores spans.
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

// metricsOf is the collector's metrics service.
type metricsOf struct{ *collector }

// Export stores the names of metrics.
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

// trace contains the received spans of a collector, as a tree.
type trace struct {
	*testing.T
	spans map[string]*otlp.Span // spans by span ID
}

func (c *collector) trace(t *testing.T) trace {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := trace{t, map[string]*otlp.Span{}}
	for _, s := range c.spans {
		all.spans[string(s.GetSpanId())] = s
	}
	return all
}

// below returns the spans with a name below a parent, in order of their start. The parent may be a span of the caller,
// which the collector does not have.
func (a trace) below(parent []byte, name string) (found []*otlp.Span) {
	for _, s := range a.spans {
		if string(s.GetParentSpanId()) == string(parent) && s.GetName() == name {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(x, y *otlp.Span) int {
		return int(int64(x.GetStartTimeUnixNano()) - int64(y.GetStartTimeUnixNano()))
	})
	return found
}

// only returns the only span with a name below a parent.
func (a trace) only(parent []byte, name string) *otlp.Span {
	a.Helper()
	found := a.below(parent, name)
	if len(found) != 1 {
		a.Fatalf("%d spans %q below %x, want one\n%s", len(found), name, parent, a)
	}
	return found[0]
}

// linked returns the spans to which a span is linked with a label.
func (a trace) linked(s *otlp.Span, as string) (found []*otlp.Span) {
	a.Helper()
	for _, l := range s.GetLinks() {
		if len(l.GetAttributes()) != 1 || l.GetAttributes()[0].GetKey() != "easel.link" {
			a.Errorf("a link of %s does not say what it is: %v", s.GetName(), l)
			continue
		}
		if l.GetAttributes()[0].GetValue().GetStringValue() != as {
			continue
		}
		to := a.spans[string(l.GetSpanId())]
		if to == nil || string(to.GetTraceId()) != string(l.GetTraceId()) {
			a.Errorf("a link of %s leads nowhere: %x", s.GetName(), l.GetSpanId())
			continue
		}
		found = append(found, to)
	}
	return found
}

// attributes checks that a span has the given pairs of attributes. The value "*" matches any value.
func (a trace) attributes(s *otlp.Span, pairs ...any) {
	a.Helper()
	has := map[string]any{}
	for _, kv := range s.GetAttributes() {
		switch v := kv.GetValue().GetValue(); {
		case kv.GetValue().GetStringValue() != "":
			has[kv.GetKey()] = kv.GetValue().GetStringValue()
		case v != nil:
			has[kv.GetKey()] = kv.GetValue().GetIntValue()
		}
	}
	for i := 0; i < len(pairs); i += 2 {
		got, ok := has[pairs[i].(string)]
		if want := pairs[i+1]; !ok || want != "*" && got != want {
			a.Errorf("%s has %v=%v, want %v", s.GetName(), pairs[i], got, want)
		}
	}
}

// lasted returns the duration of a span.
func lasted(s *otlp.Span) time.Duration {
	return time.Duration(s.GetEndTimeUnixNano() - s.GetStartTimeUnixNano())
}

// String returns the trees.
func (a trace) String() string {
	var out strings.Builder
	var draw func(s *otlp.Span, depth int)
	draw = func(s *otlp.Span, depth int) {
		fmt.Fprintf(&out, "%s%s %s %v %d links\n", strings.Repeat("  ", depth), s.GetName(), hex.EncodeToString(s.GetSpanId()), lasted(s), len(s.GetLinks()))
		for _, child := range a.spans {
			if string(child.GetParentSpanId()) == string(s.GetSpanId()) {
				draw(child, depth+1)
			}
		}
	}
	for _, s := range a.spans {
		if a.spans[string(s.GetParentSpanId())] == nil {
			draw(s, 0)
		}
	}
	return out.String()
}
