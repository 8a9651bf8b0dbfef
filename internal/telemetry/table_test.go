package telemetry

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/easel-grpc/easel/internal/catalog"
)

var update = flag.Bool("update", false, "write the table into the reference")

const (
	beginning = "<!-- The table is made by go test ./internal/telemetry -run Reference -update -->\n"
	ending    = "<!-- end of the table -->\n"
)

func TestReferenceContainsTheGeneratedMetricTable(t *testing.T) {
	path := filepath.Join("..", "..", "deploy", "telemetry.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, begins := strings.Cut(string(text), beginning)
	table, tail, ends := strings.Cut(rest, ending)
	switch {
	case !begins || !ends:
		t.Fatalf("%s has no markers for the table", path)
	case *update:
		if err := os.WriteFile(path, []byte(head+beginning+reference()+ending+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	case table != reference():
		t.Errorf("%s differs from the generated table; run go test ./internal/telemetry -run Reference -update", path)
	}
}

func TestEachMetricTableRowIsCompleteAndUnique(t *testing.T) {
	names := map[string]bool{}
	for _, row := range Table {
		if names[row.Prometheus()] || row.Prometheus() == "" {
			t.Errorf("%s has no unique name in Prometheus: %q", row.Name, row.Prometheus())
		}
		names[row.Prometheus()] = true
		if row.Text == "" || row.Kind == "" || row.Unit == "" && !row.Scraped {
			t.Errorf("%s has no text, no kind or no unit", row.Name)
		}
		if (row.Kind == Histogram) != (row.Buckets != nil) {
			t.Errorf("%s has the buckets %v", row.Name, row.Buckets)
		}
		for _, label := range row.Labels {
			if label.Values == nil && label.Of == "" && !row.Scraped {
				t.Errorf("%s does not list the values of %s", row.Name, label.Name)
			}
		}
	}
}

// Metric names follow the conventions of OpenTelemetry. They do not contain units. Easel's own metrics start with
// "easel.".
func TestNamesOfMetricsFollowTheConventions(t *testing.T) {
	units := regexp.MustCompile(`(^|[._])(cents?|bytes?|seconds?|ms|millis\w*|minutes?|total|ratio|percent)($|[._])`)
	ours := regexp.MustCompile(`^easel(\.[a-z][a-z_]*)+$`)
	conventional := regexp.MustCompile(`^(rpc|http|url|error|db|go|service|process)(\.[a-z][a-z_]*)+$`)
	for _, row := range Table {
		if row.Scraped {
			continue
		}
		for _, other := range Table {
			if strings.HasPrefix(other.Name, row.Name+".") {
				t.Errorf("the metric name %s is a prefix of %s", row.Name, other.Name)
			}
		}
		if units.MatchString(row.Name) || !ours.MatchString(row.Name) && !conventional.MatchString(row.Name) {
			t.Errorf("the metric name %s violates the conventions", row.Name)
		}
		for _, label := range row.Labels {
			if units.MatchString(label.Name) || !ours.MatchString(label.Name) && !conventional.MatchString(label.Name) {
				t.Errorf("%s has the attribute %s, which violates the conventions", row.Name, label.Name)
			}
		}
	}
}

func TestCallerAndModelNamesCreateABoundedNumberOfSeries(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithView(tableView()), sdkmetric.WithCardinalityLimit(maxSeries))
	before := otel.GetMeterProvider()
	otel.SetMeterProvider(provider)
	t.Cleanup(func() { otel.SetMeterProvider(before); _ = provider.Shutdown(t.Context()) })
	o, err := NewTracer()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10_000 {
		name := time.Duration(i).String()
		o.Ordered(t.Context(), "caller "+name, "model "+name, catalog.Generation{CostCents: new(int64(1))}, nil)
	}
	o.Ordered(t.Context(), "", strings.Repeat("x", 1000), catalog.Generation{CostCents: new(int64(5))}, nil)
	series, cents := 0, 0.0
	for name, value := range collectSeries(t, reader) {
		if strings.HasPrefix(name, "easel.order.charged ") {
			series, cents = series+1, cents+value
		}
	}
	if series > maxSeries || cents != 10_005 {
		t.Errorf("got %d series with %v cents for 10,001 callers and models", series, cents)
	}
}

func TestOnlyDocumentedMetricsAndLabelsAreCollected(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithView(tableView()))
	t.Cleanup(func() { _ = provider.Shutdown(t.Context()) })
	library := provider.Meter("some library")
	counter, err := library.Int64Counter("its.own.count")
	if err != nil {
		t.Fatal(err)
	}
	changes, err := library.Int64Counter("easel.changes")
	if err != nil {
		t.Fatal(err)
	}
	counter.Add(t.Context(), 1, metric.WithAttributes(attribute.String("url", "a thousand different ones")))
	changes.Add(t.Context(), 1, metric.WithAttributes(attribute.String("server.address", "made up"), attribute.String("easel.generation.state", "failed")))
	if got, want := collectSeries(t, reader), map[string]float64{"easel.changes easel.generation.state=failed": 1}; !maps.Equal(got, want) {
		t.Errorf("measured %v, want %v", got, want)
	}
}
