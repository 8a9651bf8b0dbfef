package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	promodel "github.com/prometheus/common/model"
	"go.opentelemetry.io/otel"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/sandbox"
	"github.com/easel-grpc/easel/internal/telemetry"
	"github.com/easel-grpc/easel/internal/watch"
)

// measured starts telemetry as the program does, and stops it when the test ends. It returns a function that scrapes
// the metrics.
func measured(t *testing.T) (scrape func() map[string]*dto.MetricFamily) {
	t.Helper()
	before, traces, propagator := otel.GetMeterProvider(), otel.GetTracerProvider(), otel.GetTextMapPropagator()
	observed, shutdown, err := telemetry.Start(t.Context(), telemetry.Config{Version: "test", LogOutput: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = shutdown(context.Background())
		otel.SetMeterProvider(before)
		otel.SetTracerProvider(traces)
		otel.SetTextMapPropagator(propagator)
	})
	return func() map[string]*dto.MetricFamily {
		t.Helper()
		answer := httptest.NewRecorder()
		observed.Metrics.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		parser := expfmt.NewTextParser(promodel.UTF8Validation)
		families, err := parser.TextToMetricFamilies(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return families
	}
}

// value returns a series' value. For a histogram, it returns the number of observations.
func value(m *dto.Metric) float64 {
	switch {
	case m.GetHistogram() != nil:
		return float64(m.GetHistogram().GetSampleCount())
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	}
	return m.GetGauge().GetValue()
}

// total returns the sum of the values of a metric's series that have the given labels. labels contains alternating
// names and values.
func total(families map[string]*dto.MetricFamily, name string, labels ...string) (sum float64) {
	for _, m := range families[name].GetMetric() {
		matching := 0
		for _, l := range m.GetLabel() {
			for i := 0; i < len(labels); i += 2 {
				if l.GetName() == labels[i] && l.GetValue() == labels[i+1] {
					matching++
				}
			}
		}
		if matching == len(labels)/2 {
			sum += value(m)
		}
	}
	return sum
}

// holdTable checks that each exposed metric is in telemetry.Table, with the same kind and labels.
func holdTable(t *testing.T, families map[string]*dto.MetricFamily) {
	t.Helper()
	rows := map[string]telemetry.Metric{}
	for _, row := range telemetry.Table {
		rows[row.Prometheus()] = row
	}
	kinds := map[telemetry.Kind]dto.MetricType{
		telemetry.Counter: dto.MetricType_COUNTER, telemetry.UpDown: dto.MetricType_GAUGE,
		telemetry.Gauge: dto.MetricType_GAUGE, telemetry.Histogram: dto.MetricType_HISTOGRAM,
	}
	for name, family := range families {
		row, ok := rows[name]
		if !ok {
			t.Errorf("%s is exposed but not in the table", name)
			continue
		}
		if family.GetType() != kinds[row.Kind] {
			t.Errorf("%s is a %v, not a %s", name, family.GetType(), row.Kind)
		}
		if !row.Scraped && family.GetHelp() != row.Text {
			t.Errorf("the help text of %s is %q", name, family.GetHelp())
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				holdLabel(t, row, label)
			}
		}
	}
}

func holdLabel(t *testing.T, row telemetry.Metric, got *dto.LabelPair) {
	t.Helper()
	at := slices.IndexFunc(row.Labels, func(l telemetry.Label) bool { return l.Prometheus() == got.GetName() })
	switch {
	case at < 0:
		t.Errorf("%s has the label %s, which is not in the table", row.Name, got.GetName())
	case row.Labels[at].Values != nil && !slices.Contains(row.Labels[at].Values, got.GetValue()):
		t.Errorf("%s has %s=%q, which is not in the table", row.Name, got.GetName(), got.GetValue())
	}
}

// seenRunning configures the sandbox to report the state running.
func seenRunning(o *options) { o.sandbox.Dialect.ShowRunning = true }

func TestExportedMetricsMatchMetricTable(t *testing.T) {
	limit := debug.SetMemoryLimit(1 << 40) // without a memory limit, the runtime exports no metric for it
	t.Cleanup(func() { debug.SetMemoryLimit(limit) })
	scrape := measured(t)
	s := newStack(t, seenRunning)
	c, rest := grpcCaller{s, s.key}, restCaller{s, s.key}
	var seen []map[string]*dto.MetricFamily

	// While a watch of all generations is open, the test places orders over gRPC and REST, watches their generations, and
	// downloads the results.
	ctx, leave := context.WithCancel(t.Context())
	everything, beat := make(chan error, 1), make(chan struct{})
	var once sync.Once
	go func() {
		everything <- c.watchMany(ctx, &easelv1.WatchGenerationsRequest{HeartbeatInterval: durationpb.New(time.Second)}, func(m *easelv1.WatchGenerationsResponse) bool {
			if m.GetHeartbeat() != nil {
				once.Do(func() { close(beat) })
			}
			return true
		})
	}()
	for i, one := range []caller{c, rest, c, rest, c} {
		g := create(t, one, order(t, picture, string(rune('a'+i)), "a lake"))
		collectUpdates(t, one, &easelv1.WatchGenerationRequest{GenerationId: g.GetGenerationId()})
		if err := one.download(t.Context(), &easelv1.DownloadGenerationRequest{GenerationId: g.GetGenerationId()}, io.Discard); err != nil {
			t.Fatal(err)
		}
		create(t, one, order(t, picture, string(rune('a'+i)), "a lake")) // repeats the order; the catalog does not charge it again
	}
	<-beat
	slow := create(t, c, order(t, picture, "slow", "a lake"))
	// The catalog rejects one GET /me with 429. The next GetAccount call therefore has to wait.
	s.sandbox.Inject(sandbox.Fault{Route: "GET /me", Status: 429, Header: map[string]string{"Retry-After": "1"}, Count: 1})
	_ = c.call(t.Context(), "AccountService/GetAccount", &easelv1.GetAccountRequest{}, &easelv1.GetAccountResponse{})
	late := make(chan error, 1)
	go func() { // this call waits for the limiter
		late <- c.call(t.Context(), "AccountService/GetAccount", &easelv1.GetAccountRequest{}, &easelv1.GetAccountResponse{})
	}()
	eventually(t, "a call waits for the limiter", func() bool {
		seen = append(seen, scrape())
		return total(seen[len(seen)-1], "easel_limiter_waiting") > 0
	})
	if err := <-late; err != nil {
		t.Errorf("the waiting call ended with %v", err)
	}
	awaitGeneration(t, c, slow.GetGenerationId(), easelv1.WatchUntil_WATCH_UNTIL_TERMINAL)
	muddleWatch(t, s)
	leave()
	if err := <-everything; err == nil {
		t.Error("the watch of all generations ended without an error")
	}
	eventually(t, "the streams have ended", func() bool { return total(scrape(), "easel_stream_open") == 0 })
	seen = append(seen, scrape())

	for _, families := range seen {
		holdTable(t, families)
	}
	for _, row := range telemetry.Table {
		if row.From == telemetry.Ledger || row.From == telemetry.Settings || row.From == telemetry.Contents || row.Name == "easel.events" {
			continue // other tests check the metrics of owners, settings, content stores and receivers
		}
		fed := slices.ContainsFunc(seen, func(families map[string]*dto.MetricFamily) bool { return total(families, row.Prometheus()) != 0 })
		if !fed {
			t.Errorf("no value for %s (%s)", row.Name, row.Prometheus())
		}
	}
	last := seen[len(seen)-1]
	if got, want := total(last, "easel_order_charged_total"), float64(s.audit().ChargeCents); got != want {
		t.Errorf("the metric shows %v cents, but the catalog charged %v", got, want)
	}
	if n := total(last, "http_client_request_duration_seconds", "http_response_status_code", "429"); n != 1 {
		t.Errorf("the metric shows %v requests with 429, want 1", n)
	}
	for _, reason := range []string{"done", "caller_left"} {
		if total(last, "easel_stream_closures_total", "easel_stream_reason", reason) == 0 {
			t.Errorf("no stream has ended with the reason %s", reason)
		}
	}
}

// muddleWatch watches a new generation. When the watch receives an update, muddleWatch reports three further states at
// once. The watch skips some of these states, and the last of them is outdated. If the generation ends before the first
// update, as can happen on a busy machine, muddleWatch tries again with a new order.
func muddleWatch(t *testing.T, s *stack) {
	t.Helper()
	attempt := 0
	eventually(t, "a watch begins before its generation is finished", func() bool {
		attempt++
		return tryMuddle(t, s, order(t, picture, fmt.Sprint("muddle", attempt), "a lake"))
	})
}

// tryMuddle reports whether a watch of a new generation received an update before the generation ended. It is one attempt
// of muddleWatch.
func tryMuddle(t *testing.T, s *stack, o *easelv1.CreateGenerationRequest) (unfinished bool) {
	t.Helper()
	cred := catalog.Forwarded(catalog.NewSecret(s.key))
	id := create(t, grpcCaller{s, s.key}, o).GetGenerationId()
	err := s.hub.Watch(t.Context(), &watch.Request{Credential: cred, IDs: []string{id}}, func(event watch.Event) error {
		if event.Update == nil || event.Update.State.Terminal() {
			return nil
		}
		unfinished = true
		for _, next := range []catalog.State{catalog.StateRunning, catalog.StateSucceeded, catalog.StateQueued} {
			s.hub.Observe(t.Context(), cred, catalog.Generation{ID: id, State: next, Status: next.String(), ObserveTime: time.Now()}.Version(), true)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return unfinished
}
